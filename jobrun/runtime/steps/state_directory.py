"""Store the ``state_dir`` of a program as an array of bytes, and restore it; in constant memory.

The array is a tar archive (pax), which GNU tar and Python read: the entries are in the order of
their names, without owners, with modes and times in nanoseconds. Of a file with holes only the data
are there (GNU's sparse format 1.0); a second name of a file is a hard link. It lies in a file
(``file_memory``), as does the one that a load makes.

::

    look at all entries: names, kinds, modes, times, which parts of files hold data
    refuse what cannot be kept, or is too much; return the last array if nothing is new
    copy what there is; refuse a file that has changed meanwhile
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import stat
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from msgspec import Struct

from jobrun.core.errors import TaskFailedError
from jobrun.core.files.disk import disk_faults, write_all
from jobrun.core.text.units import size
from jobrun.values.directory_archive import archive_mark
from jobrun.values.file_memory import Bytes, find_file_memory, map_file, open_unnamed

# ``tarfile`` functions for headers that its type stubs lack.
_tar: Any = tarfile
_BLOCK = tarfile.BLOCKSIZE
_COPY_BYTES = 1 << 20
# Below this size, comparing two archives is faster than waiting for a clock tick.
_SMALL_BYTES = 1 << 20
_TICK_S, _MOST_TICKS = 0.004, 50
# The fields of a header.
_SIZE_FIELD, _CHECKSUM_FIELD = slice(124, 136), slice(148, 156)
_MOST_OCTAL = 8**11 - 1
_ENCODING, _ERRORS = "utf-8", "surrogateescape"
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_KEPT = "a 'state_dir' keeps files, directories, and links between them"
Segments = tuple[tuple[int, int], ...]
# The metadata of all entries. It differs after a write to a file.
Listing = tuple[tuple[str, int, int, int, int, int, int], ...]


class _Entry(Struct, frozen=True):
    """A file, directory or link.

    Attributes:
        name: Relative to the directory, with slashes.
        path: Where it is.
        facts: As ``os.lstat`` says.
        segments: The parts of a file that hold data: offset and size.
        target: Of a link: what it leads to; of a further name of a file: the first one.
    """

    name: str
    path: str
    facts: os.stat_result
    segments: Segments = ()
    target: str = ""

    @property
    def data_bytes(self) -> int:
        """Return how many bytes of a ``state_dir``'s file are no holes."""
        return sum(length for _, length in self.segments)


def pack_directory(folder: Path, last: Bytes | None = None, *, most_bytes: int = 0) -> Bytes:
    """Store the ``state_dir`` of a program as an array; a missing one counts as empty.

    Args:
        folder: The directory.
        last: The array of the last time, which is returned if nothing has changed since.
        most_bytes: How large it may become; 0 for no limit.

    Returns:
        uint8, one-dimensional: a tar archive, of no bytes for an empty directory.

    Raises:
        TaskFailedError: E214, it holds what cannot be kept; E416, it is too large.
        EnvironmentFaultError: E354, there is no room for the copy.
    """
    listing = _list_directory(folder)
    if last is not None and listing is not None and listing == _listing_of(last):
        return last
    with disk_faults("E354", f"store the 'state_dir' {folder}", directory=str(folder.parent)):
        entries = list(_entries(folder))
        if not entries:
            return np.empty(0, np.uint8)
        _require_size(folder, entries, most_bytes)
        target = open_unnamed(str(folder.parent))
        try:
            write_all(target, archive_mark())
            for entry in entries:
                _write_entry(target, entry)
            write_all(target, bytes(2 * _BLOCK))
            return map_file(target, _wait_for_tick(folder, listing, target))
        except BaseException:
            os.close(target)
            raise


def restore_directory(content: Bytes, folder: Path) -> None:
    """Make a ``state_dir`` hold what was stored, unless it does; nothing else stays in it.

    Raises:
        TaskFailedError: E214, these are not the bytes of a stored directory.
        EnvironmentFaultError: E354, there is no room for it.
    """
    listing = _list_directory(folder)
    if listing is not None and folder.is_dir():
        if listing == _listing_of(content) or (not content.size and not listing):
            return
        if content.size <= _SMALL_BYTES:
            # An error means another content, such as a pipe that a killed program has left.
            with contextlib.suppress(TaskFailedError):
                if np.array_equal(pack_directory(folder), content):
                    return
    unpack_directory(content, folder)


def unpack_directory(content: Bytes, folder: Path) -> None:
    """Unpack a stored ``state_dir`` in place of whatever is there.

    Raises:
        TaskFailedError: E214, these are not the bytes of a stored directory.
        EnvironmentFaultError: E354, there is no room for it.
    """
    fresh = folder.with_name(f"{folder.name}.new")
    with disk_faults("E354", f"restore the 'state_dir' {folder}", directory=str(folder.parent)):
        for old in (fresh, folder):
            remove_directory(old)
        fresh.mkdir(parents=True)
        try:
            if content.size:
                _unpack(content, fresh)
        except tarfile.TarError as error:
            remove_directory(fresh)
            raise _not_kept(f"the stored directory cannot be read: {error}") from error
        except BaseException:
            remove_directory(fresh)
            raise
        fresh.rename(folder)
        memory = find_file_memory(content)
        if memory is not None:
            memory.listing = _list_directory(folder)


def remove_directory(folder: Path) -> None:
    """Remove a ``state_dir``, also directories in it that their modes protect."""
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink(missing_ok=True)
        return
    folder.chmod(stat.S_IRWXU)
    for parent, names, _ in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)  # noqa: PTH118 - names may be any bytes
            if not os.path.islink(path):  # noqa: PTH114
                os.chmod(path, stat.S_IRWXU)  # noqa: PTH101
    shutil.rmtree(folder)


def shown_name(name: str) -> str:
    """Return a file's name of any bytes as text that can be printed."""
    text = name.encode(_ENCODING, _ERRORS).decode(_ENCODING, "backslashreplace")
    return text if text.isprintable() else repr(text)[1:-1]


def _listing_of(content: Bytes) -> Listing | None:
    memory = find_file_memory(content)
    return None if memory is None else memory.listing


def _list_directory(folder: Path) -> Listing | None:
    """List what is in a ``state_dir`` without reading it; None if it cannot be looked at."""
    entries = []
    try:
        for name, path in _walk(folder):
            facts = os.lstat(path)
            entries.append(
                (name, facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns,
                 facts.st_ino, facts.st_nlink)
            )  # fmt: skip
    except (OSError, TaskFailedError):
        return None
    return tuple(entries)


def _wait_for_tick(folder: Path, listing: Listing | None, archive: int) -> Listing | None:
    """Wait until a later change to a file would show in its time, where that is worth it.

    The clock of a file system ticks every few milliseconds: a file that is written twice within
    one tick has one time (as in Git's "racy" index).

    Returns:
        The listing, or None where a change may not show.
    """
    if listing is None:
        return None
    newest_ns = max((entry[4] for entry in listing), default=0)
    total = sum(entry[2] for entry in listing if stat.S_ISREG(entry[1]))
    for _ in range(_MOST_TICKS):
        os.fchmod(archive, stat.S_IRUSR | stat.S_IWUSR)
        if os.fstat(archive).st_ctime_ns > newest_ns:
            # The program has ended, but processes that it started may still write.
            return listing if _list_directory(folder) == listing else None
        if total <= _SMALL_BYTES:
            return None
        time.sleep(_TICK_S)
    return None


def _walk(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield name and path of everything in a ``state_dir``, in the order of names, parents first.

    Raises:
        TaskFailedError: E214, a directory cannot be read.
    """
    waiting = [("", str(folder))] if folder.is_dir() and not folder.is_symlink() else []
    while waiting:
        name, path = waiting.pop()
        if name:
            yield name, path
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                continue
        prefix = f"{name}/" if name else ""
        try:
            here = sorted(os.listdir(path), reverse=True)  # noqa: PTH208 - names may be any bytes
        except PermissionError as error:
            raise _unreadable(name or folder.name) from error
        waiting += [(f"{prefix}{child}", f"{path}/{child}") for child in here]


def _entries(folder: Path) -> Iterator[_Entry]:
    """Yield all that a ``state_dir`` holds, with where files have data.

    Raises:
        TaskFailedError: E214, something cannot be kept.
    """
    first_names: dict[tuple[int, int], str] = {}
    for name, path in _walk(folder):
        try:
            yield _entry(name, path, first_names)
        except FileNotFoundError as error:
            raise _changed(name, "vanished") from error
        except PermissionError as error:
            raise _unreadable(name) from error


def _entry(name: str, path: str, first_names: dict[tuple[int, int], str]) -> _Entry:
    facts = os.lstat(path)
    if stat.S_ISLNK(facts.st_mode):
        target = os.readlink(path)  # noqa: PTH115 - names may be any bytes
        _require_inside(name, target)
        return _Entry(name, path, facts, target=target)
    if stat.S_ISDIR(facts.st_mode):
        return _Entry(name, path, facts)
    if not stat.S_ISREG(facts.st_mode):
        raise _not_kept(f"'{shown_name(name)}' is {_kind(facts.st_mode)}")
    if facts.st_nlink > 1:
        first = first_names.setdefault((facts.st_dev, facts.st_ino), name)
        if first != name:
            return _Entry(name, path, facts, target=first)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return _Entry(name, path, facts, tuple(_segments(descriptor, facts.st_size)))
    finally:
        os.close(descriptor)


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFIFO: "a named pipe (FIFO)",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a character device",
        stat.S_IFBLK: "a block device",
    }
    return kinds.get(stat.S_IFMT(mode), "neither a file nor a directory nor a link")


def _segments(descriptor: int, size_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield offset and size of the parts of a file that are no holes (``SEEK_DATA``)."""
    if not hasattr(os, "SEEK_DATA"):
        if size_bytes:
            yield 0, size_bytes
        return
    at = 0
    while at < size_bytes:
        try:
            begin = os.lseek(descriptor, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        at = min(os.lseek(descriptor, begin, os.SEEK_HOLE), size_bytes)
        if begin < at:
            yield begin, at - begin


def _require_size(folder: Path, entries: list[_Entry], most_bytes: int) -> None:
    """Require that a ``state_dir`` is not larger than its limit.

    Raises:
        TaskFailedError: E416.
    """
    total = sum(entry.data_bytes for entry in entries)
    if most_bytes and total > most_bytes:
        largest = max(entries, key=lambda entry: entry.data_bytes)
        raise TaskFailedError.of(
            "E416",
            f"the 'state_dir' {folder.name} holds {size(total)}, and its max_size is "
            f"{size(most_bytes)}; the largest file is '{shown_name(largest.name)}' with "
            f"{size(largest.data_bytes)}",
            "let the program write temporary files elsewhere, or raise max_size",
        )


def _write_entry(archive: int, entry: _Entry) -> None:
    header = tarfile.TarInfo(entry.name)
    header.mode = stat.S_IMODE(entry.facts.st_mode)
    # A fixed width, so that archives of equal content have equal size.
    seconds, nanoseconds = divmod(entry.facts.st_mtime_ns, 10**9)
    header.pax_headers = {"mtime": f"{seconds:010d}.{nanoseconds:09d}"}
    sparse_map = b""
    if stat.S_ISLNK(entry.facts.st_mode):
        header.type, header.linkname = tarfile.SYMTYPE, entry.target
    elif stat.S_ISDIR(entry.facts.st_mode):
        header.type = tarfile.DIRTYPE
    elif entry.target:
        header.type, header.linkname = tarfile.LNKTYPE, entry.target
    elif entry.segments != ((0, entry.facts.st_size),) and entry.facts.st_size:
        sparse_map = _sparse_map(entry)
        header.pax_headers |= {
            "GNU.sparse.major": "1",
            "GNU.sparse.minor": "0",
            "GNU.sparse.name": entry.name,
            "GNU.sparse.realsize": str(entry.facts.st_size),
        }
        header.name = "GNUSparseFile.0/file"
    if header.isreg():
        header.size = len(sparse_map) + entry.data_bytes
    write_all(archive, _render_header(header) + sparse_map)
    if header.isreg() and entry.data_bytes:
        _copy_data(archive, entry)
        write_all(archive, bytes(-entry.data_bytes % _BLOCK))


def _render_header(header: tarfile.TarInfo) -> bytes:
    """Render the header of an entry; a size that octal digits cannot hold in GNU's binary form.

    Python reads pax's record of such a size wrongly where the file has holes.
    """
    size_bytes = header.size
    header.size = min(size_bytes, _MOST_OCTAL)
    data = header.tobuf(tarfile.PAX_FORMAT, _ENCODING, _ERRORS)
    if size_bytes <= _MOST_OCTAL:
        return data
    block = bytearray(data[-_BLOCK:])
    block[_SIZE_FIELD] = _tar.itn(size_bytes, 12, tarfile.GNU_FORMAT)
    block[_CHECKSUM_FIELD] = b"%06o\0 " % _tar.calc_chksums(bytes(block))[0]
    return data[:-_BLOCK] + bytes(block)


def _sparse_map(entry: _Entry) -> bytes:
    """Render where a file has data, as GNU tar does: numbers in lines, in whole blocks."""
    segments = entry.segments
    if not segments or sum(segments[-1]) != entry.facts.st_size:
        # GNU tar reads the length of the file from a last, empty segment.
        segments = (*segments, (entry.facts.st_size, 0))
    numbers = (len(segments), *(number for segment in segments for number in segment))
    text = b"".join(b"%d\n" % number for number in numbers)
    return text + bytes(-len(text) % _BLOCK)


def _copy_data(archive: int, entry: _Entry) -> None:
    """Copy the data of a file into the archive.

    Raises:
        TaskFailedError: E214, it changes meanwhile, or cannot be read.
    """
    try:
        source = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise _changed(entry.name, "vanished") from error
    except OSError as error:
        raise _changed(entry.name, f"changed ({error.strerror})") from error
    try:
        before = os.fstat(source)
        for begin, length in entry.segments:
            _copy(source, archive, begin, None, length, entry.name)
        facts = (entry.facts, before, os.fstat(source))
    finally:
        os.close(source)
    if (
        len(
            {
                (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                for status in facts
            }
        )
        > 1
    ):
        raise _changed(entry.name, "changed")


def _copy(source: int, target: int, begin: int, at: int | None, length: int, name: str) -> None:
    """Copy a part of a file in the kernel, by sharing its blocks where the file system can.

    Args:
        source: The descriptor to copy from, at ``begin``.
        target: The one to copy to, at ``at``; where it is, if that is None.
        begin: See there.
        at: See there.
        length: How many bytes.
        name: Of the file, for messages.
    """
    end = begin + length
    in_kernel = hasattr(os, "copy_file_range")
    while begin < end:
        count = 0
        if in_kernel:
            try:
                count = os.copy_file_range(source, target, end - begin, begin, at)
            except OSError as error:
                if error.errno in _NO_SPACE:
                    raise
            in_kernel = count > 0
        if not count:
            data = os.pread(source, min(_COPY_BYTES, end - begin), begin)
            if not data:
                raise _changed(name, "became shorter")
            count = os.write(target, data) if at is None else os.pwrite(target, data, at)
        begin += count
        at = None if at is None else at + count


class _ArchiveFile(io.RawIOBase):
    """The bytes of an archive as a file; those of a mapped one are read, not mapped."""

    def __init__(self, content: Bytes) -> None:
        memory = find_file_memory(content)
        is_whole = memory is not None and len(memory) == content.size
        self.memory = memory if is_whole else None
        self._content = content
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._content.size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = self.take(self._at, len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def take(self, begin: int, most_bytes: int) -> bytes:
        """Return bytes from an offset on, as many as there are and are wanted."""
        if self.memory is not None:
            return os.pread(self.memory.descriptor, most_bytes, begin)
        return self._content[begin : begin + most_bytes].tobytes()


def _unpack(content: Bytes, folder: Path) -> None:
    archive = _ArchiveFile(content)
    directories: list[tuple[str, tarfile.TarInfo]] = []
    with _tar.open(
        fileobj=io.BufferedReader(archive), mode="r:", encoding=_ENCODING, errors=_ERRORS
    ) as entries:
        while (entry := entries.next()) is not None:
            # ``tarfile`` collects all members; with a million files that takes much memory.
            entries.members = []
            path = _require_place(entry, folder)
            if entry.isdir():
                os.mkdir(path, stat.S_IRWXU)  # noqa: PTH102 - names may be any bytes
                directories.append((path, entry))
                continue
            _make_entry(archive, entry, path, folder)
            if not entry.islnk():
                _set_facts(path, entry)
    # Deepest first: a directory may be read-only, and each change inside changes its time.
    for path, entry in reversed(directories):
        _set_facts(path, entry)


def _make_entry(archive: _ArchiveFile, entry: tarfile.TarInfo, path: str, folder: Path) -> None:
    if entry.issym():
        _require_inside(entry.name, entry.linkname)
        os.symlink(entry.linkname, path)  # noqa: PTH211 - names may be any bytes
    elif entry.islnk():
        _require_inside(PurePosixPath(entry.linkname).name, entry.linkname)
        os.link(folder / entry.linkname, path, follow_symlinks=False)
    elif entry.isreg():
        _make_file(archive, entry, path)
    else:
        raise _not_kept(f"'{shown_name(entry.name)}' is neither a file nor a directory nor a link")


def _make_file(archive: _ArchiveFile, entry: tarfile.TarInfo, path: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    target = os.open(path, flags, stat.S_IRUSR | stat.S_IWUSR)
    try:
        # The segments that hold data, if the file has holes.
        sparse: Any = entry.sparse
        segments = [(0, entry.size)] if sparse is None else sparse
        os.ftruncate(target, entry.size)
        begin = entry.offset_data
        for at, length in segments:
            _write_data(archive, target, begin, at, length)
            begin += length
    finally:
        os.close(target)


def _write_data(archive: _ArchiveFile, target: int, begin: int, at: int, length: int) -> None:
    if archive.memory is not None:
        _copy(archive.memory.descriptor, target, begin, at, length, "the archive")
        return
    end = begin + length
    while begin < end:
        data = archive.take(begin, min(_COPY_BYTES, end - begin))
        if not data:
            raise tarfile.ReadError("unexpected end of data")
        count = os.pwrite(target, data, at)
        begin, at = begin + count, at + count


def _set_facts(path: str, entry: tarfile.TarInfo) -> None:
    """Set mode and time of a restored file; of an archive of an older jobrun the mode alone."""
    if not entry.issym():
        os.chmod(path, entry.mode)  # noqa: PTH101 - names may be any bytes
    if (text := entry.pax_headers.get("mtime")) is not None:
        seconds, _, nanoseconds = text.partition(".")
        time_ns = int(seconds) * 10**9 + int(nanoseconds)
        os.utime(path, ns=(time_ns, time_ns), follow_symlinks=False)


def _require_place(entry: tarfile.TarInfo, folder: Path) -> str:
    """Return where an entry of an archive belongs.

    Raises:
        TaskFailedError: E214, that is outside of the directory.
    """
    name = PurePosixPath(entry.name)
    parent = folder / name.parent
    if (
        name.is_absolute()
        or ".." in name.parts
        or parent.resolve() != folder.resolve() / name.parent
    ):
        raise _not_kept(f"'{shown_name(entry.name)}' would lie outside of the directory")
    return str(folder / name)


def _require_inside(name: str, target: str) -> None:
    """Require that a link in a ``state_dir`` leads to a place inside of it."""
    inside = os.path.normpath(PurePosixPath(name).parent / target)
    if target.startswith("/") or PurePosixPath(inside).parts[:1] == ("..",):
        raise _not_kept(
            f"the link '{shown_name(name)}' leads out of the directory, to '{shown_name(target)}'"
        )


def _unreadable(name: str) -> TaskFailedError:
    return TaskFailedError.of(
        "E214",
        f"'{shown_name(name)}' in the 'state_dir' cannot be read: permission denied",
        "let the program make it readable for its owner (chmod u+r)",
    )


def _changed(name: str, verb: str) -> TaskFailedError:
    return TaskFailedError.of(
        "E214",
        f"'{shown_name(name)}' in the 'state_dir' {verb} while it was stored",
        "let the program wait for the processes that it starts before it ends",
    )


def _not_kept(message: str) -> TaskFailedError:
    return TaskFailedError.of("E214", message, _KEPT)
