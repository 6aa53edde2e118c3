"""Start a new file from a reusable one: a removed epoch's file, or a reflink copy.

Writing into a file that has its place on the disk already costs a third less than making a
new one, however small it is. And where the blocks on disk have the digests that new ones would
get, they stay as they are: what did not change costs no writing, and each file is still complete by
itself. Where retention frees none, and the file system lets files share blocks (xfs, btrfs), the
last file is copied in no time and then written over where it differs.

Only a file that no other process can see is overwritten: its epoch's new name was made durable
before, it has no second name, and no process holds a lock on it (readers of jobrun and HDF5 do).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Sequence

from jobrun.checkpoint.hdf5 import user_block as userblock
from jobrun.checkpoint.hdf5.digest_blocks import DIGEST_BYTES, block_span, digest
from jobrun.checkpoint.hdf5.index_parser import StructureError, parse_tail, require_parts
from jobrun.checkpoint.hdf5.user_block import Parts
from jobrun.core.errors import CheckpointError
from jobrun.core.files.digest import digest_bytes
from jobrun.core.files.disk import create_file
from jobrun.core.files.file_lock import try_lock
from jobrun.core.system_calls import advise_needed

# One unchanged block in this many is read back and compared in each save, in turn, so that a
# disk that loses data is noticed.
_SCRUB_EVERY = 64
# The most epochs that may share a block.
_MOST_SHARED = 8
# ioctl_ficlonerange(2).
_FICLONE = 0x40049409
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_over_removed(path: str) -> tuple[int, bool]:
    """Open a removed epoch's file, kept for reuse, to overwrite it; else create a new file.

    What has the name and must not be overwritten loses it.

    Returns:
        The descriptor, and whether the file is a removed epoch's: then it may be longer than what
        is to be written.

    Raises:
        OSError: The system refuses.
    """
    descriptor = _open_reusable(path)
    if descriptor is not None:
        return descriptor, True
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108 - for each epoch
    return create_file(path), False


def _open_reusable(path: str) -> int | None:
    """Open a removed epoch's kept file to overwrite it; None if absent, linked or locked."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError:
        return None
    try:
        facts = os.fstat(descriptor)
        is_ours = stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid()
        # A reader holds a shared lock; a file system without locks raises.
        if is_ours and facts.st_nlink == 1 and try_lock(descriptor):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def share_blocks(
    source: int, target: int, digests: Sequence[bytes], turn: int
) -> list[bytes] | None:
    """Clone a file by reflink; return the digests of its reusable blocks, or None if that fails.

    What is shared is damaged together. So each block is written again from time to time.

    Args:
        source: A file that is open for reading.
        target: One that is open for writing, on the same file system.
        digests: Of the blocks of the source.
        turn: Which blocks are written again this time; the epoch will do.

    Returns:
        The digests of the blocks that may stay as they are.
    """
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return None
    return [b"" if (n + turn) % _MOST_SHARED == 0 else digest for n, digest in enumerate(digests)]


def known_digests(descriptor: int, layout: str, parts: Parts, turn: int) -> list[bytes]:
    """Return the digests of a reusable file's blocks on disk; empty if they are unknown.

    Args:
        descriptor: The file.
        layout: Digest of the layout that it is to get.
        parts: Of the file that it is to become.
        turn: Which blocks are read and compared this time; the epoch will do.
    """
    compared = range(turn % _SCRUB_EVERY, parts.blocks, _SCRUB_EVERY)
    # All at once: one after the other each would wait for the disk by itself.
    advise_needed(descriptor, 0, userblock.SIZE)
    advise_needed(descriptor, parts.tail, parts.blocks * DIGEST_BYTES)
    for number in compared:
        begin, end = block_span(number, parts.tail)
        advise_needed(descriptor, begin, end - begin)
    try:
        block = os.pread(descriptor, userblock.SIZE, 0)
        header = userblock.decode(block, "")
        size = userblock.SIZE + header.length
        if header.parts != parts or header.layout != layout or parts.chunks:
            return []
        if os.fstat(descriptor).st_size != size:
            return []
        data = os.pread(descriptor, size - parts.tail, parts.tail)
        if digest_bytes(data) != header.digest:
            return []
        known = parse_tail(data, header, require_parts(header)).digests
    except (CheckpointError, StructureError, OSError):
        return []
    for number in compared:
        if not _holds(descriptor, number, parts.tail, known[number]):
            known[number] = b""
    return known


def _holds(descriptor: int, number: int, tail: int, expected: bytes) -> bool:
    begin, end = block_span(number, tail)
    with contextlib.suppress(OSError):
        return digest(os.pread(descriptor, end - begin, begin)) == expected
    return False
