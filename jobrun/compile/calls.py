"""Whether a call fits its function's signature: counts, keywords, dtypes, in-place arguments."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeVar

from jobrun.core.errors import Fault, SpecError
from jobrun.core.names import did_you_mean
from jobrun.core.origin import Origin
from jobrun.graph.expr import (
    DTYPES,
    Attribute,
    Call,
    Conditional,
    Const,
    Draw,
    Dtype,
    Expr,
    Name,
    Sequence,
)
from jobrun.ops.definition import DrawDef, OpDef, Signature

# Other ways to say a dtype, where one is wanted and nowhere else.
DTYPE_WORDS: dict[str, str] = {
    "float": "float64", "int": "int64", "bool": "bool_", "complex": "complex128",
    "half": "float16", "single": "float32", "double": "float64",
    "f2": "float16", "f4": "float32", "f8": "float64", "i1": "int8", "i2": "int16",
    "i4": "int32", "i8": "int64", "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64",
    "c8": "complex64", "c16": "complex128",
}  # fmt: skip
# These take an axis where Python's take a second value.
_AXIS_SECOND = {"max": "maximum", "min": "minimum", "sum": "add"}

_Calling = TypeVar("_Calling", Call, Draw)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a call.

    Attributes:
        argument: Position or keyword of the argument that is to blame; None for the call.
    """

    code: str
    message: str
    mend: str
    argument: int | str | None = None


@dataclass(slots=True)
class Checked:
    """Problems of one call, collected."""

    title: str
    problems: list[Problem] = field(default_factory=list)

    def add(self, code: str, message: str, mend: str, argument: int | str | None = None) -> None:
        """Note one."""
        self.problems.append(Problem(code, message, mend, argument))


def checked_call(call: Call, operator: OpDef) -> tuple[Call, list[Problem]]:
    """The call with its dtypes read, and what is wrong with it."""
    title = f"{operator.name}{operator.signature}"
    found = Checked(title)
    signature = operator.parameters
    _check_count(call.args, call.kwargs, signature, found)
    _check_mutated(call, operator, found)
    _check_axis(call, found)
    return _with_dtypes(call, signature, found), found.problems


def checked_draw(draw: Draw, method: DrawDef) -> tuple[Draw, list[Problem]]:
    """The draw with its dtypes read, and what is wrong with it."""
    found = Checked(f"rng.{method.name}{method.signature}")
    _check_count(draw.args, draw.kwargs, method.parameters, found)
    return _with_dtypes(draw, method.parameters, found), found.problems


def check_call(call: Call, operator: OpDef, origin: Origin, path: str) -> Call:
    """The call of an operator's long form with its dtypes read.

    Raises:
        SpecError: E105, E114 or E118; all that is wrong with it.
    """
    checked, problems = checked_call(call, operator)
    if problems:
        raise SpecError(*(Fault(one.code, one.message, one.mend, origin, path) for one in problems))
    return checked


def _check_count(
    args: tuple[Expr, ...],
    kwargs: tuple[tuple[str, Expr], ...],
    signature: Signature,
    found: Checked,
) -> None:
    title = found.title
    name = title.split("(")[0]
    count = len(args)
    if signature.too_many(count):
        most = len(signature.positional)
        message = f"{name} takes {_arguments(most)} by position, and {count} are given"
        found.add("E105", message, f"its signature is {title}", most)
    seen = set(signature.positional[:count])
    for keyword, _ in kwargs:
        if keyword not in signature.keywords:
            mend = did_you_mean(keyword, signature.keywords)
            if not signature.keywords:
                mend = f"its signature is {title}"
            found.add("E105", f"{name} has no argument '{keyword}'", mend, keyword)
        elif keyword in seen:
            message = f"{name} is given '{keyword}' twice"
            found.add("E105", message, f"its signature is {title}", keyword)
        seen.add(keyword)
    missing = signature.missing(count, seen)
    if missing:
        message = f"{name} is not given {' and '.join(repr(one) for one in missing)}"
        found.add("E105", message, f"its signature is {title}")


def _arguments(count: int) -> str:
    return "1 argument" if count == 1 else f"{count} arguments"


def _check_mutated(call: Call, operator: OpDef, found: Checked) -> None:
    for position in operator.mutates:
        if position < len(call.args) and not isinstance(call.args[position], Name):
            message = f"{operator.name} changes its argument in place, so that must be a blob"
            found.add("E118", message, "name the blob alone", position)


def _check_axis(call: Call, found: Checked) -> None:
    pairwise = _AXIS_SECOND.get(call.function)
    if pairwise is None or len(call.args) < 2:
        return
    axis = call.args[1]
    if isinstance(axis, Const | Sequence) and not isinstance(getattr(axis, "value", 0), float):
        return
    message = f"the second argument of {call.function} is an axis"
    mend = f"write axis=…; of two values, write {pairwise}(a, b)"
    found.add("E105", message, mend, 1)


def _with_dtypes(call: _Calling, signature: Signature, found: Checked) -> _Calling:
    if "dtype" not in signature.positional and "dtype" not in signature.named:
        return call
    args = tuple(
        _dtype(value, position, found) if signature.parameter(position) == "dtype" else value
        for position, value in enumerate(call.args)
    )
    kwargs = tuple(
        (name, _dtype(value, name, found) if name == "dtype" else value)
        for name, value in call.kwargs
    )
    return replace(call, args=args, kwargs=kwargs)


def _dtype(value: Expr, argument: int | str, found: Checked) -> Expr:
    """A dtype as it is known before anything runs: objects and callables never get here."""
    match value:
        case Dtype() | Const(value=None, ellipsis=False) | Attribute(name="dtype"):
            return value
        case Const(value=str(text)) if text in DTYPE_WORDS or text in DTYPES:
            return Dtype(DTYPE_WORDS.get(text, text))
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return Conditional(
                condition, _dtype(then, argument, found), _dtype(otherwise, argument, found)
            )
        case Const(value=str(text)):
            mend = did_you_mean(text, DTYPES)
            found.add("E114", f"there is no dtype '{text}' here", mend, argument)
        case _:
            mend = "write its name, such as float32, or that of a blob: x.dtype"
            found.add("E114", "a dtype must be known before the job runs", mend, argument)
    return value
