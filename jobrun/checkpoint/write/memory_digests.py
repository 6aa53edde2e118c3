"""Digest the values of a save from the memory they are in, by their names, beside the encoder.

A block of a file consists of parts of values whose bytes are stored as they are, and of the rest:
metadata, gaps, and what is encoded. The digest of a block is taken of the former where they are in
memory, and of the latter as it is written. What is encoded has a digest of its value, too. So an
encoder that writes something else makes a file that no load accepts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import xxhash

from jobrun.checkpoint.hdf5.digest_blocks import BLOCK_BYTES, digest
from jobrun.checkpoint.hdf5.dtypes import DType
from jobrun.checkpoint.hdf5.file_layout import Layout, Numbers
from jobrun.checkpoint.hdf5.user_block import SIZE as USER_BLOCK
from jobrun.checkpoint.hdf5.value_digest import (
    TypeWords,
    bytes_between,
    digest_index,
    digest_value,
    is_bare,
    type_words,
)
from jobrun.values.blob_kinds import Value

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
# Type codes whose arrays export the buffer protocol.
_SHOWN = frozenset(np.typecodes["AllInteger"] + np.typecodes["AllFloat"] + "?")


class MemoryDigests:
    """What of a layout's values is digested, and how.

    Args:
        layout: The layout.
        dtypes: Of arrays, by name.

    Attributes:
        names: Of the values that have a digest each, in the order of the layout.
    """

    def __init__(self, layout: Layout, dtypes: Mapping[str, DType]) -> None:
        self._layout = layout
        self._dtypes = dtypes
        self._rows: list[int] = []
        self.names: list[str] = []
        for row, entry in enumerate(layout.entries):
            dtype = dtypes.get(entry.name)
            packed = entry.packing is not None
            if dtype is None or not is_bare(entry.kind, dtype, entry.order, packed=packed):
                self.names.append(entry.name)
            elif entry.size_bytes:
                self._rows.append(row)

    def locate(self, offsets: Numbers) -> None:
        """Find the values that are parts of each block, given the offsets of all in the file."""
        rows = np.array(self._rows, np.int64)
        rows = rows[np.argsort(offsets[rows], kind="stable")]
        entries = [self._layout.entries[row] for row in rows.tolist()]
        begin = offsets[rows].astype(np.int64) - USER_BLOCK
        end = begin + np.array([entry.size_bytes for entry in entries], np.int64)
        self._bare = [entry.name for entry in entries]
        self._begin: list[int] = begin.tolist()
        self._end: list[int] = end.tolist()
        # The values of each block, and where each run of adjacent values ends.
        edges = np.arange(int(end.max(initial=0)) // BLOCK_BYTES + 2) * BLOCK_BYTES
        self._low: list[int] = np.searchsorted(end, edges[:-1], "right").tolist()
        self._high: list[int] = np.searchsorted(begin, edges[1:]).tolist()
        is_shown = np.array([self._dtypes[name].char in _SHOWN for name in self._bare], bool)
        is_last = np.ones(len(rows), bool)
        is_last[:-1] = (end[:-1] != begin[1:]) | ~is_shown[:-1] | ~is_shown[1:]
        stops = np.flatnonzero(is_last) + 1
        self._stop: list[int] = stops[
            np.searchsorted(stops, np.arange(len(rows)), "right")
        ].tolist()

    def take(
        self,
        values: Mapping[str, Value],
        unchanged: Collection[str] = (),
        known: Sequence[bytes] = (),
    ) -> TakenDigests:
        """Digest a save's values that have digests of their own, and prepare those of blocks.

        Args:
            values: By name.
            unchanged: Names of those that are the same as at the save before.
            known: Their digests, in the order of ``names``; empty if there are none.
        """
        digests = [
            known[at] if known and name in unchanged else digest_value(values[name])
            for at, name in enumerate(self.names)
        ]
        return TakenDigests(self, list(map(values.__getitem__, self._bare)), digests)


class TakenDigests:
    """The digests of one save.

    Attributes:
        values: Of the values that have one each.
    """

    def __init__(self, plan: MemoryDigests, arrays: list[Any], values: list[bytes]) -> None:
        self._begin, self._end, self._stop = plan._begin, plan._end, plan._stop
        self._low, self._high = plan._low, plan._high
        self._arrays = arrays
        # The whole memory of arrays of which a part was digested already, by row.
        self._memory: dict[int, memoryview] = {}
        self.values = values

    def digest_block(self, number: int, written: Bytes) -> bytes:
        """Digest a block of the file: values from their memory, all else as it is written.

        Args:
            number: Of the block.
            written: Its bytes as the encoder has them.
        """
        low, high = (self._low[number], self._high[number]) if number < len(self._low) else (0, 0)
        if low == high:
            return digest(written)
        at = number * BLOCK_BYTES
        if self._begin[low] <= at and self._end[low] >= at + written.size:
            return digest(self._bytes(low, at, at + written.size))
        try:
            return self._digest_mixed(number, written, whole=True)
        except (ValueError, BufferError):
            # One of the arrays has gaps between its items.
            return self._digest_mixed(number, written, whole=False)

    def _digest_mixed(self, number: int, written: Bytes, *, whole: bool) -> bytes:
        content, file = xxhash.xxh3_128(), written.data
        update, begin_offsets, end_offsets = content.update, self._begin, self._end
        row, high = self._low[number], self._high[number]
        begin = at = number * BLOCK_BYTES
        end = begin + written.size
        while row < high:
            first = begin_offsets[row]
            if first > at:
                update(file[at - begin : first - begin])
                at = first
            stop = min(self._stop[row], high)
            last = stop - (end_offsets[stop - 1] > end)
            if whole and first == at and last > row + 1:
                # A loop in C: of thousands of arrays each step counts.
                deque(map(update, self._arrays[row:last]), 0)
                at, row = end_offsets[last - 1], last
                continue
            piece_end = min(end_offsets[row], end)
            update(self._bytes(row, at, piece_end))
            at, row = piece_end, row + 1
        if at < end:
            update(file[at - begin :])
        return content.digest()

    def _bytes(self, row: int, begin: int, end: int) -> Any:
        """Return the bytes of a value in memory that a block has between two of its positions."""
        first = self._begin[row]
        memory = self._memory.get(row)
        if memory is None:
            array = self._arrays[row]
            if not array.flags.c_contiguous:
                return bytes_between(array, begin - first, end - first)
            memory = self._memory[row] = array.reshape(-1).view(np.uint8).data
        return memory[begin - first : end - first]


def digest_types(values: Mapping[str, Value], names: Sequence[str]) -> str:
    """Digest names and types of values as they are in memory.

    Args:
        values: By name.
        names: In the order of the file.
    """
    known: dict[Any, TypeWords] = {}
    types: dict[TypeWords, int] = {}
    words = (_words_of(values[name], known) for name in names)
    numbers = np.array(
        [types.setdefault(words_of_type, len(types)) for words_of_type in words], np.uint64
    )
    text = "\n".join(names).encode("utf-8", "surrogatepass")
    return digest_index(text, types, numbers.tobytes())


def _words_of(value: Value, known: dict[Any, TypeWords]) -> TypeWords:
    if type(value) is not np.ndarray or value.dtype.isbuiltin == 0:
        return type_words(value)
    # Cached by all that the words depend on: thousands of arrays have few types.
    dtype = value.dtype
    key = (dtype.str, dtype.type, dtype.metadata and id(dtype), value.shape, value.strides)
    if key not in known:
        known[key] = type_words(value)
    return known[key]
