"""Open a checkpoint file, verify its header, tail and index, and read verified blocks.

libhdf5 has no part in it. No byte is used before the digest of its block was compared, the
digests before that of the tail, and that before that of the user block.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import xxhash

from jobrun.checkpoint.hdf5 import user_block as userblock
from jobrun.checkpoint.hdf5.digest_blocks import BLOCK_BYTES, block_span, blocks_holding, digest
from jobrun.checkpoint.hdf5.index_parser import (
    Index,
    StructureError,
    Tail,
    index_span,
    parse_index,
    parse_tail,
    require_parts,
)
from jobrun.checkpoint.hdf5.user_block import Header, damaged_error
from jobrun.checkpoint.read.safe_file import open_regular_file
from jobrun.core.errors import CheckpointError
from jobrun.core.files.digest import PREFIX, digest_bytes
from jobrun.core.system_calls import read_into

Array = np.ndarray[Any, Any]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
# Blocks that one thread reads by one system call, and then verifies. Fewer would need the GIL more
# often. More would no longer be in the processor's cache when they are verified, and the threads
# would read so far apart that the kernel does not recognize a sequential read.
TOGETHER = 4
_PIECE_BYTES = 1 << 22
# The most blobs that a message names.
_MOST_NAMES = 20
# IOV_MAX is at least 16 (POSIX), and 1,024 on Linux.
_MOST_BUFFERS = 512


class StateFile:
    """An open checkpoint file whose user block was verified.

    Args:
        path: The file.
        descriptor: It, open for reading.
        size_bytes: Its length.
        block: Its first 4096 bytes.
        header: What they say.

    Attributes:
        path: The file.
        descriptor: It, open for reading.
        size_bytes: Its length.
        header: What its user block says.
        parts: Where its parts are.
    """

    def __init__(
        self, path: str, descriptor: int, size_bytes: int, block: bytes, header: Header
    ) -> None:
        self.path = path
        self.descriptor = descriptor
        self.size_bytes = size_bytes
        self.header = header
        self._block = block
        _require_length(path, size_bytes, header)
        with self.structure():
            self.parts = require_parts(header)

    @contextmanager
    def structure(self) -> Iterator[None]:
        """Convert errors in a verified file's structure, such as overlapping blobs, to E306."""
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
        """Return the SHA-256 of this verified file's user block, its digest in the manifest."""
        return digest_bytes(self._block)

    def require_digest(self, digest: str) -> None:
        """Require that this verified file has the digest in its manifest; else raise E303."""
        if digest and digest != self.digest:
            raise damaged_error(self.path, "its checksum is not the one in the manifest")

    @cached_property
    def tail(self) -> Tail:
        """Return the verified tail of this checkpoint file: the digests of its blocks.

        Raises:
            CheckpointError: It is damaged, or jobrun never writes such a one.
        """
        end = userblock.SIZE + self.header.length
        data = bytes(self.pread(self.parts.tail, end - self.parts.tail))
        if digest_bytes(data) != self.header.digest:
            raise damaged_error(self.path, "the checksum of its table of digests does not match")
        with self.structure():
            return parse_tail(data, self.header, self.parts)

    @cached_property
    def index(self) -> Index:
        """Return the verified index of this checkpoint file: names, types, offsets of blobs.

        Raises:
            CheckpointError: It is damaged, or jobrun never writes such a one.
        """
        begin, end = index_span(self.parts)
        with self.structure():
            return parse_index(bytes(self.verified(begin, end)), self.parts, self.tail)

    @cached_property
    def value_digests(self) -> dict[int, bytes]:
        """Return the digests of values in memory, by their row in the index; see ``value_digest``.

        A file of format 2 has none.

        Raises:
            CheckpointError: Names, dtypes or shapes are not those of the blobs that were saved.
        """
        if self.header.format == userblock.OLDEST_FORMAT:
            return {}
        index = self.index
        if index.types_digest != self.header.types:
            aspects = "names, kinds, dtypes, shapes or axis orders"
            raise wrong_value_error(self.path, index.blobs, aspects)
        rows = index.digested
        with self.structure():
            if len(rows) != len(self.tail.values):
                raise StructureError("its digests of values and its table do not fit together")
        return dict(zip(rows, self.tail.values, strict=True))

    def pread(self, begin: int, size: int) -> Bytes:
        """Read bytes of the open file without verifying them.

        Raises:
            CheckpointError: There are fewer.
            OSError: The system refuses.
        """
        data = np.empty(size, np.uint8)
        self._pread_into([data], begin, begin + size)
        return data

    def read_blocks(self, blocks: range, pieces: Sequence[Sequence[Array]]) -> None:
        """Read consecutive blocks of this open file into buffers; compare each with its digest.

        Args:
            blocks: Which blocks: ``TOGETHER`` or fewer.
            pieces: For each block arrays in C order, of as many bytes together; of dtypes that
                have Python's buffer interface.

        Raises:
            CheckpointError: One is damaged.
        """
        tail = self.parts.tail
        begin, end = block_span(blocks[0], tail)[0], block_span(blocks[-1], tail)[1]
        self._pread_into(list(chain.from_iterable(pieces)), begin, end)
        digests = self.tail.digests
        for number, some in zip(blocks, pieces, strict=True):
            if _digest_of(some) != digests[number]:
                raise damaged_error(self.path, self._describe_block(number))

    def _describe_block(self, number: int) -> str:
        """Describe a damaged block of this checkpoint file: its bytes, and the blobs in them."""
        begin, end = block_span(number, self.parts.tail)
        index = self._index_to_show(number)
        blobs = index.blobs_between(begin, end) if index else []
        holder = f", which hold {list_names(blobs)}," if blobs else ""
        return f"the checksum of bytes {begin} to {end - 1}{holder} does not match"

    def _index_to_show(self, damaged: int) -> Index | None:
        """Return the index to name blobs by in messages; None where it may be what is damaged."""
        span = index_span(self.parts)
        if damaged not in blocks_holding(*span):
            with suppress(CheckpointError):
                return self.index
            return None
        # The verified user block has a digest of the names only.
        with suppress(StructureError, CheckpointError):
            index = parse_index(
                bytes(self.pread(span[0], span[1] - span[0])), self.parts, self.tail
            )
            return index if index.types_digest == self.header.types else None
        return None

    def _pread_into(self, pieces: Sequence[Array], begin: int, end: int) -> None:
        """Read bytes of the open file into several buffers without verifying them."""
        buffers: Sequence[Any] = pieces
        while begin < end:
            count = read_into(self.descriptor, buffers[:_MOST_BUFFERS], begin)
            if count == 0:
                raise damaged_error(self.path, "it became shorter while it was read")
            begin += count
            if begin < end:
                buffers = _unfilled(buffers, count)

    def verified(self, begin: int, end: int) -> Bytes:
        """Read a range of bytes of an open file, after verifying all blocks that hold them.

        Raises:
            CheckpointError: One of them is damaged.
        """
        blocks = blocks_holding(begin, end)
        if not blocks:
            return np.empty(0, np.uint8)
        first = block_span(blocks[0], self.parts.tail)[0]
        data = np.empty(block_span(blocks[-1], self.parts.tail)[1] - first, np.uint8)
        self._fill(blocks, data)
        return data[begin - first : end - first]

    def _fill(self, blocks: range, memory: Bytes) -> None:
        """Read consecutive blocks of the open file into one buffer, and verify each."""
        for some in split_blocks(blocks):
            first = (some.start - blocks.start) * BLOCK_BYTES
            places = range(first, first + len(some) * BLOCK_BYTES, BLOCK_BYTES)
            self.read_blocks(some, [[memory[at : at + BLOCK_BYTES]] for at in places])

    def pieces(self) -> Iterator[memoryview]:
        """Yield the verified pieces of a checkpoint file: all bytes after its user block.

        Each piece is valid until the next one.

        Raises:
            CheckpointError: The file is damaged.
        """
        end = self.parts.tail
        tail = self.tail
        memory = np.empty(min(_PIECE_BYTES, end - userblock.SIZE), np.uint8)
        for blocks in split_blocks(range(len(tail.digests)), _PIECE_BYTES // BLOCK_BYTES):
            begin, last = block_span(blocks[0], end)[0], block_span(blocks[-1], end)[1]
            piece = memory[: last - begin]
            self._fill(blocks, piece)
            yield piece.data
        yield memoryview(tail.raw)


def wrong_value_error(path: str, blobs: Sequence[str], aspects: str = "") -> CheckpointError:
    """Build error E455: a verified file holds other values than were to be saved in it.

    Args:
        path: The file.
        blobs: Their names.
        aspects: What of them is wrong; empty for the values.
    """
    verb = "are" if aspects or len(blobs) > 1 else "is"
    subject = f"{aspects} of blobs" if aspects else "blobs" if len(blobs) > 1 else "blob"
    return CheckpointError.of(
        "E455",
        f"{subject} {list_names(blobs)} in {path} {verb} not what was in memory when the file was "
        "saved: jobrun wrote something else, or reads it wrongly",
        "use an epoch that 'jobrun ckpt verify' finds good, and report this, with the dtypes and "
        "shapes of the blobs",
    )


def list_names(names: Sequence[str]) -> str:
    """List names of blobs of a verified file for a message, the first few of many."""
    shown = ", ".join(f"'{name}'" for name in names[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def split_blocks(blocks: range, count: int = TOGETHER) -> Iterator[range]:
    """Split a range of a verified file's blocks into ranges of at most ``count`` blocks."""
    for first in range(blocks.start, blocks.stop, count):
        yield range(first, min(first + count, blocks.stop))


@contextmanager
def open_state(path: str, *, at: str = "") -> Iterator[StateFile]:
    """Open a local checkpoint file and verify its user block.

    Args:
        path: The file, as messages name it.
        at: The copy of it to open instead, if there is one.

    Raises:
        CheckpointError: It is missing, not a plain one, not a checkpoint, of another format,
            damaged, or not as jobrun writes it.
    """
    with open_regular_file(path, at=at) as (descriptor, size):
        block = os.pread(descriptor, userblock.SIZE, 0)
        yield StateFile(path, descriptor, size, block, userblock.decode(block, path))


def _require_length(path: str, size_bytes: int, header: Header) -> None:
    expected = userblock.SIZE + header.length
    if size_bytes != expected:
        fault = "truncated" if size_bytes < expected else "longer than it was written"
        raise CheckpointError.of(
            "E302",
            f"{path} is {fault}: it has {size_bytes} bytes, expected {expected}",
            "use another epoch, or a copy of this one",
        )


def _unfilled(buffers: Sequence[Any], count: int) -> list[Any]:
    """Return the rest of the buffers that a short read of a verified file left unfilled."""
    first = 0
    while count >= buffers[first].nbytes:
        count -= buffers[first].nbytes
        first += 1
    partial = [memoryview(buffers[first]).cast("B")[count:]] if count else [buffers[first]]
    return [*partial, *buffers[first + 1 :]]


def _digest_of(pieces: Sequence[Any]) -> bytes:
    """Digest the bytes that were read from an open file into buffers."""
    if len(pieces) == 1:
        return digest(pieces[0])
    state = xxhash.xxh3_128()
    # A loop in C: there may be thousands of pieces.
    deque(map(state.update, pieces), 0)
    return state.digest()


def read_verified(path: str, digest: str, *, at: str = "") -> Iterator[memoryview]:
    """Yield all bytes of a checkpoint file piece by piece, each after its digest is verified.

    A file that has no valid header is given out as it is, and compared with the manifest's digest
    of all its bytes at the end.

    Args:
        path: The file.
        digest: What its manifest says of it.
        at: The copy of it to read instead, if there is one.

    Raises:
        CheckpointError: It is missing, not a plain one, or not what the manifest describes.
    """
    with open_regular_file(path, at=at) as (descriptor, size):
        block = os.pread(descriptor, userblock.SIZE, 0)
        header = _header(block, path)
        if header is None:
            yield from _read_digested(path, descriptor, digest)
            return
        file = StateFile(path, descriptor, size, block, header)
        file.require_digest(digest)
        yield memoryview(block)
        yield from file.pieces()


def _header(block: bytes, path: str) -> Header | None:
    try:
        return userblock.decode(block, path)
    except CheckpointError:
        # A file without a checkpoint's header may still be what the manifest describes.
        return None


def _read_digested(path: str, descriptor: int, digest: str) -> Iterator[memoryview]:
    hasher = hashlib.sha256()
    memory = bytearray(_PIECE_BYTES)
    view = memoryview(memory)
    while count := os.readv(descriptor, [memory]):
        hasher.update(view[:count])
        yield view[:count]
    if f"{PREFIX}{hasher.hexdigest()}" != digest:
        raise damaged_error(path, "its checksum is not the one in the manifest")
