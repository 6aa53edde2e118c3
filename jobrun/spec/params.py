"""The values of declared params: type, bounds, choices. Pure; knows no files."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from jobrun.core.errors import Fault
from jobrun.core.origin import Origin
from jobrun.spec.declared import ParamSpec
from jobrun.spec.faults import found
from jobrun.spec.nodes import Mapping, Node, Path, Scalar, origin_of, path_text
from jobrun.spec.readings import both_readings
from jobrun.spec.scalars import old_reading
from jobrun.spec.substitute import Substitution

Param = bool | int | float | str

_TYPES: dict[str, type] = {"int": int, "float": float, "bool": bool, "text": str}
_ARTICLES = {"int": "an int", "float": "a float", "bool": "true or false", "text": "text"}


class _UnfitError(Exception):
    """A value that is not of its param's type."""

    def __init__(self, code: str, message: str, mend: str) -> None:
        super().__init__(message)
        self.code = code
        self.mend = mend


class ParamValues:
    """Works the params out, in the order of the file, so that one may use those above it.

    Attributes:
        values: The values, by name.
        faults: What is wrong with them.
        warnings: Values that may not mean what they look like.
    """

    def __init__(self, substitution: Substitution) -> None:
        self.values: dict[str, Param] = {}
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []
        self._substitution = substitution
        substitution.params = self.values

    def declare(self, name: str, node: Node) -> Any:
        """Work out one param.

        Returns:
            The param as plain data in long form, its ``default`` being the value.
        """
        path: Path = ("params", name)
        data = self._substitution.tree(node, path)
        declared = self._long_form(data, node, path)
        if declared is None:
            # What is wrong with the form is told when the whole spec is checked.
            self.values[name] = 0
            return data
        default = node.values.get("default", node) if isinstance(node, Mapping) else node
        value = self._value(declared, default, path)
        self.values[name] = value
        return {**(data if isinstance(data, dict) else {}), "type": _kind(value), "default": value}

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
        message = f"'{node.value}' is text here (YAML 1.1 read it as {old})"
        mend = f"write {old}, or quote it if text is meant"
        where = origin_of(node.place)
        self.warnings.append(Fault("W101", message, mend, where, path_text(path), "warning"))

    def _value(self, declared: ParamSpec, node: Node, path: Path) -> Param:
        where = origin_of(node.place)
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
        mend = "quote it to make it text" if kind == "text" else f"give {expected}"
        raise _UnfitError("E036", f"expected {expected}, found {found(value)}", mend)

    def _check_bounds(self, value: Param, declared: ParamSpec, where: Origin, path: Path) -> None:
        if declared.choices and value not in declared.choices:
            shown = ", ".join(str(choice) for choice in declared.choices)
            self._fault(f"{value!r} is not one of the choices", f"choose: {shown}", where, path)
        if isinstance(value, str):
            return
        if declared.min is not None and not value >= declared.min:
            message = f"{value!r} is less than the least value {declared.min:g}"
            self._fault(message, "give a larger value", where, path)
        if declared.max is not None and not value <= declared.max:
            message = f"{value!r} is more than the largest value {declared.max:g}"
            self._fault(message, "give a smaller value", where, path)

    def _fault(self, message: str, mend: str, where: Origin, path: Path) -> None:
        self.faults.append(Fault("E036", message, mend, where, path_text(path)))


def _kind(value: Any) -> str:
    return next(name for name, kind in _TYPES.items() if type(value) is kind)
