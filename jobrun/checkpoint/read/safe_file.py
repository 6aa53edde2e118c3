"""Open and read a checkpoint's file only if it is a regular file, never a link or a pipe.

The owner of the file is checked too: another user may have put a link to a private file there, or a
pipe that never answers.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from jobrun.core.errors import CheckpointError, LockedError
from jobrun.core.files.disk import open_regular
from jobrun.core.files.file_lock import close_locked, try_lock

# How often, and after which pauses, a lock of another program is looked at again.
_LOCK_TRIES, _LOCK_PAUSE_S = 50, 0.02


@contextmanager
def open_regular_file(path: str, *, at: str = "") -> Iterator[tuple[int, int]]:
    """Open a checkpoint file only if it is a regular file; yield its descriptor and its length.

    Other names of the file (hard links) are allowed, since ``cp -al`` makes snapshots that way,
    unless the file belongs to another user.

    Args:
        path: The file, as messages name it.
        at: The copy of it to open instead, if there is one.

    Raises:
        CheckpointError: It is missing, not such a file, or cannot be read.
        LockedError: E353, another program has locked it.
    """
    try:
        descriptor = open_regular(at or path)
    except OSError as error:
        raise _cannot_open(path, error) from error
    try:
        facts = os.fstat(descriptor)
        if facts.st_nlink != 1 and facts.st_uid not in {0, os.geteuid()}:
            owner = f"it belongs to another user (uid {facts.st_uid})"
            raise _refused(path, f"{owner}, and has {facts.st_nlink} names (hard links)")
        _lock(at or path, descriptor)
        yield descriptor, facts.st_size
    except OSError as error:
        raise _cannot_open(path, error) from error
    finally:
        close_locked(descriptor)


def _lock(path: str, descriptor: int) -> None:
    """Lock the regular file that was opened, so that no save overwrites it while it is read.

    Raises:
        FileNotFoundError: Its epoch was removed between the lookup of its name and this call.
        LockedError: E353, another program has locked it.
    """
    for _ in range(_LOCK_TRIES):
        try:
            if try_lock(descriptor, shared=True):
                return
        except OSError:
            # A file system without locks: there no file is used again.
            return
        if not _is_named(descriptor, path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        time.sleep(_LOCK_PAUSE_S)
    raise LockedError.of(
        "E353",
        f"another program has locked {path}, so that it may be changing",
        "close what has it open for writing, such as h5py.File(…, 'r+'); "
        f"'fuser -v {path}' shows which process it is",
    )


def _is_named(descriptor: int, path: str) -> bool:
    """Return whether the regular file that was opened still has its name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False


def read_regular_file(path: str, *, most_bytes: int | None = None) -> bytes:
    """Read all bytes of a regular file, refusing links and pipes.

    Args:
        path: The file.
        most_bytes: Refuse a longer one.

    Raises:
        CheckpointError: See ``open_regular_file``; or it is too long, or changes while it is read.
    """
    with open_regular_file(path) as (descriptor, size):
        if most_bytes is not None and size > most_bytes:
            raise _refused(path, f"it has {size} bytes, and {most_bytes} is the most")
        with os.fdopen(os.dup(descriptor), "rb", buffering=0) as file:
            data = file.readall()
    if len(data) != size:
        raise _refused(path, "it changes while it is read")
    return data


def _cannot_open(path: str, error: OSError) -> CheckpointError:
    if error.errno == errno.ENOENT:
        return CheckpointError.of(
            "E300", f"{path} is not there", "put it back from a copy, or use another epoch"
        )
    if error.errno == errno.EINVAL:
        return _refused(path, error.strerror or str(error))
    return CheckpointError.of(
        "E315",
        f"cannot read {path}: {error.strerror or error}",
        "check the permissions and the disk, or use another epoch",
    )


def _refused(path: str, why: str) -> CheckpointError:
    return CheckpointError.of(
        "E305",
        f"refused to read {path}: {why}",
        "if you trust it, replace it by a regular file with its content",
    )
