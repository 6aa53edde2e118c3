"""All bytes of a checkpoint file in their order, as its manifest tells of them. Only reads."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

from jobrun.checkpoint import userblock
from jobrun.checkpoint.plainfile import open_plain
from jobrun.checkpoint.statefile import StateFile
from jobrun.checkpoint.userblock import damaged
from jobrun.core.errors import CheckpointError

_PIECE_BYTES = 1 << 22


def verified_pieces(path: str, digest: str) -> Iterator[memoryview]:
    """The bytes of a file, piece by piece; each piece is valid until the next one.

    Of a file of format 2 each piece is verified before it is given out; of an older one, which
    has a single digest, they are verified when the last one was given out.

    Args:
        path: The file.
        digest: What its manifest says of it.

    Raises:
        CheckpointError: It is missing, not a plain one, or not what the manifest tells of.
    """
    with open_plain(path) as (descriptor, size):
        block = os.pread(descriptor, userblock.SIZE, 0)
        header = _header(block, path)
        if header is None or header.parts is None:
            yield from _digested(path, descriptor, digest)
            return
        file = StateFile(path, descriptor, size, block, header)
        file.expect_digest(digest)
        yield memoryview(block)
        yield from file.pieces()


def _header(block: bytes, path: str) -> userblock.Header | None:
    try:
        return userblock.decode(block, path)
    except CheckpointError:
        # Whatever it is, it may be what the manifest tells of.
        return None


def _digested(path: str, descriptor: int, digest: str) -> Iterator[memoryview]:
    found = hashlib.sha256()
    memory = bytearray(_PIECE_BYTES)
    view = memoryview(memory)
    while count := os.readv(descriptor, [memory]):
        found.update(view[:count])
        yield view[:count]
    if f"sha256:{found.hexdigest()}" != digest:
        raise damaged(path, "its checksum is not the one in the manifest")
