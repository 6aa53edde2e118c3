"""Record which files a process opens to write, renames or removes, by an audit hook of Python.

Not seen are files that code in C opens by itself, as HDF5 does, and those of other programs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

VARIABLE = "JOBRUN_WRITE_LOG"
_NO_FILES = ("/dev/", "/proc/")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class _Event(NamedTuple):
    """An audit event of a call that may write files.

    Attributes:
        paths: The numbers of its arguments that are paths.
        follows_links: The call acts on what a symbolic link leads to, not on the link.
        flags: The number of the argument with the flags of ``open``; None if all calls write.
    """

    paths: tuple[int, ...]
    follows_links: bool = True
    flags: int | None = None

    def written(self, arguments: tuple[Any, ...]) -> Iterator[str]:
        """Yield the absolute paths of the files that a call of this audit event writes."""
        if self.flags is not None and not int(arguments[self.flags] or 0) & _WRITING:
            return
        for number in self.paths:
            path = arguments[number]
            if isinstance(path, str | bytes) and path not in (":memory:", "", b""):
                name = os.path.abspath(os.fsdecode(path))  # noqa: PTH100
                if name.startswith(_NO_FILES):
                    continue
                if self.follows_links:
                    yield os.path.realpath(name)
                else:
                    folder, last = os.path.split(name)
                    yield os.path.join(os.path.realpath(folder), last)  # noqa: PTH118


_WRITTEN: Mapping[str, _Event] = {
    "open": _Event((0,), flags=2),
    "os.rename": _Event((0, 1), follows_links=False),
    "os.remove": _Event((0,), follows_links=False),
    "os.truncate": _Event((0,)),
    "os.mkdir": _Event((0,), follows_links=False),
    "os.rmdir": _Event((0,), follows_links=False),
    "os.link": _Event((1,), follows_links=False),
    "os.symlink": _Event((1,), follows_links=False),
    "os.utime": _Event((0,)),
    "os.chmod": _Event((0,)),
    "sqlite3.connect": _Event((0,)),
}


def record_writes(log: str | os.PathLike[str]) -> None:
    """Record from now on the files that this process writes, each once, as a line of a log file."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    recorded: set[str] = set()

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _WRITTEN:
            return
        for path in _WRITTEN[event].written(arguments):
            if path not in recorded:
                recorded.add(path)
                os.write(descriptor, path.encode(errors="surrogateescape") + b"\n")

    sys.addaudithook(hook)


def record_writes_if_asked(environment: Mapping[str, str]) -> None:
    """Record the files that this process writes if ``JOBRUN_WRITE_LOG`` names a log file."""
    if log := environment.get(VARIABLE):
        record_writes(log)


def read_written_files(log: Path) -> list[Path]:
    """Return the files that processes have recorded in a log file; [] if there is none."""
    if not log.exists():
        return []
    lines = log.read_text(errors="surrogateescape").splitlines()
    return [Path(line) for line in dict.fromkeys(lines)]
