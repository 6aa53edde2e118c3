"""Keep memory for copies of arrays, as snapshots need them, from one save to the next.

The first use of memory that the system has just given out can cost forty times what copying
into it costs, so an arena never gives any back; it grows to the largest set it was asked for.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Mapping, Sequence
from operator import attrgetter, is_
from typing import Any

import numpy as np

from jobrun.checkpoint.hdf5.file_layout import ALIGNMENT, PAGE, PAGED_BYTES
from jobrun.values.axis_order import axis_order, empty_in_order, view_in_order
from jobrun.values.blob_kinds import same_dtype

Array = np.ndarray[Any, Any]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_SHAPE, _DTYPE, _STRIDES = attrgetter("shape"), attrgetter("dtype"), attrgetter("strides")


class Arena:
    """Places for one set of named arrays at a time. Several threads may copy, each its own names.

    Small arrays lie first, in the order given, with the gaps that a file has: what is written in
    that order is one piece of memory. Large ones begin at a page, from which a disk can be
    written to without another copy.

    Attributes:
        size_bytes: How much memory it has taken.
        small: The names of the small arrays, in the order of their places.
    """

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None
        self._places: dict[str, Array] = {}
        self._offsets: dict[str, int] = {}
        self._lead_bytes = 0
        # Of the places: names, shapes, dtypes, strides.
        self._form: tuple[list[Any], ...] = ([], [], [], [])
        self._position = threading.Lock()
        self.size_bytes = 0
        self.small: tuple[str, ...] = ()

    def prepare(self, arrays: Mapping[str, Array], lead_bytes: int = 0) -> None:
        """Allocate the arena's memory for copies of these arrays, in place of earlier copies.

        Args:
            arrays: In the order in which the small ones are to lie.
            lead_bytes: How far behind a page the first one is to begin; it does so in the file.
        """
        if lead_bytes == self._lead_bytes and self._fits(arrays):
            return
        self._places, self._lead_bytes = {}, lead_bytes
        self.small = tuple(name for name, one in arrays.items() if one.nbytes < PAGED_BYTES)
        large = (name for name, one in arrays.items() if one.nbytes >= PAGED_BYTES)
        ordered = {name: arrays[name] for name in (*self.small, *large)}
        self._offsets, needed_bytes = _layout(ordered, lead_bytes)
        if needed_bytes > self.size_bytes:
            # The old one first: never both.
            self._memory = None
            self._memory = _mapped(needed_bytes)
            self.size_bytes = needed_bytes
        for name, array in arrays.items():
            self._places[name] = self._place(array, self._offsets[name])
        self._form = _form_of(self._places)

    def copy(self, names: Sequence[str], arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Copy some of the prepared arrays into the arena, bit for bit, in their axis order.

        They are valid until ``prepare``.

        Large ones are copied while other threads run. For small ones these are kept waiting:
        to let them run, and then to wait for one's turn again, costs far more than the copy.
        """
        copies = dict(zip(names, map(self._places.__getitem__, names), strict=True))
        if len(self.small) == len(self._places):
            self._write(names, arrays)
            return copies
        large = copies.keys() - set(self.small)
        self._write([name for name in names if name not in large], arrays)
        for name in large:
            np.copyto(copies[name], arrays[name], casting="no")
        return copies

    def adjacent(self, names: Sequence[str], size_bytes: int) -> Bytes | None:
        """Return the arena's copies of arrays as one piece of memory if the copies are adjacent.

        Args:
            names: In which order they should lie; not empty.
            size_bytes: Of each of them.

        Returns:
            uint8, one-dimensional; None where something is between two of them, or one of them is
            not in the arena.
        """
        first = self._offsets.get(names[0])
        if self._memory is None or first is None:
            return None
        wanted = range(first, first + len(names) * size_bytes, size_bytes)
        if list(map(self._offsets.get, names)) != list(wanted):
            return None
        return np.frombuffer(self._memory, np.uint8, len(names) * size_bytes, first)

    def _write(self, names: Sequence[str], arrays: Mapping[str, Any]) -> None:
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
        names, shapes, dtypes, strides = self._form
        values = arrays.values()
        if list(arrays) != names or list(map(_SHAPE, values)) != shapes:
            return False
        found = list(map(_DTYPE, values))
        # Equal ones may have other metadata, titles, or scalars.
        if not (all(map(is_, found, dtypes)) or all(map(same_dtype, found, dtypes))):
            return False
        # Of arrays without gaps these tell the axis order; of others it is asked for.
        return list(map(_STRIDES, values)) == strides

    def _place(self, array: Array, offset: int) -> Array:
        order = axis_order(array)
        if self._memory is None or not array.nbytes:
            return empty_in_order(array.shape, array.dtype, order)
        flat: Array = np.frombuffer(self._memory, array.dtype, array.size, offset)
        return view_in_order(flat, array.shape, order)


def _form_of(arrays: Mapping[str, Array]) -> tuple[list[Any], ...]:
    values = arrays.values()
    return list(arrays), *(list(map(of, values)) for of in (_SHAPE, _DTYPE, _STRIDES))


def _layout(arrays: Mapping[str, Array], begin: int) -> tuple[dict[str, int], int]:
    """Return the offset of each array's copy in the arena, and the arena's length."""
    offsets: dict[str, int] = {}
    end = begin
    for name, array in arrays.items():
        step = PAGE if array.nbytes >= PAGED_BYTES else ALIGNMENT
        offsets[name] = -(-end // step) * step
        end = offsets[name] + array.nbytes
    return offsets, -(-end // PAGE) * PAGE


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
