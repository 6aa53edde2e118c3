"""Determine the values of declared params, and check types, bounds and choices."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from typing import Any

from msgspec.structs import replace
from pydantic import ValidationError

from jobrun.core.codes import Code
from jobrun.core.errors import Fault, Origin
from jobrun.core.files.digest import PREFIX, digest_bytes
from jobrun.spec.models.job import ParamSpec
from jobrun.spec.resolve.include import replaced
from jobrun.spec.resolve.substitute import Substitution, references
from jobrun.spec.yaml.nodes import Mapping, Node, Path, Scalar, origin_of, path_text
from jobrun.spec.yaml.scalars import both_readings, old_reading

Param = bool | int | float | str

# Shown in place of a secret param's value.
HIDDEN = "(secret)"

_TYPES: dict[str, type] = {"int": int, "float": float, "bool": bool, "text": str}
_ARTICLES = {"int": "an int", "float": "a float", "bool": "true or false", "text": "text"}


class _UnfitError(Exception):
    """A value is not of its param's type."""

    def __init__(self, code: Code, message: str, mend: str) -> None:
        super().__init__(message)
        self.code = code
        self.mend = mend


class ParamValues:
    """Computes the values of params in the order of the file, so that one may use those above it.

    Attributes:
        values: The values, by name.
        secrets: Those that are not to be recorded, by name: the node their value is at, or None
            where the environment has it.
        missing: Secrets without a value, which stand for an empty one.
        faults: What is wrong with them.
        warnings: Values that may not mean what they look like.
    """

    def __init__(self, substitution: Substitution) -> None:
        self.values: dict[str, Param] = {}
        self.secrets: dict[str, Scalar | None] = {}
        self.missing: list[str] = []
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []
        self._substitution = substitution
        substitution.params = self.values

    def declare(self, name: str, node: Node) -> Any:
        """Determine the value of one declared param, and check its type, bounds and choices.

        Returns:
            The param as plain data in long form, its ``default`` being the value.
        """
        path: Path = ("params", name)
        data = self._substitution.tree(node, path)
        declared = self._long_form(data, node, path)
        if declared is None:
            # A malformed declaration is reported when the whole spec is validated.
            self.values[name] = 0
            return data
        default = node.values.get("default", node) if isinstance(node, Mapping) else node
        if declared.secret:
            return self._secret(name, declared, default, data)
        if references(node) & self.secrets.keys():
            # A value derived from a secret would reveal it.
            self.secrets[name] = None
        value = self._value(declared, default, path)
        self.values[name] = value
        return {**(data if isinstance(data, dict) else {}), "type": _kind(value), "default": value}

    def _secret(self, name: str, declared: ParamSpec, node: Node, data: Any) -> Any:
        """Determine a secret param's value, of which only a digest may leave this process."""
        path: Path = ("params", name)
        kind = declared.type or ("text" if declared.default is None else _kind(declared.default))
        if declared.default is None:
            self.missing.append(name)
            self.secrets[name] = None
            value = self.values[name] = _TYPES[kind]()
            return {**data, "type": kind, "default": value}
        where = origin_of(node.position)
        written = node if isinstance(node, Scalar) else None
        is_reference = written is not None and str(written.value).startswith("${env:")
        # An empty text means that the param was not given.
        if where.line and not is_reference and declared.default != "":
            mend = f"write default: ${{env:NAME}}, or give it by --set params.{name}=VALUE"
            message = f"a file contains the value of the secret param '{name}'"
            self.faults.append(Fault("E447", message, mend, where, path_text(path)))
        before = len(self.faults)
        value = self._value(declared, node, path)
        self.values[name] = value
        for index in range(before, len(self.faults)):
            # The message must not show the secret.
            fault = self.faults[index]
            message = f"invalid value of the secret param '{name}'"
            secret = str(declared.default)
            mend = fault.mend.replace(secret, "it") if secret else fault.mend
            self.faults[index] = replace(fault, message=message, mend=mend)
        digest = digest_bytes(str(value).encode("utf-8", "surrogateescape"))
        self._substitution.digests[f"params.{name}"] = digest.removeprefix(PREFIX)
        self.secrets[name] = None if is_reference else written
        # Digests and dumps are made from the model.
        return {**data, "type": _kind(value), "default": digest}

    def _long_form(self, data: Any, node: Node, path: Path) -> ParamSpec | None:
        if isinstance(node, Scalar):
            data = {"default": data}
            self._warn_of_number(node, path)
        try:
            return ParamSpec.model_validate(data)
        except ValidationError:
            return None

    def _warn_of_number(self, node: Scalar, path: Path) -> None:
        old = old_reading(node.value) if node.plain and isinstance(node.value, str) else None
        if old is None or isinstance(old, bool):
            return
        message = f"'{node.value}' is text (YAML 1.1 would read it as {old})"
        mend = f"write {old}, or quote it if you mean text"
        where = origin_of(node.position)
        self.warnings.append(Fault("W101", message, mend, where, path_text(path), "warning"))

    def _value(self, declared: ParamSpec, node: Node, path: Path) -> Param:
        where = origin_of(node.position)
        name = str(path[-1])
        value = declared.default
        if value is None:
            mend = f"give a default, or --set params.{name}=VALUE"
            self._fault(f"param '{name}' has no value", mend, where, path)
            return 0
        kind = declared.type or _kind(value)
        try:
            quoted = isinstance(node, Scalar) and not node.plain
            value = self._typed(value, kind, path, quoted=quoted)
        except _UnfitError as error:
            self.faults.append(Fault(error.code, str(error), error.mend, where, path_text(path)))
            return 0
        self._check_bounds(value, declared, where, path)
        return value

    def _typed(self, value: Any, kind: str, path: Path, *, quoted: bool) -> Param:
        texts = self._substitution.env_texts
        text = texts.get((*path, "default"), texts.get(path))
        if kind == "text" and text is not None:
            return text
        if kind == "float" and type(value) is int:
            return float(value)
        if isinstance(value, bool | int | float | str) and _kind(value) == kind:
            return value
        expected = _ARTICLES[kind]
        words = None
        if isinstance(value, str) and kind != "text" and not quoted:
            words = both_readings(value, expected, "bool" if kind == "bool" else "number")
        if words is not None:
            raise _UnfitError("E023", *words)
        from jobrun.spec.models.validation_errors import describe_value  # noqa: PLC0415 - after an error only

        mend = "quote it to make it text" if kind == "text" else f"give {expected}"
        raise _UnfitError("E036", f"expected {expected}, found {describe_value(value)}", mend)

    def _check_bounds(self, value: Param, declared: ParamSpec, where: Origin, path: Path) -> None:
        if declared.choices and value not in declared.choices:
            shown = ", ".join(str(choice) for choice in declared.choices)
            self._fault(f"{value!r} is not one of the choices", f"choose: {shown}", where, path)
        if isinstance(value, str):
            return
        if declared.min is not None and not value >= declared.min:
            message = f"{value!r} is less than the minimum {declared.min:g}"
            self._fault(message, "use a larger value", where, path)
        if declared.max is not None and not value <= declared.max:
            message = f"{value!r} is greater than the maximum {declared.max:g}"
            self._fault(message, "use a smaller value", where, path)

    def _fault(self, message: str, mend: str, where: Origin, path: Path) -> None:
        self.faults.append(Fault("E036", message, mend, where, path_text(path)))


def _kind(value: Any) -> str:
    return next(name for name, kind in _TYPES.items() if type(value) is kind)


def substituted(root: Mapping, substitution: Substitution, params: ParamValues) -> dict[str, Any]:
    """Determine a spec's params, then replace all ``${…}`` references in it; return plain data."""
    data: dict[str, Any] = {}
    declared = root.values.get("params")
    seed = root.values.get("seed")
    if seed is None:
        substitution.seed = 0
    elif isinstance(seed, Scalar) and isinstance(seed.value, int):
        substitution.seed = seed.value
    if isinstance(declared, Mapping):
        data["params"] = {
            name: params.declare(name, node) for name, node in declared.values.items()
        }
    if seed is not None:
        data["seed"] = substitution.tree(seed, ("seed",))
    substitution.seed = data.get("seed", 0)
    for key, node in root.values.items():
        if key not in data:
            data[key] = substitution.tree(node, (key,))
    return data


def without_secrets(
    root: Mapping, secrets: MappingType[str, Scalar | None], files: dict[str, str]
) -> Mapping:
    """Remove the values of secret params from a spec's tree, and from texts of ``--set``."""
    declared = root.values.get("params")
    for name, secret in secrets.items():
        node = declared.values[name] if isinstance(declared, Mapping) else None
        if secret is None or not isinstance(node, Mapping) or not isinstance(declared, Mapping):
            continue
        values = {key: value for key, value in node.values.items() if key != "default"}
        declared = replaced(declared, name, Mapping(values, node.keys, node.position))
        root = replaced(root, "params", declared)
        shown = secret.position[0]
        if not secret.position[1]:
            files[shown] = f"params.{name}={HIDDEN}"
    return root
