"""Small files of a run that appear whole and stay. Not the checkpoints', not data files."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import AbstractContextManager
from pathlib import Path

from jobrun.formats import files
from jobrun.formats.files import make_directory, sync_directory, write_all

__all__ = [
    "disk_faults", "make_directory", "read_plain", "sync_directory", "write_all", "write_whole",
]  # fmt: skip


def disk_faults(what: str) -> AbstractContextManager[None]:
    """Turn what the operating system refuses inside into an error that says what was being done.

    Args:
        what: The act, such as ``write run.json``.

    Raises:
        EnvironmentFaultError: The body raised an ``OSError``.
    """
    return files.disk_faults("E354", what)


def read_plain(path: Path) -> bytes:
    """A small file of a run; never through a link, never waiting for a pipe.

    Raises:
        OSError: It is not there, is not a regular file, or the disk says no.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return file.read()


def write_whole(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path``, durably, in place of what may be there.

    A reader, or a crash, sees the old file or the new one. Others may read it, never write.

    Raises:
        OSError: The disk says no; what was there is unchanged.
    """
    beside = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(beside, flags, 0o644)
    try:
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)
