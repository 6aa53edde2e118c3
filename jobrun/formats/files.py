"""Files that appear whole: write all, make durable, rename. Not what is in them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from jobrun.core.errors import EnvironmentFaultError

_MENDS = {
    errno.ENOSPC: "free space on the disk, then resume",
    errno.EDQUOT: "free space within your quota, then resume",
    errno.EROFS: "the file system is read-only; choose another place",
    errno.EACCES: "check the owner and the permissions",
    errno.EPERM: "check the owner and the permissions",
    errno.ENOENT: "check the path",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f), then resume",
    errno.EMFILE: "raise the limit on open files (ulimit -n), then resume",
    errno.EIO: "the device reports errors; check the disk, then resume",
}
_FULL = {errno.ENOSPC, errno.EDQUOT}


@contextlib.contextmanager
def disk_faults(code: str, what: str, *, place: str = "", needed_bytes: int = 0) -> Iterator[None]:
    """Turn what the operating system refuses into an error that says what was being done.

    Args:
        code: The catalogue's code.
        what: The act and the file, such as ``write /data/x.npy``.
        place: A directory on the disk in question, to say how much is free there.
        needed_bytes: How much the act needs there.

    Raises:
        EnvironmentFaultError: The body raised an ``OSError``.
    """
    try:
        yield
    except OSError as error:
        message = f"cannot {what}: {error.strerror or error}"
        if error.errno in _FULL and place and needed_bytes:
            message += f" (needs {needed_bytes} bytes, {_free_bytes(place)} are free)"
        mend = _MENDS.get(error.errno or 0, "see to the disk, then resume")
        raise EnvironmentFaultError.of(code, message, mend) from error


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write every byte, however many calls that takes."""
    view = memoryview(data).cast("B")
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(path: str | Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_locked(path: str | Path) -> bool:
    """Whether a live process holds the kernel's lock of a file or a directory just now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Shared: two who look do not take each other for a holder.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def make_directory(path: str | Path, mode: int = 0o777, *, own: int = 1) -> None:
    """Make a directory and those that it is in, where they are not there; their names stay.

    Args:
        path: The directory.
        mode: Of those that are made.
        own: See ``sync_names``.

    Raises:
        OSError: The disk says no.
    """
    wanted = Path(path).absolute()
    missing = [one for one in (wanted, *wanted.parents) if not one.exists()]
    wanted.mkdir(mode=mode, parents=True, exist_ok=True)
    for one in missing:
        sync_directory(one.parent)
    sync_names(missing[-1].parent if missing else wanted, own=own - len(missing))


def sync_names(path: str | Path, *, own: int = 1) -> None:
    """Make the names of a directory, and of those that it is in, durable.

    Who made them may have been killed before it came to that. Then nothing else is beside them;
    what is, was there before. What is somebody else's, or on another file system, too.

    Args:
        path: The directory.
        own: So many names, from the last one of the path, are synced whatever is beside them.

    Raises:
        OSError: The disk says no.
    """
    wanted = Path(path).absolute()
    user, device = os.geteuid(), wanted.stat().st_dev
    for count, one in enumerate((wanted, *wanted.parents[:-1]), start=1):
        facts = one.stat()
        is_ours = facts.st_uid == user and facts.st_dev == device
        if not is_ours or (count > own and not _is_alone(one)):
            return
        # What may not be read holds no name that we have given.
        with contextlib.suppress(PermissionError):
            sync_directory(one.parent)


def _is_alone(path: Path) -> bool:
    try:
        with os.scandir(path.parent) as entries:
            return all(one.name == path.name for one in entries)
    except PermissionError:
        return False


def replace_whole(path: str, write: Callable[[IO[bytes]], None]) -> None:
    """Put what ``write`` writes at ``path``, durably, in place of what may be there.

    A reader, or a crash, sees the old file or the new one. A symbolic link at ``path``
    stays a link, and its target is replaced.

    Raises:
        OSError: The disk says no; what was there is unchanged.
    """
    final = Path(path).resolve()
    beside = final.with_name(f".tmp-{os.urandom(8).hex()}")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(beside, flags, 0o666)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(final)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    sync_directory(final.parent)


def _free_bytes(place: str) -> int:
    try:
        facts = os.statvfs(place)
    except OSError:
        return 0
    return facts.f_bavail * facts.f_frsize
