"""Cut a checkpoint file's bytes into blocks: digest each once, write those that differ.

Not where the bytes come from (``writer``), nor how they get to the disk (``direct_io``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct

from jobrun.checkpoint.hdf5.digest_blocks import BLOCK_BYTES, block_span, digest
from jobrun.checkpoint.hdf5.file_layout import PAGE
from jobrun.checkpoint.hdf5.user_block import SIZE as USER_BLOCK
from jobrun.checkpoint.write.direct_io import FileWriter, SlabPool
from jobrun.values.file_memory import find_file_memory, release_pages

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class _Run(Struct):
    """Bytes that are contiguous in memory and in the file."""

    memory: Bytes
    begin: int
    end: int
    position: int


class BlockWriter:
    """The part of a file behind its user block, filled from its beginning to its end.

    Args:
        file: Where it is written.
        pool: Gives the slabs.
        size_bytes: The most that the file can get; decides how large the slabs are.
        old: Digests of blocks that the file holds already: equal ones are not written again.
        first: The first block; those before it are left out, with empty digests.
        digest_block: Digests a block, given its number and its bytes.

    Attributes:
        position: The next byte's place in the file.
        digests: Of the blocks that are complete.
        written_bytes: How much was handed to the file.
    """

    def __init__(
        self,
        file: FileWriter,
        pool: SlabPool,
        size_bytes: int,
        old: Sequence[bytes] = (),
        first: int = 0,
        digest_block: Callable[[int, Bytes], bytes] = lambda _, data: digest(data),
    ) -> None:
        self._file = file
        self._pool = pool
        self._old = old
        self._digest_block = digest_block
        self._wanted = size_bytes
        # The part of the file that the slab holds; a slab is taken when it is needed.
        self._window = USER_BLOCK + first * BLOCK_BYTES
        self._window_bytes = pool.slab_bytes(size_bytes)
        self._slab: Bytes | None = None
        self._runs: list[_Run] = []
        self.position = self._window
        self.digests: list[bytes] = [b""] * first
        self.written_bytes = 0

    def put(self, data: Bytes, known: Sequence[bytes] = ()) -> None:
        """Add bytes to the file's blocks; whole blocks in page-aligned memory are not copied.

        Args:
            data: uint8, one-dimensional, contiguous.
            known: The digests of all blocks of the file, if these bytes are known to give them.
        """
        at, size = 0, data.size
        while at < size:
            within = (self.position - USER_BLOCK) % BLOCK_BYTES
            if within == 0 and size - at >= BLOCK_BYTES:
                whole = data[at : at + (size - at) // BLOCK_BYTES * BLOCK_BYTES]
                if known and self._skip(whole.size // BLOCK_BYTES, known):
                    at += whole.size
                    continue
                stays = self._file.is_direct and (data.ctypes.data + at) % PAGE == 0
                in_file = find_file_memory(whole) is not None
                for index, block_digest in enumerate(self._digests(whole, known)):
                    self._put_block(whole, index * BLOCK_BYTES, block_digest, stays=stays)
                    if in_file:
                        release_pages(whole[index * BLOCK_BYTES :][:BLOCK_BYTES])
                at += whole.size
                continue
            piece = min(size - at, BLOCK_BYTES - within)
            self.room()[:piece] = data[at : at + piece]
            self.advance(piece)
            at += piece

    def _skip(self, count: int, known: Sequence[bytes]) -> bool:
        """Skip the block writer's next blocks if the file holds them; return whether it does."""
        first = len(self.digests)
        wanted = known[first : first + count]
        if self._old[first : first + count] != wanted:
            return False
        if self._runs:
            # Another thread has written it meanwhile.
            self._flush()
        self.digests += wanted
        self.position += count * BLOCK_BYTES
        self._window = self.position
        return True

    def zero(self, position: int) -> None:
        """Fill the block writer with zeros up to an offset in the file."""
        while self.position < position:
            room = self.room()[: position - self.position]
            room[...] = 0
            self.advance(room.size)

    def room(self) -> Bytes:
        """Return the free part of the block writer's buffer, for the caller to fill.

        It is never empty.
        """
        if self._slab is None:
            self._slab = self._pool.take(self._wanted)
        return self._slab[self.position - self._window : self._window_bytes]

    def advance(self, size: int) -> None:
        """Advance the block writer past the bytes that its caller put into its buffer."""
        end = self.position + size
        while self._end_of_block() <= end:
            self.position = self._end_of_block()
            self._close_block()
        self.position = end
        self._flush_full()

    def end_blocks(self) -> None:
        """End and digest the file's last 256 KiB block; only the table of digests may follow."""
        if (self.position - USER_BLOCK) % BLOCK_BYTES:
            self._close_block(is_last=True)

    def put_tail(self, tail: bytes) -> None:
        """Append the file's tail after the last block, and write all bytes that are left."""
        data = np.frombuffer(tail, np.uint8)
        while data.size:
            room = self.room()[: data.size]
            room[...] = data[: room.size]
            self._mark(self._slab, self.position, self.position + room.size)
            self.position += room.size
            data = data[room.size :]
            self._flush_full()
        self._flush(pad=True)

    def _end_of_block(self) -> int:
        """Return the offset in the file at which the block writer's current block ends."""
        return USER_BLOCK + (len(self.digests) + 1) * BLOCK_BYTES

    def _digests(self, data: Bytes, known: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the digests of the block writer's next blocks: given in ``known``, or computed."""
        first, count = len(self.digests), data.size // BLOCK_BYTES
        if known:
            yield from known[first : first + count]
            return
        # One thread is enough: it digests faster than a disk writes, and then copies each block
        # from the processor's cache.
        for number in range(count):
            at = number * BLOCK_BYTES
            yield self._digest_block(first + number, data[at : at + BLOCK_BYTES])

    def _put_block(self, data: Bytes, at: int, block_digest: bytes, *, stays: bool) -> None:
        if not self._has(block_digest):
            if stays:
                self._mark(data, self.position, self.position + BLOCK_BYTES, at)
            else:
                self.room()[:BLOCK_BYTES] = data[at : at + BLOCK_BYTES]
                self._mark(self._slab, self.position, self.position + BLOCK_BYTES)
        self.digests.append(block_digest)
        self.position += BLOCK_BYTES
        self._flush_full()

    def _close_block(self, *, is_last: bool = False) -> None:
        begin = block_span(len(self.digests), self.position)[0]
        slab = self._slab
        assert slab is not None  # noqa: S101 - what was filled is in it
        written = slab[begin - self._window : self.position - self._window]
        block_digest = self._digest_block(len(self.digests), written)
        # The last one shares a page with the tail, which is always written.
        if is_last or not self._has(block_digest):
            self._mark(slab, begin, self.position)
        self.digests.append(block_digest)

    def _has(self, block_digest: bytes) -> bool:
        number = len(self.digests)
        return number < len(self._old) and self._old[number] == block_digest

    def _mark(self, memory: Bytes | None, begin: int, end: int, at: int = -1) -> None:
        """Remember the memory whose bytes the block writer's next flush writes to the file."""
        assert memory is not None  # noqa: S101 - what was filled is in it
        at = begin - self._window if at < 0 else at
        last = self._runs[-1] if self._runs else None
        if (
            last is not None
            and last.memory is memory
            and last.end == at
            and last.position + last.end - last.begin == begin
        ):
            last.end = at + end - begin
        else:
            self._runs.append(_Run(memory, at, at + end - begin, begin))

    def _flush_full(self) -> None:
        if self.position - self._window == self._window_bytes:
            self._flush()

    def _flush(self, *, pad: bool = False) -> None:
        if pad and self._runs and self._file.is_direct:
            # Whole pages; the excess is truncated in the end.
            last = self._runs[-1]
            stop = -(-last.end // PAGE) * PAGE
            last.memory[last.end : stop] = 0
            last.end = stop
        for run in self._runs:
            self._file.write(run.memory[run.begin : run.end], run.position)
            self.written_bytes += run.end - run.begin
        self._runs = []
        if self._slab is not None:
            self._file.then(partial(self._pool.give, self._slab))
            self._slab = None
        self._window = self.position
