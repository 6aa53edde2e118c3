"""What is known of an expression's value from what is known of its blobs. No numpy, no guess."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import assert_never

from jobrun.compile.dtypes import (
    UNKNOWN,
    Known,
    Shape,
    as_float,
    broadcast,
    elementwise,
    join,
    promote,
    scalar,
    without_value,
)
from jobrun.compile.shape_rules import DRAW_RULES, RULES, Arguments, int_value
from jobrun.graph.expr import (
    Attribute,
    Binary,
    Builtin,
    Call,
    Compare,
    Conditional,
    Const,
    Draw,
    Dtype,
    Expr,
    Index,
    Logical,
    LoopIndex,
    Name,
    NodeBlob,
    OutputRead,
    Sequence,
    Slice,
    Text,
    Unary,
)


def evaluate(  # noqa: C901, PLR0912 - one line per kind of a closed union
    expr: Expr, names: Mapping[str, Known]
) -> Known:
    """What is known of an expression's value."""
    match expr:
        case Const(value=value, ellipsis=ellipsis):
            return UNKNOWN if ellipsis else scalar(value)
        case Name(name=name):
            return names.get(name, UNKNOWN)
        case Builtin(name=name):
            return _builtin(name)
        case LoopIndex():
            return Known("int64", (), weak=True)
        case Unary(operator=operator, operand=operand):
            return _unary(operator, evaluate(operand, names))
        case Binary(left=left, operator=operator, right=right):
            return binary(evaluate(left, names), operator, evaluate(right, names))
        case Compare(left=left, rest=rest):
            both = elementwise(evaluate(left, names), evaluate(rest[0], names))
            return Known("bool", both.shape, weak=both.weak) if len(rest) == 1 else UNKNOWN
        case Conditional(then=then, otherwise=otherwise):
            return join(evaluate(then, names), evaluate(otherwise, names))
        case Call(function=function, args=args, kwargs=kwargs):
            return _call(RULES.get(function), args, kwargs, names)
        case Draw(method=method, args=args, kwargs=kwargs):
            return _call(DRAW_RULES.get(method), args, kwargs, names)
        case Attribute(value=value, name=name):
            return _attribute(evaluate(value, names), name)
        case Index(value=value, index=index):
            return _index(evaluate(value, names), index, names)
        case Sequence() | Logical() | OutputRead() | NodeBlob() | Dtype() | Slice() | Text():
            return UNKNOWN
        case _:
            assert_never(expr)


def _builtin(name: str) -> Known:
    if name in ("inf", "nan", "pi"):
        return scalar(float(getattr(math, name)))
    return UNKNOWN if name == "node.name" else Known("int64", (), weak=True)


def _unary(operator: str, operand: Known) -> Known:
    if operator == "not":
        return Known("bool", (), weak=True)
    if operator == "-" and operand.value is not None and operand.dtype != "bool":
        return scalar(-operand.value)
    return without_value(operand)


def binary(left: Known, operator: str, right: Known) -> Known:
    """What is known of ``left operator right``."""
    if operator == "@":
        return Known(promote(left, right), _matmul(left.shape, right.shape))
    both = elementwise(left, right)
    if operator == "/":
        return Known(as_float(both.dtype) if both.dtype else None, both.shape, weak=both.weak)
    exact = left.value is not None and right.value is not None and operator in "+-*"
    if exact and both.weak and "bool" not in (left.dtype, right.dtype):
        return scalar(_ARITHMETIC[operator](left.value, right.value))
    if operator in ("**", "<<", ">>") and both.weak:
        return UNKNOWN
    return both


_ARITHMETIC: dict[str, Callable[..., int | float]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
}


def _matmul(left: Shape | None, right: Shape | None) -> Shape | None:
    if not left or not right:
        return None
    batch = broadcast(left[:-2], right[:-2])
    if batch is None:
        return None
    rows = left[-2:-1] if len(left) > 1 else ()
    columns = right[-1:] if len(right) > 1 else ()
    return batch + rows + columns


def _call(
    rule: Callable[[Arguments], Known] | None,
    args: tuple[Expr, ...],
    kwargs: tuple[tuple[str, Expr], ...],
    names: Mapping[str, Known],
) -> Known:
    if rule is None:
        return UNKNOWN

    def known(expr: Expr) -> Known:
        return evaluate(expr, names)

    return rule(Arguments(args, dict(kwargs), known))


def _attribute(value: Known, name: str) -> Known:
    if name == "T":
        return Known(value.dtype, value.shape[::-1] if value.shape is not None else None)
    if name == "ndim" and value.shape is not None:
        return scalar(len(value.shape))
    if name == "size" and value.shape is not None and None not in value.shape:
        return scalar(math.prod(length for length in value.shape if length is not None))
    return UNKNOWN


def _index(value: Known, index: Expr, names: Mapping[str, Known]) -> Known:
    if value.shape is None:
        return UNKNOWN
    several = isinstance(index, Sequence) and index.form == "tuple"
    items = index.items if isinstance(index, Sequence) and several else (index,)
    if len(items) == 1:
        mask = _known_index(items[0], names)
        if mask.dtype == "bool" and mask.shape is not None and len(mask.shape) == 1:
            return Known(value.dtype, (None, *value.shape[1:]))
    lengths = _indexed_lengths(items, list(value.shape), names)
    return UNKNOWN if lengths is None else Known(value.dtype, lengths)


def _known_index(item: Expr, names: Mapping[str, Known]) -> Known:
    plain = not isinstance(item, Slice | Text) and item != Const(None, ellipsis=True)
    return evaluate(item, names) if plain else UNKNOWN


def _indexed_lengths(
    items: tuple[Expr, ...], rest: list[int | None], names: Mapping[str, Known]
) -> Shape | None:
    """The lengths left by basic indices and at most one index array; None beyond these rules."""
    lengths: list[int | None] = []
    arrays = 0
    for item in items:
        if item == Const(None):
            lengths.append(1)
        elif not rest:
            return None
        elif isinstance(item, Slice):
            lengths.append(_slice_length(item, rest.pop(0), names))
        else:
            chosen = _known_index(item, names)
            arrays += bool(chosen.shape)
            if chosen.shape is None or chosen.dtype in (None, "bool") or arrays > 1:
                return None
            rest.pop(0)
            lengths += chosen.shape
    return (*lengths, *rest)


def _slice_length(item: Slice, length: int | None, names: Mapping[str, Known]) -> int | None:
    given = [part for part in (item.start, item.stop, item.step) if part is not None]
    if length is None or any(int_value(evaluate(part, names)) is None for part in given):
        return None
    start, stop, step = (
        None if part is None else int_value(evaluate(part, names))
        for part in (item.start, item.stop, item.step)
    )
    return None if step == 0 else len(range(length)[slice(start, stop, step)])
