"""New files that begin as what is on the disk already: a freed file, or a copy that shares blocks.

Writing into a file that has its place on the disk already costs a third less than making a
new one, and where the blocks on disk have the digests that new ones would get, they stay as
they are: what did not change costs no writing, and each file is still complete by itself. Where
retention frees none, and the file system lets files share blocks (xfs, btrfs), the last file is
copied in no time and then written over where it differs.

Only a file that nobody else can see is overwritten: its epoch's new name was made durable
before, it has no second name, and nobody holds a lock on it (readers of jobrun and HDF5 do).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Sequence

from jobrun.checkpoint import userblock
from jobrun.checkpoint.blocks import block_span, digest
from jobrun.checkpoint.image import StructureError
from jobrun.checkpoint.index import check_parts, read_tail
from jobrun.checkpoint.rename import rename_new
from jobrun.checkpoint.userblock import Parts
from jobrun.core.errors import CheckpointError

# Behind the name of the file that it may become.
SPARE = ".spare"
# Of blocks that would not be written one in so many is read and compared, in turn: a disk that
# forgets is noticed.
_SCRUB_EVERY = 64
# So many epochs may share a block.
_MOST_SHARED = 8
# ioctl_ficlonerange(2).
_FICLONE = 0x40049409
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def take_spare(path: str) -> int | None:
    """Give a spare file its new name and return its descriptor; None if there is none to use.

    Args:
        path: The name that it gets; the spare is beside it.

    Raises:
        OSError: The disk says no.
    """
    try:
        descriptor = os.open(path + SPARE, _FLAGS)
    except OSError:
        return None
    try:
        facts = os.fstat(descriptor)
        if stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1 and facts.st_uid == os.geteuid():
            # Fails while someone reads it, or where the file system has no locks.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            rename_new(path + SPARE, path)
            return descriptor
    except BlockingIOError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def share(source: int, target: int, digests: Sequence[bytes], turn: int) -> list[bytes] | None:
    """Make an empty file a copy of another that shares its blocks; None where that is not so.

    What is shared is damaged together. So each block is written anew from time to time.

    Args:
        source: A file that is open for reading.
        target: One that is open for writing, on the same file system.
        digests: Of the blocks of the source.
        turn: Which blocks are written anew this time; the epoch will do.

    Returns:
        The digests of the blocks that may stay as they are.
    """
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return None
    return [b"" if (n + turn) % _MOST_SHARED == 0 else one for n, one in enumerate(digests)]


def known_digests(descriptor: int, layout: str, parts: Parts, turn: int) -> list[bytes]:
    """Digests of the blocks that a spare file holds; empty if it cannot be told.

    Args:
        descriptor: The file.
        layout: Digest of the layout that it is to get.
        parts: Of the file that it is to become.
        turn: Which blocks are read and compared this time; the epoch will do.
    """
    try:
        block = os.pread(descriptor, userblock.SIZE, 0)
        header = userblock.decode(block, "")
        size = userblock.SIZE + header.length
        if header.parts != parts or header.layout != layout or parts.chunks:
            return []
        if os.fstat(descriptor).st_size != size:
            return []
        data = os.pread(descriptor, size - parts.tail, parts.tail)
        if userblock.sha256(data) != header.digest:
            return []
        known = read_tail(data, header, check_parts(header)).digests
    except (CheckpointError, StructureError, OSError):
        return []
    compared = range(turn % _SCRUB_EVERY, len(known), _SCRUB_EVERY)
    for number in compared:
        begin, end = block_span(number, parts.tail)
        # All at once: one after the other each would wait for the disk by itself.
        os.posix_fadvise(descriptor, begin, end - begin, os.POSIX_FADV_WILLNEED)
    for number in compared:
        if not _holds(descriptor, number, parts.tail, known[number]):
            known[number] = b""
    return known


def _holds(descriptor: int, number: int, tail: int, expected: bytes) -> bool:
    begin, end = block_span(number, tail)
    with contextlib.suppress(OSError):
        return digest(os.pread(descriptor, end - begin, begin)) == expected
    return False
