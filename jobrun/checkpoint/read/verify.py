"""Read all bytes of a checkpoint file, verified against the digest in its manifest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

from jobrun.checkpoint.hdf5 import user_block as userblock
from jobrun.checkpoint.hdf5.user_block import damaged_error
from jobrun.checkpoint.read.open_file import StateFile
from jobrun.checkpoint.read.safe_file import open_regular_file
from jobrun.core.errors import CheckpointError

_PIECE_BYTES = 1 << 22


def read_verified(path: str, digest: str, *, at: str = "") -> Iterator[memoryview]:
    """Read and verify all bytes of a checkpoint file by its manifest's digest, piece by piece.

    Each piece of a checkpoint file is verified before it is given out. A file that has no valid
    header is given out as it is, and compared with the digest of all its bytes at the end.

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


def _header(block: bytes, path: str) -> userblock.Header | None:
    try:
        return userblock.decode(block, path)
    except CheckpointError:
        # Whatever it is, it may be what the manifest describes.
        return None


def _read_digested(path: str, descriptor: int, digest: str) -> Iterator[memoryview]:
    found = hashlib.sha256()
    memory = bytearray(_PIECE_BYTES)
    view = memoryview(memory)
    while count := os.readv(descriptor, [memory]):
        found.update(view[:count])
        yield view[:count]
    if f"sha256:{found.hexdigest()}" != digest:
        raise damaged_error(path, "its checksum is not the one in the manifest")
