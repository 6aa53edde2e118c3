"""Compute powers, shifts and remainders for generated code, refusing what would not end.

An integer of millions of bits, and a text that ``%`` would format, take all time or memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Beyond this many bits an integer is a slip: a power would not come back for minutes, nor would a
# product that a loop multiplies by itself.
_LARGEST_INT_BITS = 1 << 20


def power(base: Any, exponent: Any) -> Any:
    """Compute ``base ** exponent`` in generated code; refuse an integer beyond the bound of bits.

    Raises:
        OverflowError: The result would have more than a million bits.
    """
    _bound_power(base, exponent)
    return base**exponent


def shift_left(value: Any, bits: Any) -> Any:
    """Compute ``value << bits`` in generated code; refuse an integer beyond the bound of bits.

    Raises:
        OverflowError: The result would have more than a million bits.
    """
    _bound_shift(value, bits)
    return value << bits


def modulo(value: Any, divisor: Any) -> Any:
    """Compute ``value % divisor`` in generated code; refuse a text, whose format has no bound.

    Raises:
        TypeError: ``value`` is text: a width in it may be of any size.
    """
    _refuse_text(value)
    return value % divisor


def require_bounded(value: Any) -> Any:
    """Return a product from generated arithmetic; refuse an integer beyond the bound of bits.

    Raises:
        OverflowError: It has more than a million bits.
    """
    if type(value) is int:
        _bound(value.bit_length())
    return value


def _modulo_in_place(value: Any, divisor: Any) -> Any:
    _refuse_text(value)
    value %= divisor
    return value


def _power_in_place(base: Any, exponent: Any) -> Any:
    _bound_power(base, exponent)
    base **= exponent
    return base


def _shift_left_in_place(value: Any, bits: Any) -> Any:
    _bound_shift(value, bits)
    value <<= bits
    return value


# The forms of the bounded operators that change an array where it is.
IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "%": _modulo_in_place,
    "**": _power_in_place,
    "<<": _shift_left_in_place,
}


def _refuse_text(value: Any) -> None:
    if isinstance(value, str):
        raise TypeError("text has no '%'; it is filled in by log and message, as in {x:.3f}")


def _bound_power(base: Any, exponent: Any) -> None:
    if type(base) is int and type(exponent) is int:
        _bound(base.bit_length() * exponent)


def _bound_shift(value: Any, bits: Any) -> None:
    if type(value) is int and type(bits) is int:
        _bound(value.bit_length() + bits)


def _bound(bits: int) -> None:
    if bits > _LARGEST_INT_BITS:
        raise OverflowError(f"the integer would have about {bits} bits")
