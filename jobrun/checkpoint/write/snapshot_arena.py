"""Keep memory for copies of arrays, as snapshots need them, from one save to the next.

The first use of memory that the system has just given out can cost forty times what copying
into it costs, so an arena never gives any back; it grows to the largest set it was asked for.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterable, Mapping
from operator import attrgetter, is_
from typing import Any

import numpy as np

from jobrun.values.axis_order import axis_order, empty_in_order, view_in_order
from jobrun.values.blob_kinds import same_dtype

Array = np.ndarray[Any, Any]

# Large arrays begin at a page, from which a disk can be written to without another copy.
_PAGE_BYTES = mmap.PAGESIZE
_LARGE_BYTES = 1 << 16
_LINE_BYTES = 64
_SHAPE, _DTYPE, _STRIDES = attrgetter("shape"), attrgetter("dtype"), attrgetter("strides")


class Arena:
    """Places for one set of named arrays at a time. Several threads may copy, each its own names.

    Attributes:
        size_bytes: How much memory it has taken.
        small: The names of the small arrays, in the order of their places.
    """

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None
        self._places: dict[str, Array] = {}
        self._offsets: dict[str, int] = {}
        self._position = threading.Lock()
        self.size_bytes = 0
        self.small: dict[str, None] = {}

    def prepare(self, arrays: Mapping[str, Array]) -> None:
        """Allocate the arena's memory for copies of these arrays, in place of earlier copies."""
        if self._fits(arrays):
            return
        self._places = {}
        self._offsets, needed_bytes = _layout(arrays)
        if needed_bytes > self.size_bytes:
            # The old one first: never both.
            self._memory = None
            self._memory = _mapped(needed_bytes)
            self.size_bytes = needed_bytes
        for name, array in arrays.items():
            self._places[name] = self._place(array, self._offsets[name])
        small = (name for name, array in arrays.items() if array.nbytes < _LARGE_BYTES)
        self.small = dict.fromkeys(small)

    def copy(self, names: Iterable[str], arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Copy some of the prepared arrays into the arena, bit for bit, in their axis order.

        They are valid until ``prepare``.

        Large ones are copied while other threads run. For small ones these are kept waiting:
        to let them run, and then to wait for one's turn again, costs far more than the copy.
        """
        copies = {name: self._places[name] for name in names}
        large = copies.keys() - self.small.keys()
        if len(large) < len(copies):
            self._write([name for name in copies if name not in large], arrays)
        for name in large:
            np.copyto(copies[name], arrays[name], casting="no")
        return copies

    def _write(self, names: Iterable[str], arrays: Mapping[str, Any]) -> None:
        offsets, memory = self._offsets, self._memory
        if memory is None:
            return
        with self._position:
            for name in names:
                memory.seek(offsets[name])
                try:
                    memory.write(arrays[name])
                except (ValueError, BufferError):
                    # A dtype, such as that of dates, or an order, that is not shown as bytes.
                    np.copyto(self._places[name], arrays[name], casting="no")

    def _fits(self, arrays: Mapping[str, Array]) -> bool:
        # Most often it does, so this is as quick as it can be.
        return (
            list(arrays) == list(self._places)
            and list(map(_SHAPE, arrays.values())) == list(map(_SHAPE, self._places.values()))
            and self._has_dtypes(list(map(_DTYPE, arrays.values())))
            # Of arrays without gaps these tell the axis order; of others it is asked for.
            and list(map(_STRIDES, arrays.values())) == list(map(_STRIDES, self._places.values()))
        )

    def _has_dtypes(self, dtypes: list[np.dtype[Any]]) -> bool:
        own = list(map(_DTYPE, self._places.values()))
        # Equal ones may have other metadata, titles, or scalars.
        return all(map(is_, dtypes, own)) or all(map(same_dtype, dtypes, own))

    def _place(self, array: Array, offset: int) -> Array:
        order = axis_order(array)
        if self._memory is None or not array.nbytes:
            return empty_in_order(array.shape, array.dtype, order)
        flat: Array = np.frombuffer(self._memory, array.dtype, array.size, offset)
        return view_in_order(flat, array.shape, order)


def _layout(arrays: Mapping[str, Array]) -> tuple[dict[str, int], int]:
    """Return the offset of each array's copy in the arena, and the arena's length."""
    offsets: dict[str, int] = {}
    end = 0
    for name, array in arrays.items():
        step = _PAGE_BYTES if array.nbytes >= _LARGE_BYTES else _LINE_BYTES
        offsets[name] = -(-end // step) * step
        end = offsets[name] + array.nbytes
    return offsets, -(-end // _PAGE_BYTES) * _PAGE_BYTES


def _mapped(size_bytes: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # A program that a step starts has no use for it. And small pages are found, and cleared,
    # several times faster than huge ones, for which the system must first make room.
    for advice in ("MADV_DONTFORK", "MADV_NOHUGEPAGE"):
        if hasattr(mmap, advice):
            try:
                memory.madvise(getattr(mmap, advice))
            except OSError:
                # A kernel that does not know it: it was only advice.
                continue
    return memory
