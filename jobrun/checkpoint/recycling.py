"""Files of epochs that retention has freed, used again for the next one. Not which are freed.

Writing into a file that has its place on the disk already costs a third less than making a
new one, and where the blocks on disk have the digests that new ones would get, they stay as
they are: what did not change costs no writing, and each file is still complete by itself.

Only a file that nobody else can see is overwritten: its epoch's new name was made durable
before, it has no second name, and nobody holds a lock on it (readers of jobrun and HDF5 do).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat

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
    for number in range(turn % _SCRUB_EVERY, len(known), _SCRUB_EVERY):
        if not _holds(descriptor, number, parts.tail, known[number]):
            known[number] = b""
    return known


def _holds(descriptor: int, number: int, tail: int, expected: bytes) -> bool:
    begin, end = block_span(number, tail)
    with contextlib.suppress(OSError):
        return digest(os.pread(descriptor, end - begin, begin)) == expected
    return False
