"""Implement with numpy the operators that it lacks; imported when the first of them is called.

Activations such as ``softmax``, casts, ``one_hot`` and ``pad``; changes in place such as
``add_at``; reductions by segment such as ``segment_sum``; counters, which tasks may change at the
same time.
"""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from jobrun.values.kinds.counter import Counter

_Array = np.ndarray[Any, Any]
_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")
_MOST_NARROW = 1 << 16
# With fewer indices, numpy's indexing of whole rows is faster than one call per column.
_FEWEST = 128
# Bytes of a batch of rows, so that the batch stays in the cache from column to column.
_AT_HAND_BYTES = 1 << 17
_INTEGERS = tuple(
    map(np.dtype, (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32))
)
_NUMBERS = (*_INTEGERS, *map(np.dtype, (np.uint64, np.float32, np.float64)))


def sigmoid(x: Any) -> Any:
    """Implement the operator ``sigmoid``: ``1 / (1 + exp(-x))`` elementwise without overflow.

    Written with ``exp(-abs(x))``, which is at most 1.
    """
    small = np.exp(-np.abs(x))
    return np.where(np.greater_equal(x, 0), 1, small)[()] / (1 + small)


def relu(x: Any) -> Any:
    """Implement the operator ``relu``: negative elements become 0; nan stays nan.

    Same shape and dtype as ``x``.
    """
    return np.maximum(x, 0)


def logsumexp(x: Any, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False) -> Any:
    """Implement the operator ``logsumexp``: ``log(sum(exp(x)))`` along an axis, without overflow.

    It is -inf where all items are; the reduced axes are kept with length 1 where ``keepdims``.
    """
    highest = np.max(x, axis=axis, keepdims=True)
    # inf - inf would be nan.
    shift = np.where(np.isfinite(highest), highest, 0)
    with np.errstate(divide="ignore"):
        total = np.log(np.sum(np.exp(x - shift), axis=axis, keepdims=True)) + shift
    return total if keepdims else np.squeeze(total, axis=axis)[()]


def softmax(x: Any, axis: int | tuple[int, ...] | None = -1) -> Any:
    """Implement the operator ``softmax`` along an axis without overflow; same shape as ``x``.

    ``exp(x) / sum(exp(x))``.
    """
    weights = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return weights / np.sum(weights, axis=axis, keepdims=True)


def log_softmax(x: Any, axis: int | tuple[int, ...] | None = -1) -> Any:
    """Implement the operator ``log_softmax`` without the logarithm of tiny numbers.

    ``log(softmax(x))``, of the same shape as ``x``.
    """
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def one_hot(labels: Any, length: int, dtype: Any = np.float64) -> np.ndarray[Any, Any]:
    """Implement the operator ``one_hot``: shape ``(*labels.shape, length)``, 1 at each label.

    Raises:
        ValueError: A label is not in ``0 … length - 1``.
        TypeError: The labels are no integers.
    """
    chosen = np.asarray(labels)
    if chosen.dtype.kind not in "iu":
        raise TypeError(f"labels must be integers, not {chosen.dtype}")
    if chosen.size and (chosen.min() < 0 or chosen.max() >= length):
        raise ValueError(f"a label is not in 0 … {length - 1}")
    return astype(chosen[..., None] == np.arange(length), dtype)  # type: ignore[no-any-return]


def array(object: Any, dtype: Any = None) -> np.ndarray[Any, Any]:  # noqa: A002 - numpy's name
    """Implement the operator ``array`` with numpy, but refuse arrays of Python objects.

    Raises:
        TypeError: The items are no numbers, bools or texts.
        ValueError: Their shapes differ.
    """
    return _plain(np.array(object, dtype=dtype))


def astype(x: Any, dtype: Any) -> Any:
    """Implement the operator ``astype``: convert an array to another dtype, same memory layout.

    Raises:
        TypeError: The dtype holds Python objects.
    """
    if isinstance(x, np.ndarray):
        return _plain(x.astype(dtype, order="K", copy=True))
    return _plain(np.asarray(x).astype(dtype))[()]


def to_int(x: Any) -> int:
    """Implement the operator ``int``: round one number, or a counter's value, towards zero."""
    return int(_single(x))


def to_float(x: Any) -> float:
    """Implement the operator ``float``: convert one number, or the value of a counter."""
    return float(_single(x))


def to_bool(x: Any) -> bool:
    """Implement the operator ``bool`` for one number: False for 0, True for any other."""
    return bool(_single(x))


def _single(x: Any) -> Any:
    if isinstance(x, Counter):
        return x.value
    # An array of one item counts as its item, whatever its shape; numpy warns of that.
    return x.reshape(())[()] if isinstance(x, np.ndarray) and x.size == 1 else x


def _plain(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if value.dtype.hasobject:
        raise TypeError("an array holds numbers, bools or text")
    return value


def pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Any:
    """Implement the operator ``pad`` by ``np.pad``, with five of its modes and fewer arguments.

    Raises:
        ValueError: The mode is none of constant, edge, reflect, symmetric, wrap.
    """
    if mode not in _MODES:
        raise ValueError(f"mode must be one of {', '.join(_MODES)}")
    if mode == "constant":
        return np.pad(array, pad_width, "constant", constant_values=constant_values)
    return np.pad(array, pad_width, mode)  # type: ignore[call-overload]


def add_at(a: _Array, indices: Any, values: Any) -> None:
    """Implement the operator ``add_at``: add ``values`` to ``a[indices]``, once per occurrence."""
    _at(np.add, _array(a), _index(indices), values)


def subtract_at(a: _Array, indices: Any, values: Any) -> None:
    """Implement the operator ``subtract_at``: subtract from ``a[indices]``, once per occurrence."""
    _at(np.subtract, _array(a), _index(indices), values)


def multiply_at(a: _Array, indices: Any, values: Any) -> None:
    """Implement the operator ``multiply_at``: multiply ``a[indices]``, once per occurrence."""
    _at(np.multiply, _array(a), _index(indices), values)


def maximum_at(a: _Array, indices: Any, values: Any) -> None:
    """Implement the operator ``maximum_at``: raise ``a[indices]`` to larger ``values``."""
    _at(np.maximum, _array(a), _index(indices), values)


def minimum_at(a: _Array, indices: Any, values: Any) -> None:
    """Implement the operator ``minimum_at``: lower ``a[indices]`` to smaller ``values``."""
    _at(np.minimum, _array(a), _index(indices), values)


def index_add(a: Any, indices: Any, values: Any) -> _Array:
    """Implement ``index_add`` with numpy: copy ``a``, and add ``values`` at ``indices``."""
    result = np.array(a)
    _at(np.add, result, _index(indices), values)
    return result


def index_set(a: Any, indices: Any, values: Any) -> _Array:
    """Implement ``index_set`` with numpy: copy ``a``, and put ``values`` at ``indices``."""
    result = np.array(a)
    result[_index(indices)] = values
    return result


def _at(ufunc: np.ufunc, a: _Array, indices: Any, values: Any) -> None:
    """Implement ``add_at`` and the like by ``ufunc.at``, column by column for whole rows.

    numpy has a fast way for one axis alone. Each item gets its values in the same order either
    way, and so the same bits.
    """
    if not _are_plain_rows(a, indices, values):
        ufunc.at(a, indices, values)
        return
    table, rows = a.reshape(len(a), -1), values.reshape(len(values), -1)
    places = indices.astype(np.intp, copy=False)
    at_hand = max(_FEWEST, _AT_HAND_BYTES // (table.shape[1] * table.itemsize))
    for start in range(0, len(places), at_hand):
        part = slice(start, start + at_hand)
        for column in range(table.shape[1]):
            ufunc.at(table[:, column], places[part], rows[part, column])


def _are_plain_rows(a: _Array, indices: Any, values: Any) -> bool:
    """Return whether ``add_at`` changes whole rows of the numpy array ``a``, one per index."""
    return (
        isinstance(indices, np.ndarray)
        and isinstance(values, np.ndarray)
        and indices.ndim == 1
        and indices.dtype in _INTEGERS
        and len(indices) >= _FEWEST
        and a.ndim > 1
        and values.shape == (len(indices), *a.shape[1:])
        and math.prod(a.shape[1:]) > 0
        and a.dtype in _NUMBERS
        and values.dtype == a.dtype
        and a.flags.c_contiguous
        and values.flags.c_contiguous
        and not (np.may_share_memory(a, values) or np.may_share_memory(a, indices))
        # With an index out of bounds nothing may change, and numpy raises the error.
        and bool(-len(a) <= indices.min() and indices.max() < len(a))
    )


def _array(a: _Array) -> _Array:
    if not isinstance(a, np.ndarray):
        raise TypeError("only an array can be changed in place")
    return a


def _index(indices: Any) -> Any:
    # numpy does not always treat a list as an array of indices.
    return np.asarray(indices) if isinstance(indices, list) else indices


def counter(value: SupportsIndex = 0) -> Counter:
    """Implement the operator ``counter``: create a counter with a start value.

    Raises:
        TypeError: ``value`` is no integer.
        ValueError: It is negative.
    """
    begin = operator.index(value)
    if begin < 0:
        raise ValueError(f"a counter begins at 0 or more, not at {begin}")
    return Counter(begin)


def count_up(counter: Counter) -> int:
    """Implement the operator ``count_up``: increment a counter, and return its old value."""
    return _counter(counter).up()


def count_down(counter: Counter) -> bool:
    """Implement the operator ``count_down``: decrement a counter; return whether it was <= 0."""
    return _counter(counter).down()


def atomic_add(counter: Counter, amount: SupportsIndex) -> int:
    """Implement the operator ``atomic_add``: add an integer to a counter; return its old value."""
    return _counter(counter).add(operator.index(amount))


def atomic_max(counter: Counter, value: SupportsIndex) -> int:
    """Implement the operator ``atomic_max``: raise a counter to ``value``; return its old value."""
    return _counter(counter).maximum(operator.index(value))


def count_reset(counter: Counter) -> int:
    """Implement the operator ``count_reset``: set a counter to 0, and return its old value."""
    return _counter(counter).reset()


def count_value(counter: Counter) -> int:
    """Implement the operator ``count_value``: return the current value of a shared counter."""
    return _counter(counter).value


def _counter(value: Counter) -> Counter:
    if not isinstance(value, Counter):
        raise TypeError(f"expected a counter, made with counter(0), not {type(value).__name__}")
    return value


class _Runs(NamedTuple):
    """Rows sorted by segment.

    Attributes:
        rows: The rows, those of one segment next to each other, in their own order.
        starts: Where the run of each segment that has rows begins; int64.
        filled: Which segments have rows; bool, shape ``(num_segments,)``.
        counts: How many rows each segment has; int64, shape ``(num_segments,)``.
    """

    rows: _Array
    starts: _Array
    filled: _Array
    counts: _Array


def segment_sum(values: Any, segments: Any, num_segments: int) -> tuple[_Array, _Array]:
    """Implement ``segment_sum`` with numpy: return the sum and the count of each segment's rows.

    Args:
        values: Shape ``(rows, …)``.
        segments: The segment of each row; integers, shape ``(rows,)``.
        num_segments: How many segments there are; those without rows count too.

    Returns:
        Sums of shape ``(num_segments, …)`` in the dtype that ``sum`` gives, and counts
        (int64, shape ``(num_segments,)``).

    Raises:
        ValueError: Shapes do not fit, or a segment is not in ``0 … num_segments - 1``.
        TypeError: The segments are no integers.
    """
    rows, chosen = _checked(values, segments, num_segments)
    dtype = np.sum(rows[:0], axis=0).dtype
    sums = np.zeros((num_segments, *rows.shape[1:]), dtype)
    if rows.ndim == 1:
        # ``np.add.at`` is fast for 1-D arrays, and ``reduceat`` is slow.
        np.add.at(sums, chosen, rows)
        return sums, np.bincount(chosen, minlength=num_segments)
    runs = _runs(rows, chosen, num_segments)
    if len(rows):
        sums[runs.filled] = np.add.reduceat(runs.rows, runs.starts, axis=0, dtype=dtype)
    return sums, runs.counts


def segment_mean(values: Any, segments: Any, num_segments: int) -> _Array:
    """Implement ``segment_mean`` with numpy: average each segment's rows; nan if it has none.

    Arguments and errors are those of ``segment_sum``.
    """
    sums, counts = segment_sum(values, segments, num_segments)
    shape = (-1,) + (1,) * (sums.ndim - 1)
    dtype = sums.dtype if sums.dtype.kind in "fc" else np.dtype(np.float64)
    means = np.full(sums.shape, np.nan, dtype)
    np.divide(sums, counts.reshape(shape), out=means, where=counts.reshape(shape) > 0)
    return means


def segment_max(values: Any, segments: Any, num_segments: int) -> _Array:
    """Implement ``segment_max`` with numpy: the elementwise maximum of each segment's rows.

    A segment without rows has minus infinity, or the least integer there is. Arguments and
    errors are those of ``segment_sum``.
    """
    runs = _runs(*_checked(values, segments, num_segments), num_segments)
    return _extreme(np.maximum, runs, _limits(runs.rows.dtype)[0])


def segment_min(values: Any, segments: Any, num_segments: int) -> _Array:
    """Implement ``segment_min`` with numpy: the elementwise minimum of each segment's rows.

    A segment without rows has infinity, or the largest integer there is. Arguments and
    errors are those of ``segment_sum``.
    """
    runs = _runs(*_checked(values, segments, num_segments), num_segments)
    return _extreme(np.minimum, runs, _limits(runs.rows.dtype)[1])


def _extreme(ufunc: np.ufunc, runs: _Runs, empty: Any) -> _Array:
    extremes = np.full((len(runs.counts), *runs.rows.shape[1:]), empty, runs.rows.dtype)
    if len(runs.rows):
        extremes[runs.filled] = ufunc.reduceat(runs.rows, runs.starts, axis=0)
    return extremes


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return a dtype's smallest and largest value, for the implementation of ``segment_max``.

    They are the results of ``segment_max`` and ``segment_min`` where a segment has no rows.
    """
    if dtype.kind in "iu":
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    return (False, True) if dtype.kind == "b" else (-np.inf, np.inf)


def _runs(rows: _Array, chosen: _Array, num_segments: int) -> _Runs:
    # Stable: rows of a segment are added in their order in the array.
    # For 16-bit integers numpy uses a radix sort, which is several times as fast.
    narrow = chosen.astype(np.uint16) if num_segments <= _MOST_NARROW else chosen
    order = np.argsort(narrow, kind="stable")
    counts = np.bincount(chosen, minlength=num_segments)
    filled = counts > 0
    starts = (np.cumsum(counts) - counts)[filled]
    return _Runs(rows[order], starts, filled, counts)


def _checked(values: Any, segments: Any, num_segments: int) -> tuple[_Array, _Array]:
    """Check rows and their segment numbers for a segment reduction; return both as numpy arrays."""
    rows, chosen = np.asarray(values), np.asarray(segments)
    if chosen.dtype.kind not in "iu" and chosen.size:
        raise TypeError(f"segments must be integers, not {chosen.dtype}")
    if chosen.ndim != 1 or rows.ndim == 0 or len(rows) != len(chosen):
        raise ValueError(
            f"there must be one segment for each row, not {chosen.shape} for {rows.shape}"
        )
    if chosen.size and (chosen.min() < 0 or chosen.max() >= num_segments):
        raise ValueError(f"a segment is not in 0 … {num_segments - 1}")
    return rows, chosen.astype(np.intp)
