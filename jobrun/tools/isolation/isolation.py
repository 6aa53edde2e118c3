"""Run processes in copies of the user's folders, with no way to write to the originals."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from msgspec import Struct

from jobrun.core.files.written_files import VARIABLE, read_written_files
from jobrun.tools.isolation.folder_copy import (
    FolderCopy,
    Stamp,
    make_copy,
    plan_copy,
    remove_copy,
    stamps_of,
)
from jobrun.tools.isolation.landlock import bind_write_limit, landlock_version

# No job has such a name.
_FILES = ".files"
_WRITE_LOG = ".written.txt"
# Devices and the shared memory of processes, settings of processes.
_SYSTEM = (Path("/dev"), Path("/proc"))
# Below the home directory: what libraries compile or download once.
_CACHES = (".cache", ".nv", ".triton")
# Audit events of calls that change what the directory has about a file.
_FACTS = frozenset({"os.utime", "os.chmod", "os.chown", "os.setxattr", "os.removexattr"})
_CACHE_NAMES = frozenset({"__pycache__"})


def plain_environment() -> dict[str, str]:
    """Copy the environment variables that are not ``JOBRUN_*``, for a process that runs a job.

    Options that are set by variables belong to the command that starts it.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("JOBRUN_")}


class Isolation(Struct, frozen=True):
    """A copy of the user's folders, and what processes in it may write.

    Attributes:
        files: The copy.
        original_directory: The working directory that the process would have without isolation.
        temporary: The directory for temporary files. Its path is short: that of a socket is, too.
        writable: All directories that its processes may write in.
        write_log: The file in which the process records what it writes.
    """

    files: FolderCopy
    original_directory: Path
    temporary: Path
    writable: tuple[Path, ...]
    write_log: Path

    @property
    def directory(self) -> Path:
        """Return the working directory of the isolated process."""
        return self.files.path_of(self.original_directory)

    def arguments(self, words: Sequence[str]) -> list[str]:
        """Replace the paths of originals in a command line by those in the isolated copy."""
        return [os.fspath(self.files.path_of(word)) if word[:1] == "/" else word for word in words]

    def variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables that differ for an isolated process."""
        changed = {"PWD": str(self.directory), "TMPDIR": str(self.temporary)}
        if paths := environment.get("PYTHONPATH"):
            changed["PYTHONPATH"] = os.pathsep.join(self.arguments(paths.split(os.pathsep)))
        return changed

    def request(self) -> dict[str, Any]:
        """Return what ``enter_isolation`` needs, as values of JSON."""
        imported = [*sys.path, str(Path.cwd())]
        return {
            "directory": str(self.directory),
            "import_paths": dict(zip(imported, self.arguments(imported), strict=True)),
            "writable": [str(path) for path in self.writable],
            "is_enforced": landlock_version() > 0,
            "write_log": str(self.write_log),
            "variables": self.variables(os.environ),
        }

    def bind_limit(self) -> Callable[[], None]:
        """Build the function by which an isolated process gives up writing elsewhere.

        It may be called between ``fork`` and ``exec``.
        """
        return bind_write_limit(self.writable)

    def outside_writes(self) -> list[Path]:
        """List the files elsewhere that the isolated process wrote, or was not allowed to."""
        return [
            path
            for path in read_written_files(self.write_log)
            if not any(path.is_relative_to(folder) for folder in self.writable)
            and not _CACHE_NAMES & {*path.parts}
        ]


class Isolator:
    """Makes a copy of the user's folders for each process that is to be isolated.

    Args:
        folders: The folders in which the processes run, absolute, the most needed first.
        directory: The working directory, one of them or below one.
        scratch: An existing directory, for a copy from which the others are made: what the user
            changes meanwhile is in none of them.
    """

    def __init__(self, folders: Sequence[Path], directory: Path, scratch: Path) -> None:
        self._plan = plan_copy(folders)
        self._folders = tuple(folders)
        self._directory = directory
        self._numbers = count()
        self._temporary = Path(tempfile.mkdtemp(prefix="jobrun-"))
        self._first = make_copy(self._plan, scratch / _FILES)
        writable = (
            self.linked_files if self.is_enforced else (*self._plan.files, *self.linked_files)
        )
        self._originals = stamps_of(writable)

    def close(self) -> None:
        """Remove what isolated processes have left in their temporary directories."""
        remove_copy(self._temporary)

    @property
    def is_enforced(self) -> bool:
        """Return whether the kernel keeps isolated processes from writing elsewhere."""
        return landlock_version() > 0

    @property
    def linked_files(self) -> tuple[Path, ...]:
        """Return the files of the folders that an isolated process can read only."""
        return tuple(
            path
            for path in (*self._plan.large, *self._plan.linked)
            if any(path.is_relative_to(folder) for folder in self._folders)
        )

    def open(self, folder: Path) -> Isolation:
        """Make a copy of the user's folders below a directory, to isolate processes in it."""
        files = make_copy(self._plan, folder / _FILES, self._first.top)
        temporary = self._temporary / str(next(self._numbers))
        temporary.mkdir()
        return Isolation(
            files,
            self._directory,
            temporary,
            (folder, temporary, *self._shared_places()),
            folder / _WRITE_LOG,
        )

    def changed_originals(self) -> list[Path]:
        """List the user's files that are not as they were when the first copy was made.

        Only those that isolated processes could have changed.
        """
        now: dict[Path, Stamp] = stamps_of(self._originals)
        return sorted(
            path for path, stamp in self._originals.items() if now.get(path, stamp) != stamp
        )

    def _shared_places(self) -> list[Path]:
        caches = [Path.home() / name for name in _CACHES]
        if cache := os.environ.get("XDG_CACHE_HOME"):
            caches.append(Path(cache))
        return [
            part
            for directory in (*_SYSTEM, *caches)
            for part in _parts_without(directory, self._folders)
        ]


def _parts_without(directory: Path, folders: Sequence[Path]) -> list[Path]:
    """Return the parts of a directory that an isolated process may write: not the user's folders.

    All of it, if none of the folders is in it.
    """
    if directory in folders:
        return []
    if not any(folder.is_relative_to(directory) for folder in folders):
        return [directory]
    return [part for entry in directory.iterdir() for part in _parts_without(entry, folders)]


def enter_isolation(request: Mapping[str, Any]) -> None:
    """Restrict the calling process, which has a single thread, by the request of an ``Isolation``.

    What it and its processes write is recorded as soon as they run jobrun.

    Raises:
        OSError: The kernel refuses.
    """
    restrict = bind_write_limit([Path(path) for path in request["writable"]])
    os.environ.update(request["variables"])
    tempfile.tempdir = None
    os.chdir(request["directory"])
    sys.path[:] = [request["import_paths"].get(path, path) for path in sys.path]
    if request["is_enforced"]:
        restrict()
        sys.addaudithook(_FactsKeeper(request["writable"]))
    os.environ[VARIABLE] = request["write_log"]


class _FactsKeeper:
    """Keeps an isolated process from changing times and modes elsewhere, which Landlock allows.

    Args:
        writable: The directories that it may write in.
    """

    def __init__(self, writable: Sequence[str]) -> None:
        self._writable = tuple(writable)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Refuse such a call before it is made; an audit hook may raise."""
        if event not in _FACTS or not isinstance(arguments[0], str | bytes):
            return
        path = os.path.realpath(os.fsdecode(arguments[0]))
        if not any(
            path == directory or path.startswith(f"{directory}/") for directory in self._writable
        ):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
