"""An open checkpoint file of format 2: its verified header, tail, index and blocks. Only reads.

libhdf5 has no part in it. No byte is used before the digest of its block was compared, the
digests before that of the tail, and that before that of the user block.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import xxhash

from jobrun.checkpoint import userblock
from jobrun.checkpoint.blocks import BLOCK_BYTES, block_span, blocks_of, digest
from jobrun.checkpoint.image import StructureError
from jobrun.checkpoint.index import Index, Tail, check_parts, index_span, read_index, read_tail
from jobrun.checkpoint.plainfile import open_plain
from jobrun.checkpoint.userblock import Header, damaged
from jobrun.core.errors import CheckpointError

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
# What one thread reads and verifies at a time.
UNIT_BYTES = 1 << 22


class StateFile:
    """A file that is open.

    Args:
        path: The file.
        descriptor: It, open for reading.
        size_bytes: Its length.
        block: Its first 4096 bytes.
        header: What they say.

    Attributes:
        path: The file.
        descriptor: It, open for reading.
        header: What its user block says.
        parts: Where its parts are.
    """

    def __init__(
        self, path: str, descriptor: int, size_bytes: int, block: bytes, header: Header
    ) -> None:
        self.path = path
        self.descriptor = descriptor
        self.header = header
        self._block = block
        expect_length(path, size_bytes, header)
        with self.structure():
            self.parts = check_parts(header)

    @contextmanager
    def structure(self) -> Iterator[None]:
        """Turn a ``StructureError`` of the body into an error about this file."""
        try:
            yield
        except StructureError as error:
            raise CheckpointError.of(
                "E306",
                f"refused to read {self.path}: {error}",
                "jobrun did not write it like this; use another epoch, or a copy of this one",
            ) from error

    @cached_property
    def digest(self) -> str:
        """What a manifest says of the file: of its user block, which covers all the rest."""
        return userblock.sha256(self._block)

    def expect_digest(self, digest: str) -> None:
        """Raise a ``CheckpointError`` if a manifest says another digest; empty if none does."""
        if digest and digest != self.digest:
            raise damaged(self.path, "its checksum is not the one in the manifest")

    @cached_property
    def tail(self) -> Tail:
        """The tail.

        Raises:
            CheckpointError: It is damaged, or jobrun never writes such a one.
        """
        end = userblock.SIZE + self.header.length
        data = bytes(self.pread(self.parts.tail, end - self.parts.tail))
        if userblock.sha256(data) != self.header.digest:
            raise damaged(self.path, "the checksum of its table of digests does not match")
        with self.structure():
            return read_tail(data, self.header, self.parts)

    @cached_property
    def index(self) -> Index:
        """The index.

        Raises:
            CheckpointError: It is damaged, or jobrun never writes such a one.
        """
        begin, end = index_span(self.parts)
        with self.structure():
            return read_index(bytes(self.verified(begin, end)), self.parts, self.tail)

    def pread(self, begin: int, size: int) -> Bytes:
        """Bytes of the file, not verified.

        Raises:
            CheckpointError: There are fewer.
            OSError: The disk says no.
        """
        data = np.empty(size, np.uint8)
        self.pread_into([data], begin)
        return data

    def pread_into(self, pieces: list[Bytes], begin: int) -> None:
        """Likewise, into memory that is there, one piece after the other."""
        views = [piece.data for piece in pieces if piece.size]
        while views:
            count = os.preadv(self.descriptor, views[:512], begin)
            if count == 0:
                raise damaged(self.path, "it became shorter while it was read")
            begin += count
            while views and count >= len(views[0]):
                count -= len(views[0])
                views = views[1:]
            if views:
                views[0] = views[0][count:]

    def verified(self, begin: int, end: int) -> Bytes:
        """Bytes of the file; all blocks that they are in are read and compared.

        Raises:
            CheckpointError: One of them is damaged.
        """
        blocks = blocks_of(begin, end)
        if not blocks:
            return np.empty(0, np.uint8)
        first = block_span(blocks[0], self.parts.tail)[0]
        data = self.pread(first, block_span(blocks[-1], self.parts.tail)[1] - first)
        self.check(blocks, [data])
        return data[begin - first : end - first]

    def check(self, blocks: Iterable[int], pieces: list[Bytes]) -> None:
        """Compare blocks that stand one after the other with their digests.

        Args:
            blocks: Their numbers.
            pieces: Their bytes, one piece after the other.

        Raises:
            CheckpointError: One is damaged.
        """
        expected = self.tail.digests
        left = [piece for piece in pieces if piece.size]
        for number in blocks:
            begin, end = block_span(number, self.parts.tail)
            found, left = _digest_of(left, end - begin)
            if found != expected[number]:
                raise damaged(
                    self.path, f"the checksum of bytes {begin} to {end - 1} does not match"
                )

    def pieces(self) -> Iterator[memoryview]:
        """All bytes behind the user block in their order, verified; each valid until the next.

        Raises:
            CheckpointError: The file is damaged.
        """
        end = self.parts.tail
        tail = self.tail
        memory = np.empty(min(UNIT_BYTES, end - userblock.SIZE), np.uint8)
        for blocks in units(range(len(tail.digests))):
            begin, last = block_span(blocks[0], end)[0], block_span(blocks[-1], end)[1]
            piece = memory[: last - begin]
            self.pread_into([piece], begin)
            self.check(blocks, [piece])
            yield piece.data
        yield memoryview(tail.raw)


def units(blocks: range) -> Iterator[range]:
    """The blocks in portions of ``UNIT_BYTES``."""
    step = UNIT_BYTES // BLOCK_BYTES
    for first in range(blocks.start, blocks.stop, step):
        yield range(first, min(first + step, blocks.stop))


@contextmanager
def open_state(path: str) -> Iterator[StateFile]:
    """Open a file of format 2.

    Raises:
        CheckpointError: It is missing, not a plain one, not a checkpoint, of another format,
            damaged, or not as jobrun writes it.
    """
    with open_plain(path) as (descriptor, size):
        block = os.pread(descriptor, userblock.SIZE, 0)
        yield StateFile(path, descriptor, size, block, userblock.decode(block, path))


def expect_length(path: str, size_bytes: int, header: Header) -> None:
    """Raise a ``CheckpointError`` if a file is not as long as its header says."""
    expected = userblock.SIZE + header.length
    if size_bytes != expected:
        how = "truncated" if size_bytes < expected else "longer than it was written"
        raise CheckpointError.of(
            "E302",
            f"{path} is {how}: it has {size_bytes} bytes, expected {expected}",
            "use another epoch, or a copy of this one",
        )


def _digest_of(pieces: list[Bytes], size: int) -> tuple[bytes, list[Bytes]]:
    """The digest of the first bytes of the pieces, and what is left of them."""
    if pieces[0].size >= size:
        rest = pieces[0][size:]
        return digest(pieces[0][:size]), [rest, *pieces[1:]] if rest.size else pieces[1:]
    state = xxhash.xxh3_128()
    left = list(pieces)
    while size:
        piece = left.pop(0)
        state.update(piece[:size].data)
        if piece.size > size:
            left.insert(0, piece[size:])
        size -= min(size, piece.size)
    return state.digest(), left
