"""Read portions of a checkpoint file: most blobs directly into their arrays, others copied."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from jobrun.checkpoint.hdf5.digest_blocks import BLOCK_BYTES, block_span
from jobrun.checkpoint.hdf5.index_parser import Index
from jobrun.checkpoint.hdf5.value_codec import Array
from jobrun.checkpoint.read.verified_file import Bytes, StateFile
from jobrun.values.file_memory import release_pages

_BYTE = np.dtype(np.uint8)
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
        """Return which blobs of a partial read overlap the bytes from ``begin`` to ``end``."""
        low, high = np.searchsorted(self.end, begin, "right"), np.searchsorted(self.begin, end)
        return range(int(low), int(high))

    def are_touching(self, begin: Places, end: Places) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return as bools for each byte range whether any blob of a partial read overlaps it."""
        low, high = np.searchsorted(self.end, begin, "right"), np.searchsorted(self.begin, end)
        touches: np.ndarray[Any, np.dtype[np.bool_]] = low < high
        return touches

    def inside(self, begin: int, end: int) -> range:
        """Return which blobs of a partial read lie wholly between two offsets in the file."""
        low, high = np.searchsorted(self.begin, begin), np.searchsorted(self.end, end, "right")
        return range(int(low), int(high))

    def runs(self, places: range) -> list[range]:
        """Split blobs, for a partial read, into ranges of one type whose data are adjacent."""
        here = slice(places.start, places.stop)
        types, begin, end = self._types[here], self.begin[here], self.end[here]
        cuts = np.flatnonzero((types[1:] != types[:-1]) | (begin[1:] != end[:-1])) + 1
        edges = [places.start, *(cuts + places.start).tolist(), places.stop]
        return [range(a, b) for a, b in pairwise(edges) if a < b]


class PortionReader:
    """Reads portions of a file for several threads.

    Args:
        file: The file.
        placed: Blobs that are read directly to their place.
        arrays: The place of each row of ``placed``: in C order.
        other: Blobs whose bytes are given out.
        take: Called with rows of one type and the bytes of all of them, which are not kept.
        in_files: Some arrays lie in files (``file_memory``).
    """

    def __init__(
        self,
        file: StateFile,
        placed: RowSpans,
        arrays: Sequence[Array],
        other: RowSpans,
        take: Callable[[list[int], Bytes], None],
        *,
        in_files: bool = False,
    ) -> None:
        self._file = file
        self._other = other
        self._take = take
        # The file in pieces: one for each array that is read directly into its memory, and one
        # for each gap between two of them.
        before = np.concatenate([[0], placed.end])
        after = np.concatenate([placed.begin, [file.parts.tail]])
        gaps = np.flatnonzero(before < after)
        self._starts: list[int] = np.insert(placed.begin, gaps, before[gaps]).tolist()
        self._starts.append(file.parts.tail)
        self._gaps: list[int] = (gaps + np.arange(len(gaps))).tolist()
        self._holds_blobs: list[bool] = other.are_touching(before[gaps], after[gaps]).tolist()
        self._arrays = arrays
        self._are_in_files = in_files
        self._lock = threading.Lock()
        # By row, the bytes so far of blobs that cross the end of a portion.
        self._halves: dict[int, Bytes] = {}

    def count_other(self, blocks: range) -> int:
        """Count the blobs that a partial read of these blocks has to copy."""
        return len(self._other.touching(*self._span(blocks)))

    def read(self, blocks: range) -> None:
        """Read a range of blocks into the buffers of a partial read, and verify the blocks.

        Raises:
            CheckpointError: One is damaged.
        """
        begin, end = self._span(blocks)
        starts, pieces, between = self._pieces_of(begin, end)
        parts = _cut(starts, pieces, begin, end)
        self._file.read_blocks(blocks, parts)
        if self._are_in_files:
            for piece in chain.from_iterable(parts):
                release_pages(piece)
        for position, piece in between:
            self._take_from(position, piece)

    def _pieces_of(
        self, begin: int, end: int
    ) -> tuple[list[int], list[Any], list[tuple[int, Bytes]]]:
        """List the buffers that a partial read fills: wanted arrays, and scratch for gaps.

        Returns:
            Where each piece begins, all pieces, and those that hold other blobs.
        """
        low, high = bisect_right(self._starts, begin) - 1, bisect_left(self._starts, end)
        gaps = range(bisect_left(self._gaps, low), bisect_left(self._gaps, high))
        starts = self._starts[low:high]
        # All pieces but the gaps have an array.
        pieces = list(self._arrays[low - gaps.start : high - gaps.stop])
        between: list[tuple[int, Bytes]] = []
        for number in gaps:
            at = self._gaps[number]
            first, last = max(self._starts[at], begin), min(self._starts[at + 1], end)
            memory = np.empty(last - first, np.uint8)
            starts[at - low] = first
            pieces.insert(at - low, memory)
            if self._holds_blobs[number]:
                between.append((first, memory))
        return starts, pieces, between

    def take_halves(self) -> None:
        """Load blobs that a partial read got in two halves, as they cross a portion's end."""
        for row, data in self._halves.items():
            self._take([row], data)

    def _span(self, blocks: range) -> tuple[int, int]:
        tail = self._file.parts.tail
        return block_span(blocks[0], tail)[0], block_span(blocks[-1], tail)[1]

    def _take_from(self, begin: int, data: Bytes) -> None:
        other, end = self._other, begin + data.size
        whole = other.inside(begin, end)
        for run in other.runs(whole):
            first, last = int(other.begin[run[0]]), int(other.end[run[-1]])
            rows = other.rows[run.start : run.stop].tolist()
            self._take(rows, data[first - begin : last - begin])
        for position in other.touching(begin, end):
            if position not in whole:
                self._take_half(position, begin, data)

    def _take_half(self, position: int, begin: int, data: Bytes) -> None:
        first, last = int(self._other.begin[position]), int(self._other.end[position])
        low, high = max(first, begin), min(last, begin + data.size)
        with self._lock:
            row = int(self._other.rows[position])
            half = self._halves.setdefault(row, np.empty(last - first, np.uint8))
        half[low - first : high - first] = data[low - begin : high - begin]


def _cut(starts: list[int], pieces: list[Array], begin: int, end: int) -> list[list[Array]]:
    """Split the buffers that a partial read fills at the file's 256 KiB block boundaries."""
    if starts[0] < begin:
        pieces[0] = flat_memory(pieces[0])[begin - starts[0] :]
        starts[0] = begin
    blocks: list[list[Array]] = []
    low = 0
    for last in (*range(begin + BLOCK_BYTES, end, BLOCK_BYTES), end):
        high = bisect_left(starts, last, low)
        parts = pieces[low:high]
        over = starts[high - 1] + parts[-1].nbytes - last
        low = high
        if over > 0:
            # The next block begins in this piece.
            memory = flat_memory(parts[-1])
            parts[-1], pieces[high - 1] = memory[:-over], memory[-over:]
            starts[high - 1] = last
            low -= 1
        blocks.append(parts)
    return blocks


def flat_memory(array: Array) -> Bytes:
    """Return a view of a C-order array's memory as bytes, which a load fills in portions."""
    if array.ndim == 1 and array.dtype is _BYTE:
        return array
    flat: Any = array.reshape(-1)
    return flat.view(np.uint8)  # type: ignore[no-any-return]
