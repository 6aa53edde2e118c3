"""Check calls in expressions against signatures: counts, keywords, dtypes, targets."""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from jobrun.core.codes import Code
from jobrun.core.errors import Fault, Origin, SpecError
from jobrun.core.text.names import did_you_mean
from jobrun.graph.expressions import (
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

# Aliases of dtypes, valid only where a dtype is expected.
DTYPE_WORDS: dict[str, str] = {
    "float": "float64", "int": "int64", "bool": "bool_", "complex": "complex128",
    "half": "float16", "single": "float32", "double": "float64",
    "f2": "float16", "f4": "float32", "f8": "float64", "i1": "int8", "i2": "int16",
    "i4": "int32", "i8": "int64", "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64",
    "c8": "complex64", "c16": "complex128",
}  # fmt: skip
# The second argument is an axis here, but a second value in Python's functions.
_AXIS_SECOND = {"max": "maximum", "min": "minimum", "sum": "add"}

_CallOrDraw = TypeVar("_CallOrDraw", Call, Draw)


class CallFault(Struct, frozen=True):
    """One fault of a call.

    Attributes:
        argument: Position or keyword of the faulty argument; None for the call as a whole.
    """

    code: Code
    message: str
    mend: str
    argument: int | str | None = None


class CallFaults(Struct):
    """Collects the faults of one call."""

    title: str
    faults: list[CallFault] = field(default_factory=list)

    def add(self, code: Code, message: str, mend: str, argument: int | str | None = None) -> None:
        """Add to the list a fault of a call whose arguments do not match the signature."""
        self.faults.append(CallFault(code, message, mend, argument))


def check_call(call: Call, operator: OpDef) -> tuple[Call, list[CallFault]]:
    """Check a call to an operator: number, names and kinds of its arguments."""
    title = f"{operator.name}{operator.signature}"
    faults = CallFaults(title)
    signature = operator.parameters
    _check_count(call.args, call.kwargs, signature, faults)
    _check_mutated_arguments(call, operator, faults)
    _check_axis(call, faults)
    return _resolve_dtypes(call, signature, faults), faults.faults


def check_draw(draw: Draw, method: DrawDef) -> tuple[Draw, list[CallFault]]:
    """Check the arguments of a call to a method of ``rng``, such as ``rng.random(3)``."""
    faults = CallFaults(f"rng.{method.name}{method.signature}")
    _check_count(draw.args, draw.kwargs, method.parameters, faults)
    return _resolve_dtypes(draw, method.parameters, faults), faults.faults


def require_valid_call(call: Call, operator: OpDef, origin: Origin, path: str) -> Call:
    """Check an operator call by its signature; raise all its faults together.

    Raises:
        SpecError: The call is not valid; with all its faults (E105, E114, E118).
    """
    checked, faults = check_call(call, operator)
    if faults:
        raise SpecError(
            *(Fault(fault.code, fault.message, fault.mend, origin, path) for fault in faults)
        )
    return checked


def _check_count(
    args: tuple[Expr, ...],
    kwargs: tuple[tuple[str, Expr], ...],
    signature: Signature,
    faults: CallFaults,
) -> None:
    title = faults.title
    name = title.split("(")[0]
    count = len(args)
    if signature.too_many(count):
        most = len(signature.positional)
        message = f"{name} takes {_count_text(most)} by position, but {count} were given"
        faults.add("E105", message, f"its signature is {title}", most)
    seen = set(signature.positional[:count])
    for keyword, _ in kwargs:
        if keyword not in signature.keywords:
            mend = did_you_mean(keyword, signature.keywords)
            if not signature.keywords:
                mend = f"its signature is {title}"
            faults.add("E105", f"{name} has no argument '{keyword}'", mend, keyword)
        elif keyword in seen:
            message = f"{name} got '{keyword}' twice"
            faults.add("E105", message, f"its signature is {title}", keyword)
        seen.add(keyword)
    missing = signature.missing(count, seen)
    if missing:
        message = f"{name} is missing {' and '.join(repr(argument) for argument in missing)}"
        faults.add("E105", message, f"its signature is {title}")


def _count_text(count: int) -> str:
    return "1 argument" if count == 1 else f"{count} arguments"


def _check_mutated_arguments(call: Call, operator: OpDef, faults: CallFaults) -> None:
    for position in operator.mutates:
        if position < len(call.args) and not isinstance(call.args[position], Name):
            message = f"{operator.name} changes its argument in place, so it must be a blob"
            faults.add("E118", message, "pass the blob itself", position)


def _check_axis(call: Call, faults: CallFaults) -> None:
    pairwise = _AXIS_SECOND.get(call.function)
    if pairwise is None or len(call.args) < 2:
        return
    axis = call.args[1]
    if isinstance(axis, Const | Sequence) and not isinstance(getattr(axis, "value", 0), float):
        return
    message = f"the second argument of {call.function} is an axis"
    mend = f"write axis=…; for two values, write {pairwise}(a, b)"
    faults.add("E105", message, mend, 1)


def _resolve_dtypes(call: _CallOrDraw, signature: Signature, faults: CallFaults) -> _CallOrDraw:
    if "dtype" not in signature.positional and "dtype" not in signature.named:
        return call
    args = tuple(
        _resolve_dtype(value, position, faults)
        if signature.parameter(position) == "dtype"
        else value
        for position, value in enumerate(call.args)
    )
    kwargs = tuple(
        (name, _resolve_dtype(value, name, faults) if name == "dtype" else value)
        for name, value in call.kwargs
    )
    return replace(call, args=args, kwargs=kwargs)


def _resolve_dtype(value: Expr, argument: int | str, faults: CallFaults) -> Expr:
    """Check a call's argument that must be a dtype; return it: ``float32`` for "float32"."""
    match value:
        case Dtype() | Const(value=None, ellipsis=False) | Attribute(name="dtype"):
            return value
        case Const(value=str(text)) if text in DTYPE_WORDS or text in DTYPES:
            return Dtype(DTYPE_WORDS.get(text, text))
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return Conditional(
                condition,
                _resolve_dtype(then, argument, faults),
                _resolve_dtype(otherwise, argument, faults),
            )
        case Const(value=str(text)):
            mend = did_you_mean(text, DTYPES)
            faults.add("E114", f"unknown dtype '{text}'", mend, argument)
        case _:
            mend = "write its name, such as float32, or the dtype of a blob: x.dtype"
            if isinstance(value, Const):
                mend += "; the lengths of several axes are in brackets: zeros((2, 3))"
            faults.add("E114", "a dtype must be known before the job runs", mend, argument)
    return value
