"""Values put or added at indices, where an index may stand several times."""

from __future__ import annotations

from typing import Any

import numpy as np

_Array = np.ndarray[Any, Any]


def add_at(a: _Array, indices: Any, values: Any) -> None:
    """Add ``values`` to ``a[indices]`` in place; an index that repeats counts each time."""
    np.add.at(_array(a), _index(indices), values)


def subtract_at(a: _Array, indices: Any, values: Any) -> None:
    """Subtract ``values`` from ``a[indices]`` in place, each time an index stands there."""
    np.subtract.at(_array(a), _index(indices), values)


def multiply_at(a: _Array, indices: Any, values: Any) -> None:
    """Multiply ``a[indices]`` by ``values`` in place, each time an index stands there."""
    np.multiply.at(_array(a), _index(indices), values)


def maximum_at(a: _Array, indices: Any, values: Any) -> None:
    """Raise ``a[indices]`` to ``values`` in place where they are larger."""
    np.maximum.at(_array(a), _index(indices), values)


def minimum_at(a: _Array, indices: Any, values: Any) -> None:
    """Lower ``a[indices]`` to ``values`` in place where they are smaller."""
    np.minimum.at(_array(a), _index(indices), values)


def index_add(a: Any, indices: Any, values: Any) -> _Array:
    """A copy of ``a`` with ``values`` added at ``indices``; same dtype and shape as ``a``."""
    result = np.array(a)
    np.add.at(result, _index(indices), values)
    return result


def index_set(a: Any, indices: Any, values: Any) -> _Array:
    """A copy of ``a`` with ``values`` at ``indices``; of an index that repeats the last counts."""
    result = np.array(a)
    result[_index(indices)] = values
    return result


def _array(a: _Array) -> _Array:
    if not isinstance(a, np.ndarray):
        raise TypeError("only an array can be changed in place")
    return a


def _index(indices: Any) -> Any:
    # numpy takes a list as an index only sometimes as what it looks like.
    return np.asarray(indices) if isinstance(indices, list) else indices
