"""Limit the size of expressions and of the integers in them."""

from __future__ import annotations

import math
from collections.abc import Callable

from jobrun.graph.expressions import (
    Attribute,
    Binary,
    Conditional,
    Const,
    Expr,
    Logical,
    Sequence,
    Text,
    Unary,
)

MAX_TEXT_LENGTH = 4096
MAX_DEPTH = 50
MAX_NODES = 2_000
MAX_ITEMS = 1_000
MAX_TEXT_BYTES = 64 * 1024
MAX_INT = 2**64
# Enough to repeat a shape such as (3,), the only reason to multiply a list.
_MAX_REPEATS = 64
_MAX_AXES = 64

_EXACT: dict[str, Callable[[int, int], int]] = {
    "+": lambda lhs, rhs: lhs + rhs,
    "-": lambda lhs, rhs: lhs - rhs,
    "*": lambda lhs, rhs: lhs * rhs,
    "&": lambda lhs, rhs: lhs & rhs,
    "|": lambda lhs, rhs: lhs | rhs,
    "^": lambda lhs, rhs: lhs ^ rhs,
    ">>": lambda lhs, rhs: lhs >> min(rhs, 64) if rhs >= 0 else 0,
    "//": lambda lhs, rhs: lhs // rhs if rhs else 0,
    "%": lambda lhs, rhs: lhs % rhs if rhs else 0,
}


def fits_64_bits(value: int) -> bool:
    """Return whether an integer in an expression is within the limit of 64 bits."""
    return abs(value) <= MAX_INT


def fold_constant_int(expr: Expr) -> int | None:
    """Compute a constant integer such as ``2 ** 10``; refuse one beyond the limit of 64 bits.

    Returns None for any other expression.

    Raises:
        OverflowError: It has more than 64 bits. Nothing large is computed.
    """
    # match would take three times as long, and this runs for each operator of a large spec.
    if isinstance(expr, Const):
        return int(expr.value) if isinstance(expr.value, int) else None
    if isinstance(expr, Unary):
        value = fold_constant_int(expr.operand)
        return None if value is None else _fold_unary(expr.operator, value)
    if isinstance(expr, Binary):
        first = fold_constant_int(expr.left)
        second = None if first is None else fold_constant_int(expr.right)
        if first is None or second is None:
            return None
        return _require_64_bits(_fold_binary(first, expr.operator, second))
    return None


def may_be_text(expr: Expr) -> bool:
    """Return whether an operand may be a string, which the limits do not let ``*`` repeat."""
    match expr:
        case Text() | Const(value=str()):
            return True
        case Binary(left=lhs, operator="+" | "%" | "*", right=rhs):
            return may_be_text(lhs) or may_be_text(rhs)
        case Conditional(then=then, otherwise=otherwise):
            return may_be_text(then) or may_be_text(otherwise)
        case Logical(operands=operands):
            return any(map(may_be_text, operands))
        case _:
            return False


def repeats_too_much(expr: Binary) -> bool:
    """Return whether ``*`` breaks a limit: it repeats a string, or makes too long a list."""
    if expr.operator != "*":
        return False
    if may_be_text(expr):
        return True
    return (
        max(_max_length(expr.left), _max_length(expr.right)) > 0 and _max_length(expr) > MAX_ITEMS
    )


def _max_length(expr: Expr) -> float:
    """Compute the largest length that a list in an expression can have; 0 if it is no list."""
    match expr:
        case Sequence(items=items):
            return max(1, len(items))
        case Attribute(name="shape"):
            return _MAX_AXES
        case Binary(left=lhs, operator="+", right=rhs):
            # A list that is added to an array becomes an array.
            lengths = _max_length(lhs), _max_length(rhs)
            return sum(lengths) if all(lengths) else 0
        case Binary(left=lhs, operator="*", right=rhs):
            if length := _max_length(lhs):
                return length * _max_repeats(rhs)
            length = _max_length(rhs)
            return length * _max_repeats(lhs) if length else 0
        case Conditional(then=then, otherwise=otherwise):
            return max(_max_length(then), _max_length(otherwise))
        case Logical(operands=operands):
            return max(map(_max_length, operands))
        case _:
            return 0


def _max_repeats(expr: Expr) -> float:
    """Return the factor ``n`` of ``list * n``; infinity if unknown or beyond the limit."""
    value = expr.value if isinstance(expr, Const) else None
    if isinstance(value, float):
        return 0
    return value if isinstance(value, int) and 0 <= value <= _MAX_REPEATS else math.inf


def _fold_unary(operator: str, value: int) -> int | None:
    if operator == "not":
        return None
    return {"-": -value, "+": value, "~": ~value}[operator]


def _fold_binary(lhs: int, operator: str, rhs: int) -> int | None:
    if operator == "**":
        return _fold_power(lhs, rhs)
    if operator == "<<":
        if lhs and rhs > 64:
            raise OverflowError
        return lhs << rhs if rhs >= 0 and lhs else 0
    compute = _EXACT.get(operator)
    return None if compute is None else compute(lhs, rhs)


def _fold_power(base: int, exponent: int) -> int | None:
    if exponent < 0:
        return None
    if abs(base) <= 1:
        return int(base**exponent)
    if exponent > 64:
        raise OverflowError
    return int(base**exponent)


def _require_64_bits(value: int | None) -> int | None:
    if value is not None and not fits_64_bits(value):
        raise OverflowError
    return value
