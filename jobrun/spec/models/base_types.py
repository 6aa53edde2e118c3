"""Define the base ``Model`` of all models of the spec, and the types of their keys.

YAML 1.2 gives text, numbers, bools and null; what a text means depends on its place.
Each scalar type here (expression, duration, size, name) checks one such meaning, with one error and
one mend.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError, core_schema

from jobrun.core.text.names import BLOB_NAME, FILE_NAME
from jobrun.core.text.patterns import lazy_pattern
from jobrun.core.text.units import parse_size

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = lazy_pattern(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_EVERY = lazy_pattern(r"(\d+)\s?(ep|records)")
_SCALARS = (str, bool, int, float)
_PLUGIN_LOADER = "pydantic.plugin._loader"


class Model(BaseModel):
    """The base of everything in a spec: frozen, and closed to unknown keys."""

    # Built as parts of the job's: else each is built again for itself, and for each above it.
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False, defer_build=True)

    @classmethod
    def model_rebuild(cls, **options: Any) -> bool | None:
        """Build the validator of a subclass of the base ``Model``, without pydantic's plug-ins.

        Those are looked for in the metadata of all installed packages. Other models of this
        process, those of callables, still get theirs.
        """
        if cls.__pydantic_complete__ or _PLUGIN_LOADER in sys.modules:
            return super().model_rebuild(**options)
        without = ModuleType(_PLUGIN_LOADER)
        without.__dict__["get_plugins"] = tuple
        sys.modules[_PLUGIN_LOADER] = without
        try:
            return super().model_rebuild(**options)
        finally:
            del sys.modules[_PLUGIN_LOADER]


class Before:
    """Checks or converts a value before its scalar type does: pydantic's ``BeforeValidator``.

    That inspects the signature of its function at each place of a model where it is used, which
    takes as long as everything else that is built for the place.
    """

    def __init__(self, check: Callable[[Any], Any]) -> None:
        self._check = check

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(self._check, handler(source))


class Scalar:
    """Gives a scalar type its schema as it is, which pydantic need not derive at each place.

    Two hundred keys of the spec have one of a dozen such types. A bound in a key's ``Field`` would
    be lost: pydantic applies it first. Here it belongs to the schema, or behind the type in an
    ``Annotated`` of its own.
    """

    def __init__(
        self,
        schema: core_schema.CoreSchema,
        check: Callable[[Any], Any] | None = None,
        shown: dict[str, Any] | None = None,
    ) -> None:
        """Store the pydantic schema of a scalar type, which all keys of that type share.

        Args:
            schema: That of the value.
            check: Checks or converts what is given before.
            shown: The JSON Schema, where it is not the one that follows from the other.
        """
        if check is not None:
            schema = core_schema.no_info_before_validator_function(check, schema)
        self._schema: Any = schema
        if shown is not None:
            self.__get_pydantic_json_schema__ = lambda _schema, _handler: shown.copy()

    def __get_pydantic_core_schema__(
        self, _source: Any, _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        # A copy, because pydantic adds details of the key to it.
        schema: core_schema.CoreSchema = self._schema.copy()
        return schema


Bool = Annotated[bool, Scalar(core_schema.bool_schema(strict=True))]
Int = Annotated[int, Scalar(core_schema.int_schema(strict=True))]
NotNegative = Annotated[int, Scalar(core_schema.int_schema(strict=True, ge=0))]
Positive = Annotated[int, Scalar(core_schema.int_schema(strict=True, ge=1))]
Float = Annotated[float, Scalar(core_schema.float_schema(strict=True, allow_inf_nan=False))]
Str = Annotated[str, Scalar(core_schema.str_schema(strict=True))]
FunctionName = Annotated[
    str, Scalar(core_schema.str_schema(strict=True, pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$"))
]


def _given(value: Any) -> Any:
    if value is None:
        raise PydanticCustomError("no_value", "missing value")
    return value


class _Optional:
    """Lets a key be left out: its value is None then, which cannot be written."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        either = core_schema.nullable_schema(handler(source))
        return core_schema.no_info_before_validator_function(_given, either)


# A key that may be left out. Written without a value, it is an error.
if TYPE_CHECKING:
    Given = TypeVar("Given")
    Maybe = Annotated[Given | None, _Optional()]
else:

    class Maybe:
        """Says the same without the union, of which ``typing`` makes a new one for each key."""

        _OPTIONAL = _Optional()

        def __class_getitem__(cls, annotation: Any) -> Any:
            """Build the base type ``Maybe[T]``, for keys that may be absent but not null."""
            return Annotated[annotation, cls._OPTIONAL]


def kind_of(value: Any) -> str:
    """Return the base type of a key's value: ``mapping``, ``list``, or ``text`` for all else."""
    if isinstance(value, dict | Model):
        return "mapping"
    return "list" if isinstance(value, list | tuple) else "text"


ByKind = Discriminator(kind_of)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not FILE_NAME.fullmatch(value):
        raise PydanticCustomError("name", "expected a name")
    return value


def _blob(value: Any) -> str:
    if not isinstance(value, str) or not _is_blob_name(value):
        raise PydanticCustomError("blob_name", "expected a blob's name")
    return value


def _is_blob_name(text: str) -> bool:
    """Return whether a scalar in a spec is a valid blob name, in Unicode's normal form NFKC."""
    if not BLOB_NAME.fullmatch(text):
        return False
    return text.isascii() or (text.isidentifier() and unicodedata.is_normalized("NFKC", text))


def _expression(value: Any) -> Any:
    if isinstance(value, _SCALARS):
        return value
    if isinstance(value, list | tuple):
        return tuple(_expression(item) for item in value)
    raise PydanticCustomError(
        "expression", "expected an expression: text, a number, true, false, or a list of them"
    )


def _duration(value: Any) -> float:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise PydanticCustomError("duration", "expected a duration such as 90s, 30m, 4h or 2d")
    return float(match[1]) * _UNITS[match[2]]


def _byte_size(value: Any) -> int:
    size = value if type(value) is int else parse_size(value) if isinstance(value, str) else None
    if size is None or size < 1:
        raise PydanticCustomError("size", "expected a size such as 500MB or 2GiB")
    return size


# A dataclass, because pydantic serialises it.
@dataclass(frozen=True, slots=True)
class Every:
    """How often: an amount of epochs, of seconds, or of records; or as is best."""

    unit: Literal["epochs", "seconds", "records", "auto"]
    amount: float


def _every(value: Any) -> Every:
    if isinstance(value, Every):
        return value
    if value == "auto":
        return Every("auto", 1)
    match = _EVERY.fullmatch(value) if isinstance(value, str) else None
    if match is not None and int(match[1]) > 0:
        return Every("epochs" if match[2] == "ep" else "records", int(match[1]))
    if isinstance(value, str) and _DURATION.fullmatch(value) and _duration(value) > 0:
        return Every("seconds", _duration(value))
    raise PydanticCustomError(
        "every", "expected auto, epochs such as 5ep, or a duration such as 10m"
    )


def _scalar(value: Any) -> Any:
    if isinstance(value, bool | int | float | str):
        return value
    if value is None:
        return _given(value)
    raise PydanticCustomError("scalar", "expected a single value")


_EXPRESSION_SCHEMA = {
    "anyOf": [{"type": kind} for kind in ("string", "number", "boolean", "array")]
}

# Editors treat \\w as ASCII only; this pattern leaves the decision to the check above.
_BLOB_PATTERN = "^[A-Za-z_\\u0080-\\uffff][0-9A-Za-z_\\u0080-\\uffff]{0,63}$"

Name = Annotated[
    str,
    Scalar(
        core_schema.str_schema(),
        check=_name,
        shown={"type": "string", "pattern": f"^{FILE_NAME.pattern}$"},
    ),
]
BlobName = Annotated[
    str,
    Scalar(
        core_schema.str_schema(), check=_blob, shown={"type": "string", "pattern": _BLOB_PATTERN}
    ),
]
Expression = Annotated[
    Any, Scalar(core_schema.any_schema(), check=_expression, shown=_EXPRESSION_SCHEMA)
]
SingleValue = Annotated[
    Any,
    Scalar(
        core_schema.any_schema(),
        check=_scalar,
        shown={"anyOf": [{"type": kind} for kind in ("string", "number", "boolean")]},
    ),
]
Seconds = Annotated[
    float,
    Scalar(
        core_schema.float_schema(
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda seconds: f"{Decimal(repr(seconds)):f}s", when_used="json"
            )
        ),
        check=_duration,
        shown={"type": "string", "pattern": r"^\d+(\.\d+)?(ms|s|m|h|d)$"},
    ),
]
ByteSize = Annotated[
    int,
    Scalar(
        core_schema.int_schema(),
        check=_byte_size,
        shown={
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": r"^\d+(\.\d+)?\s?([KMGTP]i?|k)?B?$"},
            ]
        },
    ),
]
EveryValue = Annotated[
    Any,
    Scalar(
        core_schema.any_schema(),
        check=_every,
        shown={"type": "string", "pattern": r"^(auto|\d+(\.\d+)?\s?(ep|records|ms|s|m|h|d))$"},
    ),
]

# The key of a deferred model's name in the JSON Schema of another one, until json_schema, which
# has the definitions of all, makes references of them.
DEFERRED_MARK = "deferred"


class Deferred:
    """The type of a key whose deferred model is in another module of this folder.

    To define and build all models takes as long as all else in the check of a short spec, which
    uses a few of them.
    """

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name
        self._check: Callable[[Any], Any] | None = None

    @property
    def model(self) -> type[Model]:
        """Import the model that a deferred type of a key names, and return it."""
        model: type[Model] = getattr(import_module(f"{__package__}.{self._module}"), self._name)
        return model

    def _validate(self, value: Any) -> Any:
        if self._check is None:
            self.model.model_rebuild()
            self._check = self.model.__pydantic_validator__.validate_python
        return self._check(value)

    def __get_pydantic_core_schema__(
        self, _source: Any, _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        # A ValidationError in it becomes part of the whole one, behind the place of the value.
        return core_schema.no_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(
        self, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {DEFERRED_MARK: self._name}
