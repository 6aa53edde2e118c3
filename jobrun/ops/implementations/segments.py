"""Implement the segment operators: reductions of the rows that share a segment number."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

_Array = np.ndarray[Any, Any]
_MOST_NARROW = 1 << 16


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
    """Implement ``segment_sum``: sum the rows of each segment; return sums and row counts.

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
        # In numpy 1-D is the fast case of this, and the slow one of the other.
        np.add.at(sums, chosen, rows)
        return sums, np.bincount(chosen, minlength=num_segments)
    runs = _runs(rows, chosen, num_segments)
    if len(rows):
        sums[runs.filled] = np.add.reduceat(runs.rows, runs.starts, axis=0, dtype=dtype)
    return sums, runs.counts


def segment_mean(values: Any, segments: Any, num_segments: int) -> _Array:
    """Implement ``segment_mean``: average each segment's rows as floats; nan if it has none.

    Arguments and errors are those of ``segment_sum``.
    """
    sums, counts = segment_sum(values, segments, num_segments)
    shape = (-1,) + (1,) * (sums.ndim - 1)
    dtype = sums.dtype if sums.dtype.kind in "fc" else np.dtype(np.float64)
    means = np.full(sums.shape, np.nan, dtype)
    np.divide(sums, counts.reshape(shape), out=means, where=counts.reshape(shape) > 0)
    return means


def segment_max(values: Any, segments: Any, num_segments: int) -> _Array:
    """Implement ``segment_max``: the elementwise maximum of each segment's rows.

    A segment without rows has minus infinity, or the least integer there is. Arguments and
    errors are those of ``segment_sum``.
    """
    runs = _runs(*_checked(values, segments, num_segments), num_segments)
    return _extreme(np.maximum, runs, _limits(runs.rows.dtype)[0])


def segment_min(values: Any, segments: Any, num_segments: int) -> _Array:
    """Implement ``segment_min``: the elementwise minimum of each segment's rows.

    A segment without rows has infinity, or the largest integer there is. Arguments and
    errors are those of ``segment_sum``.
    """
    runs = _runs(*_checked(values, segments, num_segments), num_segments)
    return _extreme(np.minimum, runs, _limits(runs.rows.dtype)[1])


def _extreme(ufunc: np.ufunc, runs: _Runs, empty: Any) -> _Array:
    found = np.full((len(runs.counts), *runs.rows.shape[1:]), empty, runs.rows.dtype)
    if len(runs.rows):
        found[runs.filled] = ufunc.reduceat(runs.rows, runs.starts, axis=0)
    return found


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return least and greatest values of a dtype, the extremes of segments without rows."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    return (False, True) if dtype.kind == "b" else (-np.inf, np.inf)


def _runs(rows: _Array, chosen: _Array, num_segments: int) -> _Runs:
    # Stable: rows of a segment are added in their own order, whatever the sort does inside.
    # Of 16 bits it is a radix sort, several times as fast.
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
