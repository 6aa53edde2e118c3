"""Check and convert values at run time, before generated code binds or computes with them.

The rule behind coercion: blobs are values. After ``name = expr`` no other blob may share memory
with ``name`` in a way that anyone could see.

Powers, shifts, products and remainders that would not end are refused: an integer of millions of
bits, and a text that ``%`` would format, take all time or memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jobrun.core.errors import TaskFailedError
from jobrun.runtime.context.frame import Blobs
from jobrun.values.blob_kinds import Value, check_storable, describe
from jobrun.values.container_flattening import is_tree
from jobrun.values.copies import detach
from jobrun.values.kinds.builtin import PLAIN_KINDS
from jobrun.values.kinds.counter import Counter

# Kinds of dtypes.
_REAL = frozenset("biuf")
_ARRAY = np.ndarray
_IMMUTABLE = (np.generic, bytes, type(None))
# An integer with more bits than this is most likely a mistake. A power, or a product that a loop
# squares repeatedly, could take minutes.
_LARGEST_INT_BITS = 1 << 20


def as_own_value(value: Value, *sources: Value) -> Value:
    """Coerce a value for a blob to one that shares no memory with other blobs; copy if needed.

    Args:
        value: What an expression gave.
        sources: Everything whose memory it may share; an output of several instances is a
            list, of which each item counts.

    Raises:
        TaskFailedError: E202, if no blob can hold it.
    """
    if type(value) is not np.ndarray or value.dtype.hasobject:
        return as_blob_value(value)
    if value.base is None:
        for source in sources:
            if source is value or _is_container(source):
                return value.copy(order="K")
    elif _shares(value, sources):
        return value.copy(order="K")
    # Read-only results (broadcast_to, diagonal) may show one number at several indices.
    return value if value.flags.writeable else value.copy(order="K")


def as_view(value: Value, source: Value, *more: Value) -> Value:
    """Coerce an array for a blob: keep a view whose memory layout cannot change results, else copy.

    Only for a value that no step changes while another one that shares its memory is read.

    Args:
        value: What an expression gave.
        source: What it may share memory with; and so it may with ``more``.
        more: Further such values.

    Raises:
        TaskFailedError: E202, if no blob can hold it.
    """
    # For real numbers each operation is correctly rounded, so that its result is unique.
    if (
        type(value) is _ARRAY
        and type(source) is _ARRAY
        and (value.dtype.kind in _REAL or value.flags.forc)
        and value.flags.behaved
        and not (more and any(map(_is_container, more)))
    ):
        return value
    return as_own_value(value, source, *more)


def is_viewable(source: Value) -> bool:
    """Return whether a value is a writable real array, whose slices coercion need not copy."""
    return type(source) is _ARRAY and source.dtype.kind in _REAL and source.flags.behaved


def as_dense_view(value: Value, source: Value, *more: Value) -> Value:
    """Coerce an array for a blob: keep a view that is contiguous in memory, else copy it.

    Args and errors are those of ``as_view``.
    """
    if (
        type(value) is _ARRAY
        and type(source) is _ARRAY
        and value.flags.forc
        and value.flags.behaved
        and not (more and any(map(_is_container, more)))
    ):
        return value
    return as_own_value(value, source, *more)


def own_at_end(blobs: Blobs, name: str, *others: tuple[Blobs, str]) -> None:
    """Coerce a blob at a block's end to an array of its own: copy a view or another blob's array.

    Args:
        blobs: The workspace that holds it.
        name: Its name; it need not be there.
        others: Blobs that may be the same array, each with its workspace.
    """
    value = blobs.get(name)
    if type(value) is not np.ndarray:
        return
    if value.base is not None or any(space.get(other) is value for space, other in others):
        blobs[name] = value.copy(order="K")


def as_blob_value(value: Value) -> Value:
    """Coerce a value to one that a blob may hold: copy a container, check any other value.

    Raises:
        TaskFailedError: E202, if no blob can hold it.
    """
    kind = type(value)
    if kind in PLAIN_KINDS or (isinstance(value, np.generic) and not isinstance(value, np.void)):
        return value
    if kind is np.ndarray and not value.dtype.hasobject:
        return value
    fault = None if is_tree(value) else check_storable(value, "?")
    if fault is not None:
        raise TaskFailedError.of(
            fault.code, fault.message.replace("blob '?'", "a blob"), fault.mend
        )
    return detach(value)


def as_operand(value: Value) -> Value:
    """Coerce an operand to what a blob may hold: copy a tuple, refuse a list.

    Raises:
        TaskFailedError: E248, it is a list: these are not computed with.
    """
    kind = type(value)
    if kind is list:
        raise _list_refusal(value)
    return as_blob_value(value) if kind is tuple else value


def as_item_of(container: Value, value: Value) -> Value:
    """Coerce a value to be stored as an item: copy it, unless the container is an array."""
    return value if type(container) is np.ndarray else detach(value)


def as_items_of(container: Value, value: Value) -> Value:
    """Coerce a value to be stored in a slice: of a list, it must have items that nothing changes.

    Python's list would hold the arrays and lists themselves, or views of the rows of an array.

    Raises:
        TaskFailedError: E226, it has other items.
    """
    if type(container) is not list:
        return as_item_of(container, value)
    is_array = isinstance(value, np.ndarray)
    if (is_array and value.ndim > 1) or (not is_array and _has_mutable_item(value)):
        raise TaskFailedError.of(
            "E226",
            f"the items of a {describe(value)} cannot be assigned to a slice of a list: there they "
            f"would be shared",
            "assign them one by one, x[0] = y[0], which copies each; or keep an array instead",
        )
    return value


def _has_mutable_item(value: Value) -> bool:
    return isinstance(value, list | tuple) and any(
        _has_mutable_item(item)
        if isinstance(item, tuple)
        else type(item) not in PLAIN_KINDS and not isinstance(item, _IMMUTABLE)
        for item in value
    )


def update_item(
    container: Value, index: Any, change: Callable[[Any, Any], Any], value: Any
) -> None:
    """Coerce the operands of ``container[index] op= value`` at run time; store the result.

    Raises:
        TaskFailedError: E248, the part is a list.
    """
    container[index] = as_operand(change(as_operand(container[index]), value))


def _list_refusal(value: list[Any]) -> TaskFailedError:
    mend = "make an array of it: array(x); to add to a list, call a function that returns x + [y]"
    return TaskFailedError.of("E248", f"a list of {len(value)} is not computed with", mend)


def as_bool(value: Value) -> bool:
    """Coerce the value of a condition, which must be a bool, to Python's bool.

    Raises:
        TaskFailedError: E203, unless it is a bool (Python's, numpy's, or an array of one).
    """
    if value is True or value is False:
        return value
    if isinstance(value, np.bool_) or (
        isinstance(value, np.ndarray) and value.dtype == np.bool_ and value.ndim == 0
    ):
        return bool(value)
    mend = "compare it with something, or reduce it with any() or all()"
    raise TaskFailedError.of("E203", f"the condition is not a bool but a {describe(value)}", mend)


def as_count(value: Value) -> int:
    """Coerce the count of a loop, which must be an integer, to Python's int.

    Raises:
        TaskFailedError: E204, unless it is an integer (Python's, numpy's, or an array of one).
    """
    if type(value) is int:
        return value
    if isinstance(value, np.integer) or (
        isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.ndim == 0
    ):
        return int(value)
    message = f"the loop count is not an integer but a {describe(value)}"
    raise TaskFailedError.of("E204", message, "divide with // or round it with int64(...)")


def are_numbers(*values: Any) -> bool:
    """Return whether all values are floats, numpy numbers or arrays, which need no coercion.

    Sums, products and quotients of such values are such values, so none of them needs a check.
    """
    return all(
        type(value) is float
        or (type(value) is _ARRAY and not value.dtype.hasobject)
        or isinstance(value, np.number)
        for value in values
    )


def are_scalars(*values: Any) -> bool:
    """Return whether all values are floats or numpy numbers, which need no coercion."""
    return all(type(value) is float or isinstance(value, np.number) for value in values)


def read_attribute(value: Value, name: str) -> Value:
    """Read ``shape``, ``T`` or the like for generated code, of a value that is no plain array.

    Raises:
        TaskFailedError: E225, in Python a value of this type has no such attribute.
    """
    if isinstance(value, np.ndarray | np.generic):
        return getattr(value, name)
    attribute = None if type(value) in PLAIN_KINDS else getattr(value, name, None)
    # Frames and tensors have a shape; the meaning of their other attributes is unknown here.
    if name != "T" and isinstance(attribute, int | tuple | np.dtype):
        return attribute
    raise TaskFailedError.of(
        "E225", f"a {describe(value)} has no '{name}'", f"make an array of it: array(x).{name}"
    )


def _shares(value: np.ndarray[Any, Any], sources: tuple[Value, ...]) -> bool:
    if not sources:
        return False
    root = _root(value)
    if root is None:
        return True
    return any(
        _is_container(source) or (isinstance(source, np.ndarray) and _root(source) is root)
        for source in sources
    )


def _is_container(value: Value) -> bool:
    """Return whether a value to coerce is a container, which may hold arrays."""
    kind = type(value)
    return not (kind is np.ndarray or kind in PLAIN_KINDS or isinstance(value, np.generic))


def _root(value: Any) -> Any:
    """Return the array that owns a view's memory; None if no numpy array owns it."""
    while value.base is not None:
        value = value.base
        if not isinstance(value, np.ndarray):
            return None
    return value


def metric_number(value: Value, name: str) -> float | int | bool | str:
    """Coerce a computed value to one Python number, bool or text, as a metric needs, or refuse it.

    Raises:
        TaskFailedError: E212, if it is neither.
    """
    if isinstance(value, np.ndarray | np.generic) and value.size == 1:
        value = value.item()
    if type(value) is Counter:
        value = value.value
    if isinstance(value, bool | int | float | str):
        return value
    message = f"the metric '{name}' is a {describe(value)}, not a single number"
    raise TaskFailedError.of("E212", message, "reduce it, for example with mean() or max()")


def power(base: Any, exponent: Any) -> Any:
    """Compute ``base ** exponent`` for generated code; refuse an integer of over a million bits.

    Raises:
        OverflowError: The result would have more than a million bits.
    """
    _bound_power(base, exponent)
    return base**exponent


def shift_left(value: Any, bits: Any) -> Any:
    """Compute ``value << bits`` for generated code; refuse an integer of over a million bits.

    Raises:
        OverflowError: The result would have more than a million bits.
    """
    _bound_shift(value, bits)
    return value << bits


def modulo(value: Any, divisor: Any) -> Any:
    """Compute ``value % divisor`` for generated code; refuse text, which ``%`` would format.

    Raises:
        TypeError: ``value`` is text: a width in it may be of any size.
    """
    _refuse_text(value)
    return value % divisor


def require_bounded(value: Any) -> Any:
    """Return a product that generated code computed; refuse an integer of over a million bits.

    Raises:
        OverflowError: It has more than a million bits.
    """
    if type(value) is int:
        _bound(value.bit_length())
    return value


def _power_in_place(base: Any, exponent: Any) -> Any:
    _bound_power(base, exponent)
    base **= exponent
    return base


def _shift_left_in_place(value: Any, bits: Any) -> Any:
    _bound_shift(value, bits)
    value <<= bits
    return value


def _modulo_in_place(value: Any, divisor: Any) -> Any:
    _refuse_text(value)
    value %= divisor
    return value


# The in-place variants of the bounded operators.
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
