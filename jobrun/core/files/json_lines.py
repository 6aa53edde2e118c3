"""Append to and read files of JSON lines, such as ``metrics.jsonl`` and ``committed.jsonl``.

A line that a killed process, or a full disk, left without its end is torn. ``LineFile`` closes it
with a line feed before it adds the next line; a ``JournalFile`` is cut off behind its last whole
line instead. Reading is bounded: no line may fill the memory, and no hole in a file is read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from jobrun.core.files.disk import (
    open_append,
    open_regular,
    sync_directory,
    sync_file,
    unshare,
    write_all,
)

_LINE_BYTES = 64 << 20
_STEP_BYTES = 1 << 20
_NEAR_BYTES = 4096
_MOST_COMPRESSED = 32
# To look at each line would take a tenth of a short epoch; and no copy of a run's directory is
# made within a millisecond.
_LOOK_EVERY_S = 1e-3


class LineFile:
    """A file of JSON lines to append to; it is opened when the first line is written.

    Its lines are not synced: a power cut may lose the last ones. A snapshot of hard links gets no
    line that is written later than a millisecond after it was made.

    Args:
        path: The file; its directory is made with the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1
        self._is_torn = False
        # By the monotonic clock: when to see whether a snapshot has the same file.
        self._look_s = 0.0

    def append(self, line: bytes) -> None:
        """Append a line, with its line feed, to a file of JSON lines, without ``fsync``.

        Raises:
            OSError: The system refuses; a part of the line may be in the file.
        """
        if self._descriptor < 0:
            self.path.parent.mkdir(exist_ok=True)
            self._descriptor = open_append(self.path)
            # A process that was killed may have written a part of its last line.
            end = os.fstat(self._descriptor).st_size
            self._is_torn = end > 0 and os.pread(self._descriptor, 1, end - 1) != b"\n"
        elif (now := time.monotonic()) >= self._look_s:
            self._look_s = now + _LOOK_EVERY_S
            self._descriptor = unshare(self.path, self._descriptor)
        try:
            write_all(self._descriptor, b"\n" + line if self._is_torn else line)
        except OSError:
            self._is_torn = True
            raise
        self._is_torn = False

    def close(self) -> None:
        """Close the file of JSON lines; a later line opens it again."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class JournalFile:
    """A durable file of JSON lines: each is on disk when ``append`` returns.

    Args:
        path: The file; it is made if it is not there, and its name is made durable.
        size_bytes: Where its last whole line ends; what is behind that is cut off.

    Raises:
        OSError: The system refuses.
    """

    def __init__(self, path: Path, size_bytes: int) -> None:
        self._path = path
        self._descriptor = open_append(path)
        try:
            if os.fstat(self._descriptor).st_size > size_bytes:
                os.ftruncate(self._descriptor, size_bytes)
            sync_file(self._descriptor)
            sync_directory(path.parent)
        except BaseException:
            self.close()
            raise

    def append(self, line: bytes) -> None:
        """Append a line, with its line feed, to a file of JSON lines, and ``fsync`` the file.

        Raises:
            OSError: The system refuses; whether the line is durable is unknown.
        """
        # A snapshot made of hard links must not get lines that are written after it.
        self._descriptor = unshare(self._path, self._descriptor)
        write_all(self._descriptor, line)
        sync_file(self._descriptor)

    def close(self) -> None:
        """Close the durable file of JSON lines; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_lines(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yield the lines of a JSON lines file, with line feeds; the last line may be incomplete.

    Raises:
        OSError: It is not there, is no regular file, or cannot be read.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        while line := file.readline(_LINE_BYTES):
            if len(line) == _LINE_BYTES:
                # No line of ours: the rest of it could fill the memory, or be a hole of a terabyte.
                return
            yield line


def read_tail(path: str | os.PathLike[str], size_bytes: int, *, whole: bool = False) -> list[bytes]:
    """Read the lines in the last bytes of a JSON lines file; first and last may be incomplete.

    Args:
        path: The file.
        size_bytes: How many bytes at its end.
        whole: Leave out a first and a last line that are torn.

    Raises:
        OSError: It is not there, is no regular file, or cannot be read.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        start = max(0, os.fstat(file.fileno()).st_size - size_bytes)
        file.seek(start)
        lines = file.read(size_bytes).split(b"\n")
    if whole:
        return lines[1 if start else 0 : -1]
    return lines[:-1] if not lines[-1] else lines


def find_last_line(path: str | os.PathLike[str], mark: bytes) -> bytes:
    """Return the last line of a JSON lines file with ``mark`` near its start, read backwards.

    Returns:
        The line; empty for none.

    Raises:
        OSError: It is not there, is no regular file, or cannot be read.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        facts = os.fstat(file.fileno())
        at = facts.st_size
        # A hole of a terabyte takes no place; a file system that compresses saves less.
        first = max(0, at - max(_LINE_BYTES, _MOST_COMPRESSED * facts.st_blocks * 512))
        behind = b""
        while at > first:
            step = min(_STEP_BYTES, at)
            at -= step
            # A mark may lie across two steps.
            data = os.pread(file.fileno(), step, at) + behind
            if (found := data.rfind(mark)) >= 0:
                before = max(0, at + found - _NEAR_BYTES)
                start = os.pread(file.fileno(), at + found - before, before).rfind(b"\n")
                file.seek(before + start + 1)
                return file.readline(_LINE_BYTES).rstrip(b"\n")
            behind = data[: len(mark) - 1]
    return b""
