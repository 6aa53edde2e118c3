"""Read portions of a checkpoint file: large blobs directly into their arrays, small ones copied."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from jobrun.checkpoint.hdf5.digest_blocks import block_span
from jobrun.checkpoint.hdf5.index import Index
from jobrun.checkpoint.hdf5.value_codec import Array
from jobrun.checkpoint.read.verified_file import Bytes, StateFile

Places = np.ndarray[Any, np.dtype[np.int64]]


class RowSpans:
    """Some rows of an index in the order of their places in the file."""

    def __init__(self, index: Index, rows: Places) -> None:
        begin = index.table["offset"][rows].astype(np.int64)
        order = np.argsort(begin, kind="stable")
        self.rows: Places = rows[order]
        self.begin: Places = begin[order]
        self.end: Places = self.begin + index.table["size"][self.rows].astype(np.int64)
        self._types = index.table["type"][self.rows]

    def touching(self, begin: int, end: int) -> range:
        """Return the rows of the index that have data in this portion of the file."""
        low, high = np.searchsorted(self.end, begin, "right"), np.searchsorted(self.begin, end)
        return range(int(low), int(high))

    def inside(self, begin: int, end: int) -> range:
        """Return the rows of the index whose data are completely in this portion of the file."""
        low, high = np.searchsorted(self.begin, begin), np.searchsorted(self.end, end, "right")
        return range(int(low), int(high))

    def runs(self, places: range) -> list[range]:
        """Split index rows, for a partial read, into runs of one type with adjacent data."""
        here = slice(places.start, places.stop)
        types, begin, end = self._types[here], self.begin[here], self.end[here]
        cuts = np.flatnonzero((types[1:] != types[:-1]) | (begin[1:] != end[:-1])) + 1
        edges = [places.start, *(cuts + places.start).tolist(), places.stop]
        return [range(a, b) for a, b in pairwise(edges) if a < b]


class PortionReader:
    """Reads portions of a file for several threads.

    Args:
        file: The file.
        large: Blobs that are read to their place.
        memory: For each row of ``large`` the place, as bytes.
        small: Other blobs.
        take: Called with rows of one type and the bytes of all of them, which are not kept.
    """

    def __init__(
        self,
        file: StateFile,
        large: RowSpans,
        memory: Mapping[int, Bytes],
        small: RowSpans,
        take: Callable[[list[int], Bytes], None],
    ) -> None:
        self._file = file
        self._large = large
        self._memory = memory
        self._small = small
        self._take = take
        self._lock = threading.Lock()
        # Of small blobs that go over the end of a portion.
        self._halves: dict[int, Bytes] = {}

    def count_small(self, blocks: range) -> int:
        """Count the small blobs that have data in the blocks of one portion to read."""
        return len(self._small.touching(*self._span(blocks)))

    def read(self, blocks: range) -> None:
        """Read and verify a portion of the file: some of its blocks.

        Raises:
            CheckpointError: One is damaged.
        """
        begin, end = self._span(blocks)
        pieces: list[Bytes] = []
        rest: list[tuple[int, Bytes]] = []
        position = begin
        for first, last, piece in [*self._large_pieces(begin, end), (end, end, None)]:
            if first > position:
                rest.append((position, np.empty(first - position, np.uint8)))
                pieces.append(rest[-1][1])
            if piece is not None:
                pieces.append(piece)
            position = last
        self._file.pread_into(pieces, begin)
        self._file.check(blocks, pieces)
        for position, piece in rest:
            self._take_from(position, piece)

    def take_halves(self) -> None:
        """Give out the small blobs that two portions had halves of, once all portions are read."""
        for row, data in self._halves.items():
            self._take([row], data)

    def _span(self, blocks: range) -> tuple[int, int]:
        tail = self._file.parts.tail
        return block_span(blocks[0], tail)[0], block_span(blocks[-1], tail)[1]

    def _large_pieces(self, begin: int, end: int) -> list[tuple[int, int, Bytes | None]]:
        """Return where large blobs lie in a portion of the file, and memory to read them into."""
        found: list[tuple[int, int, Bytes | None]] = []
        for place in self._large.touching(begin, end):
            start = int(self._large.begin[place])
            first, last = max(begin, start), min(end, int(self._large.end[place]))
            memory = self._memory[int(self._large.rows[place])]
            found.append((first, last, memory[first - start : last - start]))
        return found

    def _take_from(self, begin: int, data: Bytes) -> None:
        small, end = self._small, begin + data.size
        whole = small.inside(begin, end)
        for places in small.runs(whole):
            first, last = int(small.begin[places[0]]), int(small.end[places[-1]])
            rows = small.rows[places.start : places.stop].tolist()
            self._take(rows, data[first - begin : last - begin])
        for place in small.touching(begin, end):
            if place not in whole:
                self._take_half(place, begin, data)

    def _take_half(self, place: int, begin: int, data: Bytes) -> None:
        first, last = int(self._small.begin[place]), int(self._small.end[place])
        low, high = max(first, begin), min(last, begin + data.size)
        with self._lock:
            row = int(self._small.rows[place])
            half = self._halves.setdefault(row, np.empty(last - first, np.uint8))
        half[low - first : high - first] = data[low - begin : high - begin]


def flat_memory(array: Array) -> Bytes:
    """Return the memory of an array in C order as bytes, into which portions of a file are read."""
    flat: Any = array.reshape(-1)
    return flat.view(np.uint8)  # type: ignore[no-any-return]
