"""What becomes of a value when it lands in a blob, a condition or a loop count.

The rule behind all of it: blobs are values. After ``name = expr`` no other blob may share
memory with ``name`` in a way that anyone could see.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jobrun.blobs.tensors import is_tensor
from jobrun.blobs.trees import TREE_KINDS
from jobrun.blobs.values import PLAIN_KINDS, Value, describe, detach, refusal
from jobrun.core.errors import TaskFailedError

# Beyond this many bits a power of integers is a slip, and would not come back for minutes.
_LARGEST_INT_BITS = 1 << 20
_NUMBERS = frozenset({bool, int, float, complex})


def own(value: Value, *sources: Value) -> Value:
    """``value`` if no other blob can see its memory, else a copy in the same axis order.

    Args:
        value: What an expression gave.
        sources: Everything whose memory it may share; an output of several instances is a
            list, of which each item counts.

    Raises:
        TaskFailedError: E202, if no blob can hold it.
    """
    if type(value) is not np.ndarray:
        # A container that is a blob stays one; one that was written in the spec is an array.
        return (
            detach(value) if type(value) in TREE_KINDS and _holds(sources, value) else land(value)
        )
    if value.dtype.hasobject:
        return land(value)
    if value.base is None:
        for source in sources:
            # Of what is in a container nobody knows here.
            if source is value or type(source) in TREE_KINDS:
                return value.copy(order="K")
    elif _shares(value, sources):
        return value.copy(order="K")
    # Read-only results (broadcast_to, diagonal) may show one number at several places.
    return value if value.flags.writeable else value.copy(order="K")


def land(value: Value) -> Value:
    """``value`` as a blob holds it: a tuple or list becomes an array, the rest is checked.

    Raises:
        TaskFailedError: E202, if no blob can hold it.
    """
    kind = type(value)
    if kind in PLAIN_KINDS or (isinstance(value, np.generic) and kind is not np.void):
        return value
    if kind is tuple or kind is list:
        return _array_of(value)
    if kind is np.ndarray and not value.dtype.hasobject:
        return value
    if kind is np.memmap:
        return np.array(value, subok=False)
    fault = refusal(value, "?")
    if fault is not None:
        raise TaskFailedError.of(
            fault.code, fault.message.replace("blob '?'", "a blob"), fault.mend
        )
    return detach(value)


def array_of(items: tuple[Any, ...] | list[Any]) -> np.ndarray[Any, Any] | None:
    """The array that a callable's tuple or list is; None for one that is a container.

    That is one of numbers, bools or texts, or of arrays of one shape; but not of several of these.
    """
    if any(map(is_tensor, items)):
        return None
    try:
        array = np.array(items)
    except (ValueError, TypeError):
        return None
    if array.dtype.kind in "US" and any(type(item) in _NUMBERS for item in items):
        return None
    return None if array.dtype.hasobject else array


def as_bool(value: Value) -> bool:
    """A condition's value.

    Raises:
        TaskFailedError: E203, unless it is a bool (Python's, numpy's, or an array of one).
    """
    if value is True or value is False:
        return value
    if isinstance(value, np.bool_) or (
        isinstance(value, np.ndarray) and value.dtype == np.bool_ and value.ndim == 0
    ):
        return bool(value)
    raise TaskFailedError.of(
        "E203",
        f"the condition is not a bool but a {describe(value)}",
        "compare it with something, or reduce it with any() or all()",
    )


def as_count(value: Value) -> int:
    """A loop's count.

    Raises:
        TaskFailedError: E204, unless it is an integer (Python's, numpy's, or an array of one).
    """
    if type(value) is int:
        return value
    if isinstance(value, np.integer) or (
        isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.ndim == 0
    ):
        return int(value)
    raise TaskFailedError.of(
        "E204",
        f"the loop count is not an integer but a {describe(value)}",
        "divide with // or round it with int64(...)",
    )


def power(base: Any, exponent: Any) -> Any:
    """``base ** exponent``, refusing integers too large to be meant.

    Raises:
        OverflowError: The result would have more than a million bits.
    """
    _bound_power(base, exponent)
    return base**exponent


def shift_left(value: Any, bits: Any) -> Any:
    """``value << bits``, refusing integers too large to be meant.

    Raises:
        OverflowError: The result would have more than a million bits.
    """
    _bound_shift(value, bits)
    return value << bits


def modulo(value: Any, divisor: Any) -> Any:
    """``value % divisor``, which of text would be Python's old way of filling it in.

    Raises:
        TypeError: ``value`` is text: a width in it may be of any size.
    """
    _refuse_text(value)
    return value % divisor


def _refuse_text(value: Any) -> None:
    if isinstance(value, str):
        raise TypeError("text has no '%'; it is filled in by log and message, as in {x:.3f}")


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


def attribute_t(value: Value) -> Value:
    """``value.T``; a Python scalar is its own transpose."""
    return value.T if isinstance(value, np.ndarray) else value


def attribute_shape(value: Value) -> tuple[int, ...]:
    """``value.shape``, also of a Python scalar."""
    return value.shape if isinstance(value, np.ndarray) else np.shape(value)


def attribute_size(value: Value) -> int:
    """``value.size``, also of a Python scalar."""
    return value.size if isinstance(value, np.ndarray) else int(np.size(value))


def attribute_ndim(value: Value) -> int:
    """``value.ndim``, also of a Python scalar."""
    return value.ndim if isinstance(value, np.ndarray) else np.ndim(value)


def attribute_dtype(value: Value) -> np.dtype[Any]:
    """``value.dtype``; of a Python scalar the one it takes as an array."""
    return value.dtype if isinstance(value, np.ndarray) else np.asarray(value).dtype


def _shares(value: np.ndarray[Any, Any], sources: tuple[Value, ...]) -> bool:
    if not sources:
        return False
    root = _root(value)
    if root is None:
        return True
    return any(
        type(source) in TREE_KINDS or (isinstance(source, np.ndarray) and _root(source) is root)
        for source in sources
    )


def _holds(items: tuple[Value, ...], value: Value) -> bool:
    return any(item is value for item in items)


def _root(value: Any) -> Any:
    """The array that owns the memory; None when that is not an array."""
    while value.base is not None:
        value = value.base
        if not isinstance(value, np.ndarray):
            return None
    return value


def _array_of(items: tuple[Any, ...] | list[Any]) -> np.ndarray[Any, Any]:
    try:
        array = np.array(items)
    except ValueError as error:
        raise TaskFailedError.of(
            "E202",
            f"a blob cannot hold this sequence: {error}",
            "give all its items one shape",
        ) from error
    if array.dtype.hasobject:
        raise TaskFailedError.of(
            "E202",
            "a blob cannot hold a sequence of other things than numbers, bools or texts",
            "a blob holds an array, a number, a bool, text or a counter",
        )
    return array


def _bound_power(base: Any, exponent: Any) -> None:
    if type(base) is int and type(exponent) is int:
        _bound(base.bit_length() * exponent)


def _bound_shift(value: Any, bits: Any) -> None:
    if type(value) is int and type(bits) is int:
        _bound(value.bit_length() + bits)


def _bound(bits: int) -> None:
    if bits > _LARGEST_INT_BITS:
        raise OverflowError(f"the integer would have about {bits} bits")
