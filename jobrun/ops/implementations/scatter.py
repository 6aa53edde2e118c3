"""Implement the operators that scatter values into an array, such as ``add_at``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_Array = np.ndarray[Any, Any]
# Below so many indices, numpy's way over whole rows costs less than one call per column.
_FEWEST = 128
# What the rows at hand may take, so that they stay in the cache from column to column.
_AT_HAND_BYTES = 1 << 17
_INTEGERS = tuple(
    map(np.dtype, (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32))
)
_NUMBERS = (*_INTEGERS, *map(np.dtype, (np.uint64, np.float32, np.float64)))


def add_at(a: _Array, indices: Any, values: Any) -> None:
    """Implement ``add_at``: add ``values`` to ``a[indices]``, once for each occurrence."""
    _at(np.add, _array(a), _index(indices), values)


def subtract_at(a: _Array, indices: Any, values: Any) -> None:
    """Implement ``subtract_at``: subtract ``values`` from ``a[indices]``, once per occurrence."""
    _at(np.subtract, _array(a), _index(indices), values)


def multiply_at(a: _Array, indices: Any, values: Any) -> None:
    """Implement ``multiply_at``: multiply ``a[indices]`` by ``values``, once per occurrence."""
    _at(np.multiply, _array(a), _index(indices), values)


def maximum_at(a: _Array, indices: Any, values: Any) -> None:
    """Implement ``maximum_at``: put ``values`` where they are larger into ``a[indices]``."""
    _at(np.maximum, _array(a), _index(indices), values)


def minimum_at(a: _Array, indices: Any, values: Any) -> None:
    """Implement ``minimum_at``: put ``values`` where they are smaller into ``a[indices]``."""
    _at(np.minimum, _array(a), _index(indices), values)


def index_add(a: Any, indices: Any, values: Any) -> _Array:
    """Implement ``index_add``: copy ``a``, and add ``values`` to the copy at ``indices``."""
    result = np.array(a)
    _at(np.add, result, _index(indices), values)
    return result


def index_set(a: Any, indices: Any, values: Any) -> _Array:
    """Implement ``index_set``: copy ``a``, and put ``values`` into the copy at ``indices``."""
    result = np.array(a)
    result[_index(indices)] = values
    return result


def _at(ufunc: np.ufunc, a: _Array, indices: Any, values: Any) -> None:
    """Scatter by ``ufunc.at``, column by column where indices select whole rows (faster).

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
    """Return whether to scatter is to change whole rows of ``a``, by one row for each index."""
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
        # Or else nothing may be changed, and numpy says what is wrong.
        and bool(-len(a) <= indices.min() and indices.max() < len(a))
    )


def _array(a: _Array) -> _Array:
    if not isinstance(a, np.ndarray):
        raise TypeError("only an array can be changed in place")
    return a


def _index(indices: Any) -> Any:
    # numpy takes a list as an index only sometimes as what it looks like.
    return np.asarray(indices) if isinstance(indices, list) else indices
