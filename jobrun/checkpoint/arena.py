"""Memory for copies of arrays, kept from one save to the next. Not when they are copied, or why.

The first use of memory that the system has just given out can cost forty times what copying
into it costs, so an arena never gives any back; it grows to the largest set it was asked for.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# Large arrays begin at a page, from which a disk can be written to without another copy.
_PAGE_BYTES = mmap.PAGESIZE
_LARGE_BYTES = 1 << 16
_LINE_BYTES = 64


class Arena:
    """Places for one set of named arrays at a time. Several threads may copy, each its own names.

    Attributes:
        size_bytes: How much memory it has taken.
    """

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None
        self._places: dict[str, Array] = {}
        self._offsets: dict[str, int] = {}
        self._position = threading.Lock()
        self.size_bytes = 0

    def prepare(self, arrays: Mapping[str, Array]) -> None:
        """Make places for these arrays; those of an earlier set are gone, and their copies."""
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

    def copy(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Copies of some of the prepared arrays, bit for bit, valid until ``prepare``.

        Large ones are copied while other threads run. For small ones these are kept waiting:
        to let them run, and then to wait for one's turn again, costs far more than the copy.
        """
        with self._position:
            for name, array in arrays.items():
                if array.nbytes < _LARGE_BYTES:
                    self._write(name, array)
        for name, array in arrays.items():
            if array.nbytes >= _LARGE_BYTES:
                np.copyto(self._places[name], array, casting="no")
        return {name: self._places[name] for name in arrays}

    def _write(self, name: str, array: Any) -> None:
        memory = self._memory
        if memory is None or not array.flags.c_contiguous:
            np.copyto(self._places[name], array, casting="no")
            return
        memory.seek(self._offsets[name])
        try:
            memory.write(array)
        except (ValueError, BufferError):
            # A dtype, such as that of dates, which cannot show its memory as bytes.
            np.copyto(self._places[name], array, casting="no")

    def _fits(self, arrays: Mapping[str, Array]) -> bool:
        places = self._places
        return len(arrays) == len(places) and all(
            (place := places.get(name)) is not None
            and place.shape == array.shape
            and place.dtype == array.dtype
            for name, array in arrays.items()
        )

    def _place(self, array: Array, offset: int) -> Array:
        if self._memory is None or not array.nbytes:
            return np.empty(array.shape, array.dtype)
        flat: Array = np.frombuffer(self._memory, array.dtype, array.size, offset)
        return flat.reshape(array.shape)


def _layout(arrays: Mapping[str, Array]) -> tuple[dict[str, int], int]:
    """Where each array begins, and the length of it all."""
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
