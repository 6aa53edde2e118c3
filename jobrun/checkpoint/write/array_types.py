"""Compare dtypes, shapes and axis orders of a state's arrays with those of the save before."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter, eq, is_
from typing import Any

import numpy as np

from jobrun.values.blob_kinds import Value, size_bytes
from jobrun.values.kinds.array import same_dtype

_DTYPE, _SHAPE = attrgetter("dtype"), attrgetter("shape")


class ArrayTypes:
    """The names of a state's values, and dtypes, shapes and axis orders of those that are arrays.

    Of ten thousand small arrays these take as long to ask for as it takes to copy them. So they
    are asked for once for each save; and who finds the same object as at the save before knows
    that all of them are the same.

    Args:
        values: Of a state, by name; none is kept.

    Attributes:
        others: The names of what is no array.
    """

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._names = list(values)
        self._classes = list(map(type, values.values()))
        self.others = [name for name, value in values.items() if type(value) is not np.ndarray]
        arrays = self._arrays_of(values)
        self._dtypes = list(map(_DTYPE, arrays))
        self._shapes = list(map(_SHAPE, arrays))
        # Only arrays with several axes can have different axis orders.
        self._deep = [index for index, shape in enumerate(self._shapes) if len(shape) > 1]
        self._strides = [arrays[index].strides for index in self._deep]
        self._array_bytes = int(sum(array.nbytes for array in arrays))

    def fits(self, values: Mapping[str, Value]) -> bool:
        """Return whether values have the kept names and array types (dtype, shape, axis order)."""
        if list(values) != self._names or list(map(type, values.values())) != self._classes:
            return False
        arrays = self._arrays_of(values)
        # Compared without lists: thousands of new tuples would trigger the garbage collector.
        # Equal dtypes may have other metadata, titles, or scalars.
        if not any(all(map(same, map(_DTYPE, arrays), self._dtypes)) for same in (is_, same_dtype)):
            return False
        if not all(map(eq, map(_SHAPE, arrays), self._shapes)):
            return False
        # For arrays without gaps, equal strides mean equal axis orders.
        return [arrays[index].strides for index in self._deep] == self._strides

    def size_bytes(self, values: Mapping[str, Value]) -> int:
        """Sum the sizes in bytes of values with these array types; a scalar counts 8 bytes."""
        return self._array_bytes + size_bytes([values[name] for name in self.others])

    def _arrays_of(self, values: Mapping[str, Value]) -> list[Any]:
        if not self.others:
            return list(values.values())
        return [value for value in values.values() if type(value) is np.ndarray]
