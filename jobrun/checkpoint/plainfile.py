"""Reading a file of a checkpoint: only if it is a plain one, whole, and once. Not what is in it."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from jobrun.checkpoint.elsewhere import fetched
from jobrun.core.errors import CheckpointError

_PIECE = 1 << 22


@contextmanager
def open_plain(path: str) -> Iterator[tuple[int, int]]:
    """Open a regular file that has one name, and is no link; gives its descriptor and length.

    Someone else may have put a link to a private file here, or a pipe that never answers. Of one
    that is in an object store, a copy is opened (``elsewhere``).

    Raises:
        CheckpointError: It is missing, not such a file, or cannot be read.
        EnvironmentFaultError: It is in an object store, which says no.
    """
    try:
        descriptor = _opened(path)
    except OSError as error:
        raise _cannot_open(path, error) from error
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise _not_plain(path, "it is not a regular file")
        if facts.st_nlink != 1:
            raise _not_plain(path, f"it has {facts.st_nlink} names (hard links)")
        _lock(path, descriptor)
        yield descriptor, facts.st_size
    except OSError as error:
        raise _cannot_open(path, error) from error
    finally:
        os.close(descriptor)


def _opened(path: str) -> int:
    # O_NONBLOCK: opening a pipe would wait for its writer for ever.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        copy = fetched(path)
        if not copy:
            raise
        return os.open(copy, flags)


def _lock(path: str, descriptor: int) -> None:
    """Keep the file from being used for another epoch while it is read."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        # Its epoch was removed between our look at its name and now.
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
    except OSError:
        # A file system without locks: there no file is used again.
        return


def read_plain(path: str, *, most_bytes: int | None = None) -> bytes:
    """All bytes of a plain file.

    Args:
        path: The file.
        most_bytes: Refuse a longer one.

    Raises:
        CheckpointError: See ``open_plain``; or it is too long, or changes while it is read.
    """
    with open_plain(path) as (descriptor, size):
        if most_bytes is not None and size > most_bytes:
            raise _not_plain(path, f"it has {size} bytes, and {most_bytes} is the most")
        with os.fdopen(os.dup(descriptor), "rb", buffering=0) as file:
            data = file.readall()
    if len(data) != size:
        raise _not_plain(path, "it changes while it is read")
    return data


def digest_plain(path: str) -> tuple[int, str]:
    """The length of a plain file, and ``sha256:<hex>`` of its bytes, in bounded memory.

    Raises:
        CheckpointError: See ``open_plain``.
    """
    digest = hashlib.sha256()
    length = 0
    piece = bytearray(_PIECE)
    view = memoryview(piece)
    with open_plain(path) as (descriptor, _):
        while count := os.readv(descriptor, [piece]):
            digest.update(view[:count])
            length += count
    return length, f"sha256:{digest.hexdigest()}"


def _cannot_open(path: str, error: OSError) -> CheckpointError:
    if error.errno == errno.ENOENT:
        return CheckpointError.of(
            "E300", f"{path} is not there", "put it back from a copy, or use another epoch"
        )
    # ELOOP: a symbolic link. ENXIO: a socket, or a device that is not there.
    if error.errno in {errno.ELOOP, errno.ENXIO, errno.EMLINK}:
        return _not_plain(path, "it is a symbolic link or no file at all")
    return CheckpointError.of(
        "E315",
        f"cannot read {path}: {error.strerror or error}",
        "check the permissions and the disk, or use another epoch",
    )


def _not_plain(path: str, why: str) -> CheckpointError:
    return CheckpointError.of(
        "E305",
        f"refused to read {path}: {why}",
        "put a plain copy of the file there, if you trust it",
    )
