"""Write files durably (``fsync``) and atomically to disk, and read regular files only."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO

from jobrun.core.codes import Code
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.text.patterns import lazy_pattern

_DEVICE = "the device or file system reports an I/O error; check dmesg and the mount, then resume"
_MEMORY = "raise the limits of memory and processes (ulimit -v, ulimit -u), or use less"
_MENDS = {
    errno.ENOSPC: "free space on the disk, then resume",
    errno.EDQUOT: "free space within your quota, then resume",
    errno.EROFS: "the file system is read-only; choose another place, or check dmesg and the mount",
    errno.EACCES: "check the owner and the permissions",
    errno.EPERM: "check the owner and the permissions",
    errno.ENOENT: "check the path",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f), then resume",
    errno.EMFILE: "raise the limit on open files (ulimit -n), then resume",
    errno.ENFILE: "the machine has too many open files (sysctl fs.file-max)",
    errno.EIO: _DEVICE,
    errno.ENXIO: _DEVICE,
    errno.ENODEV: _DEVICE,
    errno.EREMOTEIO: _DEVICE,
    errno.ESTALE: "the network file system was remounted or is gone; check the mount",
    errno.ENOTCONN: "the file system has lost its server; check the mount, then resume",
    errno.ENOMEM: _MEMORY,
    errno.EAGAIN: _MEMORY,
}
_COPIED_BYTES = 1 << 20
# Characters of a temporary name: 60 of 4 bytes, and a suffix, fit into the 255 bytes of a name.
_NAME_LENGTH = 60
_UNFINISHED = lazy_pattern(r"\.[^/]{1,60}\.[0-9a-f]{16}")
# Far more than any file that is read as a whole.
MOST_BYTES = 64 << 20
_CHUNK = 1 << 20
_FULL = {errno.ENOSPC, errno.EDQUOT}
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


def mend_of(error: OSError, otherwise: str) -> str:
    """Return advice on a disk error by its errno, such as ``ENOSPC``, or else the given text.

    Faults of a device are distinguished from limits of the process.
    """
    return _MENDS.get(error.errno or 0, otherwise)


class disk_faults:  # noqa: N801 - it reads as a function
    """Convert an ``OSError`` of disk access in a ``with`` block to an error that says what failed.

    No generator: each epoch has several, and a generator's context takes twice as long.

    Args:
        code: The catalogue's code.
        action: The act and the file, such as ``write /data/x.npy``.
        directory: A directory on the disk in question, to say how much is free there.
        needed_bytes: How much the act needs there.

    Raises:
        EnvironmentFaultError: The body raised an ``OSError``.
    """

    __slots__ = ("_action", "_code", "_directory", "_needed_bytes")

    def __init__(
        self, code: Code, action: str, *, directory: str = "", needed_bytes: int = 0
    ) -> None:
        self._code = code
        self._action = action
        self._directory = directory
        self._needed_bytes = needed_bytes

    def __enter__(self) -> None:
        """Enter a ``with`` block whose disk errors become an ``EnvironmentFaultError``."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, OSError):
            raise self._convert(error) from error

    def _convert(self, error: OSError) -> EnvironmentFaultError:
        message = f"cannot {self._action}: {error.strerror or error}"
        if error.errno in _FULL:
            # Each node of a job may write to the disk of its own machine.
            machine = f"on machine {os.uname().nodename}"
            needs = f"needs {self._needed_bytes} bytes, {_free_bytes(self._directory)} are free "
            message += f" ({needs if self._directory and self._needed_bytes else ''}{machine})"
        return EnvironmentFaultError.of(
            self._code, message, mend_of(error, "see to the disk, then resume")
        )


def open_regular(path: str | os.PathLike[str]) -> int:
    """Open a regular file on disk and return its descriptor; refuse symbolic links and devices.

    Raises:
        OSError: It is not there, is a link, a pipe, a device or a directory, or cannot be read.
    """
    # O_NONBLOCK: opening a pipe would wait for its writer for ever.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        # ELOOP: a symbolic link. ENXIO: a socket, or a device that is not there.
        if error.errno in {errno.ELOOP, errno.ENXIO, errno.EMLINK}:
            raise _irregular(path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _irregular(path)
    return descriptor


def _irregular(path: str | os.PathLike[str]) -> OSError:
    return OSError(errno.EINVAL, "it is a symbolic link, or no regular file", str(path))


def read_regular(path: str | os.PathLike[str], most_bytes: int = MOST_BYTES) -> bytes:
    """Read a regular file from disk into memory, if it has at most ``most_bytes``.

    Raises:
        OSError: See ``open_regular``; or EFBIG, it is longer than ``most_bytes``.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size
        is_long = size_bytes > most_bytes
        # As much memory is allocated as is asked for: not for the longest file that may be.
        data = b"" if is_long else file.read(size_bytes + 1)
        while len(data) > size_bytes and len(data) <= most_bytes and (more := file.read(_CHUNK)):
            data += more
    if is_long or len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it is longer than {most_bytes} bytes", str(path))
    return data


def open_append(path: str | os.PathLike[str], mode: int = 0o644) -> int:
    """Open or create a regular file on disk to append to and read; return its descriptor.

    Returns:
        The descriptor. No other name leads to its file: see ``unshare``.

    Raises:
        OSError: Something else has the name, or the system refuses.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, mode)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO, errno.EMLINK, errno.EISDIR}:
            raise _irregular(path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _irregular(path)
    try:
        return unshare(path, descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def unshare(path: str | os.PathLike[str], descriptor: int) -> int:
    """Replace a file on disk that has other hard links by a copy, before it is changed.

    A snapshot made of hard links (``cp -al``) has the same file: what one appends would appear in
    the other.

    Args:
        path: The name that gets the copy.
        descriptor: The file, open to read and write; it is closed if a copy was made.

    Returns:
        A descriptor of the file that ``path`` leads to now, open to append; the same one where the
        file had no other name.

    Raises:
        OSError: The system refuses, or ``path`` leads to another file; nothing was changed.
    """
    facts = os.fstat(descriptor)
    if facts.st_nlink <= 1:
        return descriptor
    final = Path(path)
    named = final.lstat()
    if (named.st_dev, named.st_ino) != (facts.st_dev, facts.st_ino):
        raise OSError(errno.ESTALE, "another file has its name now", str(path))
    temporary = final.with_name(f".{final.name}.{os.urandom(4).hex()}")
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    copy = os.open(temporary, flags, stat.S_IMODE(facts.st_mode))
    try:
        at = 0
        while data := os.pread(descriptor, _COPIED_BYTES, at):
            write_all(copy, data)
            at += len(data)
        sync_file(copy)
        temporary.replace(final)
    except BaseException:
        os.close(copy)
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(final.parent)
    os.close(descriptor)
    return copy


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all bytes to an open file on disk, repeating ``write`` until none is left."""
    written = os.write(descriptor, data)
    size = data.nbytes if isinstance(data, memoryview) else len(data)
    # Nearly always all of it at once.
    while written < size:
        written += os.write(descriptor, memoryview(data).cast("B")[written:])


def sync_file(descriptor: int) -> None:
    """Make the bytes of an open file durable on disk: ``fsync``, on macOS ``F_FULLFSYNC``.

    There, ``fsync`` leaves the data in the cache of the disk, see fsync(2).

    Raises:
        OSError: The data may be lost.
    """
    if _FULL_SYNC is not None:
        # Network file systems do not know it.
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, _FULL_SYNC)
            return
    os.fsync(descriptor)


def sync_data(descriptor: int) -> None:
    """Make the bytes and length of an open file durable on disk, but not its timestamps.

    Raises:
        OSError: The data may be lost.
    """
    if _FULL_SYNC is not None or not hasattr(os, "fdatasync"):
        sync_file(descriptor)
    else:
        os.fdatasync(descriptor)


def sync_directory(path: str | Path) -> None:
    """Make the file names in a directory durable on disk, by ``fsync`` of the directory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: str | Path, mode: int = 0o777, *, own_names: int = 1) -> None:
    """Create a directory and missing parents, and make their names durable on disk (``fsync``).

    Args:
        path: The directory.
        mode: Of those that are made.
        own_names: See ``sync_names``.

    Raises:
        OSError: The system refuses.
    """
    wanted = Path(path).absolute()
    missing = [directory for directory in (wanted, *wanted.parents) if not directory.exists()]
    wanted.mkdir(mode=mode, parents=True, exist_ok=True)
    for directory in missing:
        sync_directory(directory.parent)
    sync_names(missing[-1].parent if missing else wanted, own_names=own_names - len(missing))


def sync_names(path: str | Path, *, own_names: int = 1) -> None:
    """Make the names of a directory and of its parents durable on disk with ``fsync``.

    Who made them may have been killed before it came to that. Then nothing else is beside them;
    what is, was there before. So was what belongs to another user, or is on another file system.

    Args:
        path: The directory.
        own_names: So many names, from the last one of the path, are synced whatever is beside them.

    Raises:
        OSError: The system refuses.
    """
    wanted = Path(path).absolute()
    user, device = os.geteuid(), wanted.stat().st_dev
    for count, directory in enumerate((wanted, *wanted.parents[:-1]), start=1):
        facts = directory.stat()
        is_ours = facts.st_uid == user and facts.st_dev == device
        if not is_ours or (count > own_names and not _is_alone(directory)):
            return
        # A directory that may not be read holds no name that this process made.
        with contextlib.suppress(PermissionError):
            sync_directory(directory.parent)


def _is_alone(path: Path) -> bool:
    try:
        with os.scandir(path.parent) as entries:
            return all(entry.name == path.name for entry in entries)
    except PermissionError:
        return False


def create_file(path: str | os.PathLike[str], mode: int = 0o644) -> int:
    """Create a file on disk that must not exist yet, and return a descriptor to write it.

    Raises:
        OSError: EEXIST, something has the name, be it a dangling link; or the system refuses.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, mode)


def write_new_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Create a file and ``fsync`` its bytes to disk, but not yet its name in the directory.

    Raises:
        OSError: Something has the name, or the system refuses.
    """
    descriptor = create_file(path)
    try:
        write_all(descriptor, data)
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write bytes to a file on disk atomically and durably, replacing the file if it exists.

    A reader, or a crash, sees the old file or the new one. A symbolic link at ``path`` is
    replaced. Only the owner may write the file.

    Args:
        path: The file.
        data: All of it.
        private: Only the owner may read it either, whatever the umask is.

    Raises:
        OSError: The system refuses; what was there is unchanged.
    """
    with _replacement(path, 0o600 if private else 0o644) as descriptor:
        write_all(descriptor, data)


def replace_file(path: str | Path, write: Callable[[IO[bytes]], object]) -> None:
    """Replace a file on disk atomically and durably by the bytes that a function writes.

    A reader, or a crash, sees the old file or the new one. A symbolic link at ``path``
    stays a link, and its target is replaced. The umask decides who may read the file.

    Raises:
        OSError: The system refuses; what was there is unchanged.
    """
    with (
        _replacement(Path(path).resolve(), 0o666) as descriptor,
        os.fdopen(descriptor, "w+b", closefd=False) as file,
    ):
        write(file)


@contextlib.contextmanager
def _replacement(final: Path, mode: int) -> Iterator[int]:
    """Yield the descriptor of a temporary file on disk; afterwards rename the file to ``final``."""
    # As ``_UNFINISHED`` says.
    temporary = final.with_name(f".{final.name[:_NAME_LENGTH]}.{os.urandom(8).hex()}")
    descriptor = create_file(temporary, mode)
    try:
        try:
            yield descriptor
            sync_file(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(final)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_directory(final.parent)


def remove_unfinished_files(directory: str | Path) -> None:
    """Remove temporary files that a killed process has left on disk below a directory.

    Nothing may be writing files there. It need not exist.

    Raises:
        OSError: One cannot be removed.
    """
    for folder, _, names in os.walk(directory):
        for name in names:
            if _UNFINISHED.fullmatch(name):
                os.unlink(os.path.join(folder, name))  # noqa: PTH108, PTH118 - there may be many


def list_directory(path: str | Path) -> list[Path]:
    """List the entries of a directory on disk, sorted and not deeper; [] if it does not exist.

    Raises:
        OSError: It may not be read.
    """
    try:
        return sorted(Path(path).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _free_bytes(directory: str) -> int:
    try:
        facts = os.statvfs(directory)
    except OSError:
        return 0
    return facts.f_bavail * facts.f_frsize
