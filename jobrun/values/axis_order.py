"""Read the order of an array's axes in memory from its strides, and keep it in copies.

numpy's sums and BLAS add in the order of memory, so two arrays of equal items and different axis
orders give different bits. Gaps between elements and steps back are not part of the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_MOST_GAPS = 1 << 16
# The axes from the slowest to the fastest in memory; () is C order.
AxisOrder = tuple[int, ...]


def axis_order(array: Array) -> AxisOrder:
    """Return an array's axes from slowest to fastest in memory; () for C order.

    Arrays that numpy cannot distinguish have the same order: axes of length 1 do not count, and
    neither do the axes of an array without elements.
    """
    flags = array.flags
    if flags.c_contiguous or not array.itemsize:
        return ()
    if flags.f_contiguous:
        return tuple(range(array.ndim))[::-1]
    return order_of_strides(array.shape, array.strides)


def order_of_strides(shape: Sequence[int], strides: Sequence[int]) -> AxisOrder:
    """Derive the order of an array's axes in memory from shape and strides alone."""
    if 0 in shape:
        return ()
    count, steps = len(shape), [abs(step) for step in strides]
    # Stable, like numpy's own copy(order="K"): of equal steps the earlier axis is the slower one.
    long = sorted((axis for axis in range(count) if shape[axis] > 1), key=lambda one: -steps[one])
    if all(a < b for a, b in pairwise(long)):
        return ()
    if all(a > b for a, b in pairwise(long)):
        return tuple(range(count))[::-1]
    return (*(axis for axis in range(count) if shape[axis] == 1), *long)


def dense_strides(shape: Sequence[int], itemsize: int, order: AxisOrder = ()) -> tuple[int, ...]:
    """Compute the strides, in bytes, of a gapless array whose axes have this order in memory."""
    strides = [0] * len(shape)
    if 0 in shape:
        return tuple(strides)
    step = itemsize
    for axis in reversed(order or range(len(shape))):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def empty_in_order(shape: Sequence[int], dtype: np.dtype[Any], order: AxisOrder) -> Array:
    """Allocate a gapless array whose axes have the given order in memory."""
    # np.empty makes other dtypes of a few: of dates without a unit that have metadata, or the other
    # byte order.
    strides = dense_strides(shape, dtype.itemsize, order) if order else None
    return np.ndarray(shape, dtype, strides=strides)


def view_in_order(flat: Array, shape: Sequence[int], order: AxisOrder) -> Array:
    """View one-dimensional memory as an array whose axes lie in the given order."""
    if not order:
        return flat.reshape(shape)
    whole = flat.reshape([shape[axis] for axis in order])
    return whole.transpose(np.argsort(order))


def flat_view(array: Array, order: AxisOrder) -> Array:
    """View a gapless array's memory as one dimension, given the order of its axes in memory."""
    return (array.transpose(order) if order else array).reshape(-1)


def is_dense(array: Array) -> bool:
    """Return whether an array is dense in some axis order: no gaps, no repeats."""
    if array.flags.c_contiguous:
        # Axes of length 1 may have any stride there, which some libraries look at.
        usual = array.ndim < 2 or not {0, 1}.intersection(array.shape)
        return usual or array.strides == dense_strides(array.shape, array.itemsize)
    return array.strides == dense_strides(array.shape, array.itemsize, axis_order(array))


def has_gaps(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Return whether an array, whatever its axis order, has gaps or repeats in memory.

    The strides of axes of length 1 do not count.
    """
    usual = dense_strides(shape, itemsize, order_of_strides(shape, strides))
    return 0 not in shape and any(
        length > 1 and one != other
        for length, one, other in zip(shape, strides, usual, strict=True)
    )


def gap_strides(array: Array) -> tuple[int, ...]:
    """Return the strides of an array's axes in memory if they leave gaps, otherwise ()."""
    shape, strides = array.shape, array.strides
    if not has_gaps(shape, strides, array.itemsize):
        return ()
    return tuple(step for step, n in zip(strides, shape, strict=True) if n > 1)


def copy_with_strides(array: Array, strides: Sequence[int]) -> Array:
    """Copy an array to new memory that is laid out by ``strides``: its order of axes and gaps.

    Raises:
        ValueError: The strides are not those of such an array.
    """
    if len(strides) != array.ndim or not all(type(step) is int for step in strides):
        raise ValueError(f"{str(strides)[:80]} are no strides")
    steps = [step * (n - 1) for step, n in zip(strides, array.shape, strict=True) if n]
    first = -sum(step for step in steps if step < 0)
    extent = first + sum(step for step in steps if step > 0) + array.itemsize
    # A few numbers in a file must not ask for all memory.
    if extent > _MOST_GAPS * max(array.nbytes, 1 << 10):
        raise ValueError(f"{str(strides)[:80]} leave too large gaps")
    memory = np.empty(extent, np.uint8)
    copy: Array = np.ndarray(array.shape, array.dtype, memory, first, strides)
    copy[...] = array
    return copy


def dense_copy(array: Array) -> Array:
    """Copy an array into memory without gaps, in the same order of axes."""
    order = axis_order(array)
    if not order:
        return array.copy(order="C")
    if all(a > b for a, b in pairwise(order)):
        return array.copy(order="F")
    if 1 not in array.shape:
        return array.copy(order="K")
    copy = empty_in_order(array.shape, array.dtype, order)
    copy[...] = array
    return copy
