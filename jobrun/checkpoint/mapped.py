"""A checkpoint file opened to be looked into: nothing is read before it is asked for.

Arrays are views of the file, without a copy; the blocks that hold one are verified when it is
asked for the first time.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from jobrun.blobs.values import Value
from jobrun.checkpoint.blocks import block_span, blocks_of
from jobrun.checkpoint.loading import load
from jobrun.checkpoint.statefile import Bytes, StateFile, open_state


class MappedState(Mapping[str, Value]):
    """The blobs of a file by name. Arrays cannot be written to, and may outlive the mapping.

    While it is open the file is not used for another epoch; what has been taken out of it is to
    be copied if it is to live longer than that.
    """

    def __init__(self, file: StateFile) -> None:
        self._file = file
        memory = mmap.mmap(file.descriptor, 0, prot=mmap.PROT_READ)
        self._bytes: Bytes = np.frombuffer(memory, np.uint8)
        self._verified: set[int] = set()

    @property
    def file(self) -> StateFile:
        """The file, for what it tells beside the blobs."""
        return self._file

    def __getitem__(self, name: str) -> Value:
        index = self._file.index
        row = index.rows[name]
        kind = index.type_of(row)
        if not kind.is_plain or row in index.packings:
            return load(self._file, [name])[name]
        begin, end = index.span(row)
        for number in blocks_of(begin, end):
            if number not in self._verified:
                first, last = block_span(number, self._file.parts.tail)
                self._file.check([number], [self._bytes[first:last]])
                self._verified.add(number)
        return self._bytes[begin:end].view(kind.stored).reshape(kind.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._file.index.names)

    def __len__(self) -> int:
        return len(self._file.index.names)


@contextmanager
def open_mapped(path: str) -> Iterator[MappedState]:
    """Open a file of format 2 to look into it.

    Raises:
        CheckpointError: See ``open_state``; later, when a blob is asked for: it is damaged.
    """
    with open_state(path) as file:
        yield MappedState(file)
