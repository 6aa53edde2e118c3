"""Keep memory for copies of arrays, as snapshots need them, from one save to the next.

The first use of memory that the system has just given out can cost forty times what copying
into it costs, so an arena never gives any back; it grows to the largest set it was asked for.
"""

from __future__ import annotations

import mmap
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from jobrun.checkpoint.hdf5.file_layout import ALIGNMENT, PAGE, PAGED_BYTES
from jobrun.checkpoint.write.direct_io import map_memory
from jobrun.values.axis_order import axis_order, empty_in_order, view_in_order

Array = np.ndarray[Any, Any]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Names = tuple[str, ...]

# Bytes copied in one turn; after it another thread may choose what is copied next.
_TURN_BYTES = 1 << 20
_TURN_BLOBS = 1 << 10


class _Run(Struct):
    """Small arrays whose copies lie one after the other in memory, without gaps.

    Attributes:
        names: Of them.
        begin: Where the first copy begins in the memory.
        end: Where the last one ends.
    """

    names: list[str]
    begin: int
    end: int


class Arena:
    """Places for one set of named arrays at a time. Several threads may copy, each its own names.

    Small arrays lie first, in the order given, with the gaps that a file has: what is written in
    that order is one piece of memory. Large ones begin at a page, from which a disk can be
    written to without another copy.

    Attributes:
        size_bytes: How much memory it has taken.
        turns: The names of its arrays, in groups that are copied in one go.
    """

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None
        self._places: dict[str, Array] = {}
        self._offsets: dict[str, int] = {}
        self._small: frozenset[str] = frozenset()
        # For each turn of small arrays: its runs, and the arrays' copies.
        self._runs: dict[Names, list[_Run]] = {}
        self._copies: dict[Names, dict[str, Array]] = {}
        # Copies as one piece of memory, by the identity of the sequence of names requested.
        self._pieces: dict[int, tuple[Sequence[str], int, Bytes | None]] = {}
        self._key: object = None
        self._lead_bytes = 0
        self._position = threading.Lock()
        self.size_bytes = 0
        self.turns: tuple[Names, ...] = ()

    def is_prepared(self, key: object, lead_bytes: int) -> bool:
        """Return whether the snapshot arena was prepared for these array types and offset."""
        return lead_bytes == self._lead_bytes and key == self._key

    def prepare(self, arrays: Mapping[str, Array], lead_bytes: int = 0, key: object = None) -> None:
        """Lay out the arena's memory for copies of these arrays; earlier copies become invalid.

        Args:
            arrays: In the order in which the small ones are to lie.
            lead_bytes: How far behind a page the first one is to begin; it does so in the file.
            key: Equal for arrays of the same names, dtypes, shapes and axis orders.
        """
        self._places, self._pieces, self._copies = {}, {}, {}
        self._key, self._lead_bytes = key, lead_bytes
        small = [name for name, value in arrays.items() if value.nbytes < PAGED_BYTES]
        large = [name for name, value in arrays.items() if value.nbytes >= PAGED_BYTES]
        self._offsets, needed_bytes = _layout({n: arrays[n] for n in (*small, *large)}, lead_bytes)
        if needed_bytes > self.size_bytes:
            # Freed first: never hold both at once.
            self._memory = None
            self._memory = map_memory(needed_bytes)
            self.size_bytes = needed_bytes
        for name, array in arrays.items():
            self._places[name] = self._place(array, self._offsets[name])
        self._small = frozenset(small)
        turns = list(self._cut(small))
        self._runs = {turn: list(self._runs_of(turn)) for turn in turns}
        self._copies = {turn: self._copies_of(turn) for turn in turns}
        self.turns = (*turns, *self._cut(large))

    def copy(self, names: Names, arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        """Copy the named arrays to their prepared places in the arena's memory, bit for bit.

        The copies are valid until ``prepare``.

        Large ones are copied while other threads run. For small ones these are kept waiting:
        to let them run, and then to wait for one's turn again, costs far more than the copy.
        """
        runs, copies = self._runs.get(names), self._copies.get(names)
        if runs is None or copies is None:
            copies = self._copies_of(names)
            runs = list(self._runs_of([name for name in names if name in self._small]))
            for name in names:
                if name not in self._small:
                    np.copyto(copies[name], arrays[name], casting="no")
        if self._memory is not None:
            for run in runs:
                self._write(self._memory, run, arrays)
        return copies

    def adjacent(self, names: Sequence[str], size_bytes: int) -> Bytes | None:
        """Return the arena's copies of these arrays as one array of bytes; None if there are gaps.

        Args:
            names: In which order they should lie; not empty.
            size_bytes: Of each of them.

        Returns:
            uint8, one-dimensional; None where something is between two of them, or one of them is
            not in the arena.
        """
        known = self._pieces.get(id(names))
        if known is None or known[1] != size_bytes:
            # The entry holds the names, so no other object can get their id.
            known = self._pieces[id(names)] = names, size_bytes, self._piece(names, size_bytes)
        return known[2]

    def _piece(self, names: Sequence[str], size_bytes: int) -> Bytes | None:
        first = self._offsets.get(names[0])
        if self._memory is None or first is None:
            return None
        wanted = range(first, first + len(names) * size_bytes, size_bytes)
        if list(map(self._offsets.get, names)) != list(wanted):
            return None
        return np.frombuffer(self._memory, np.uint8, len(names) * size_bytes, first)

    def _write(self, memory: mmap.mmap, run: _Run, arrays: Mapping[str, Any]) -> None:
        """Copy small arrays one after another into adjacent memory of the snapshot arena."""
        with self._position:
            memory.seek(run.begin)
            try:
                deque(map(memory.write, map(arrays.__getitem__, run.names)), 0)
            except (ValueError, BufferError):
                # A dtype (such as datetime64) or an axis order without the buffer protocol.
                pass
            else:
                if memory.tell() == run.end:
                    return
        for name in run.names:
            np.copyto(self._places[name], arrays[name], casting="no")

    def _cut(self, names: Sequence[str]) -> Iterator[Names]:
        """Divide array names into groups that the snapshot arena copies by one call each."""
        begin, left_bytes = 0, _TURN_BYTES
        for at, name in enumerate(names):
            left_bytes -= self._places[name].nbytes
            if left_bytes <= 0 or at + 1 - begin == _TURN_BLOBS:
                yield tuple(names[begin : at + 1])
                begin, left_bytes = at + 1, _TURN_BYTES
        if begin < len(names):
            yield tuple(names[begin:])

    def _copies_of(self, names: Names) -> dict[str, Array]:
        """Return the copies of these arrays that the snapshot arena's memory holds, by name."""
        return dict(zip(names, map(self._places.__getitem__, names), strict=True))

    def _runs_of(self, names: Sequence[str]) -> Iterator[_Run]:
        """Group the names of small arrays whose copies are contiguous in the snapshot arena."""
        run: _Run | None = None
        for name in names:
            begin = self._offsets[name]
            end = begin + self._places[name].nbytes
            if run is not None and run.end == begin:
                run.names.append(name)
                run.end = end
                continue
            if run is not None:
                yield run
            run = _Run([name], begin, end)
        if run is not None:
            yield run

    def _place(self, array: Array, offset: int) -> Array:
        order = axis_order(array)
        if self._memory is None or not array.nbytes:
            return empty_in_order(array.shape, array.dtype, order)
        flat: Array = np.frombuffer(self._memory, array.dtype, array.size, offset)
        return view_in_order(flat, array.shape, order)


def _layout(arrays: Mapping[str, Array], begin: int) -> tuple[dict[str, int], int]:
    """Return the offset of each array's copy in the arena, and the arena's length."""
    offsets: dict[str, int] = {}
    end = begin
    for name, array in arrays.items():
        step = PAGE if array.nbytes >= PAGED_BYTES else ALIGNMENT
        offsets[name] = -(-end // step) * step
        end = offsets[name] + array.nbytes
    return offsets, -(-end // PAGE) * PAGE
