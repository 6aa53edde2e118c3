"""How large an expression may be, and how large the numbers in it. Values only."""

from __future__ import annotations

import math
from collections.abc import Callable

from jobrun.graph.expr import (
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

MOST_NODES = 2_000
MOST_ITEMS = 1_000
MOST_TEXT_BYTES = 64 * 1024
LARGEST_INT = 2**64
# Repeating a shape such as (3,) is all that multiplying a list is good for.
_MOST_REPEATS = 64
_MOST_AXES = 64

_EXACT: dict[str, Callable[[int, int], int]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "&": lambda left, right: left & right,
    "|": lambda left, right: left | right,
    "^": lambda left, right: left ^ right,
    ">>": lambda left, right: left >> min(right, 64) if right >= 0 else 0,
    "//": lambda left, right: left // right if right else 0,
    "%": lambda left, right: left % right if right else 0,
}


def fits(value: int) -> bool:
    """Whether an int of a spec is of a size that numpy knows."""
    return abs(value) <= LARGEST_INT


def constant_int(expr: Expr) -> int | None:
    """The value of an expression made of int literals alone, if it is an int.

    Raises:
        OverflowError: It, or a part of it, does not fit; nothing large is computed.
    """
    match expr:
        case Const(value=int(literal)):
            return int(literal)
        case Unary(operator=operator, operand=operand):
            value = constant_int(operand)
            return None if value is None else _unary(operator, value)
        case Binary(left=left, operator=operator, right=right):
            first, second = constant_int(left), constant_int(right)
            if first is None or second is None:
                return None
            return _checked(_binary(first, operator, second))
        case _:
            return None


def is_text(expr: Expr) -> bool:
    """Whether an expression is text, or may be, as far as its literals tell."""
    match expr:
        case Text() | Const(value=str()):
            return True
        case Binary(left=left, operator="+" | "%" | "*", right=right):
            return is_text(left) or is_text(right)
        case Conditional(then=then, otherwise=otherwise):
            return is_text(then) or is_text(otherwise)
        case Logical(operands=operands):
            return any(map(is_text, operands))
        case _:
            return False


def repeats_too_much(expr: Binary) -> bool:
    """Whether text is multiplied at all, or a list by anything but a small int."""
    if expr.operator != "*":
        return False
    if is_text(expr):
        return True
    return max(_length(expr.left), _length(expr.right)) > 0 and _length(expr) > MOST_ITEMS


def _length(expr: Expr) -> float:
    """How many items a list has at most; 0 of what is none, or is an array in the end."""
    match expr:
        case Sequence(items=items):
            return max(1, len(items))
        case Attribute(name="shape"):
            return _MOST_AXES
        case Binary(left=left, operator="+", right=right):
            # What is added to an array is one itself.
            lengths = _length(left), _length(right)
            return sum(lengths) if all(lengths) else 0
        case Binary(left=left, operator="*", right=right):
            if length := _length(left):
                return length * _times(right)
            length = _length(right)
            return length * _times(left) if length else 0
        case Conditional(then=then, otherwise=otherwise):
            return max(_length(then), _length(otherwise))
        case Logical(operands=operands):
            return max(map(_length, operands))
        case _:
            return 0


def _times(expr: Expr) -> float:
    """How often a list is repeated by this factor at most; a float makes an array or an error."""
    value = expr.value if isinstance(expr, Const) else None
    if isinstance(value, float):
        return 0
    return value if isinstance(value, int) and 0 <= value <= _MOST_REPEATS else math.inf


def _unary(operator: str, value: int) -> int | None:
    if operator == "not":
        return None
    return {"-": -value, "+": value, "~": ~value}[operator]


def _binary(left: int, operator: str, right: int) -> int | None:
    if operator == "**":
        return _power(left, right)
    if operator == "<<":
        if left and right > 64:
            raise OverflowError
        return left << right if right >= 0 and left else 0
    compute = _EXACT.get(operator)
    return None if compute is None else compute(left, right)


def _power(base: int, exponent: int) -> int | None:
    if exponent < 0:
        return None
    if abs(base) <= 1:
        return int(base**exponent)
    if exponent > 64:
        raise OverflowError
    return int(base**exponent)


def _checked(value: int | None) -> int | None:
    if value is not None and not fits(value):
        raise OverflowError
    return value
