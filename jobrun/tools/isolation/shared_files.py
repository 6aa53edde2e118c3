"""Find the files that several runs write which run at the same time in one folder."""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from msgspec import Struct

from jobrun.core.files.written_files import VARIABLE, read_written_files
from jobrun.tools.isolation.folder_copy import plan_copy, remove_copy, stamp_of, stamps_of

_CACHES = frozenset({"__pycache__", ".cache"})
_MOST_SHOWN = 5
_MEND = (
    "      = runs that share a file change each other's results; write it below ${run.dir}, or "
    "with a param in its name"
)


class SharedFile(Struct, frozen=True):
    """A file that several runs have written, or may have written, at the same time.

    Attributes:
        path: The file.
        runs: The names of the runs that wrote it; () if only that it has changed is known, since
            programs and libraries in C are not seen writing.
    """

    path: Path
    runs: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.runs:
            return f"{self.path} has changed; which runs write it is not known"
        names = ", ".join(self.runs[:_MOST_SHOWN])
        more = len(self.runs) - _MOST_SHOWN
        others = f" and {more} more" if more > 0 else ""
        return f"{names}{others} write {self.path}"

    def as_values(self) -> dict[str, Any]:
        """Return the shared file as values of JSON."""
        return {"path": str(self.path), "runs": list(self.runs)}


def shared_file_warnings(files: Sequence[SharedFile]) -> list[str]:
    """Return lines that warn of shared files, and say how to give each run files of its own."""
    return [*(f"warning: {file}" for file in files), *([_MEND] if files else [])]


def folders_of(*specs: str) -> tuple[Path, ...]:
    """Return the folders whose files runs of these specs share: theirs, and the working directory.

    Not that of the file which a link leads to: the paths of a spec start where the link is.
    """
    return tuple(dict.fromkeys((*(Path(spec).parent.resolve() for spec in specs), Path.cwd())))


class SharedFiles:
    """Records which files several runs write, and finds those that they have in common.

    Args:
        folders: The folders in which they run, absolute.
        run_dir: Where the directories of the runs are: these are each run's own.
    """

    def __init__(self, folders: Sequence[Path], run_dir: Path) -> None:
        self._run_dir = run_dir.resolve()
        plan = plan_copy(folders)
        self._before = stamps_of((*plan.files, *plan.large))
        # Times of files have the grain of the kernel's clock.
        self._started = time.time() - 0.1
        self._folders = folders
        self._logs = Path(tempfile.mkdtemp(prefix="jobrun-writes-"))
        self._numbers = count()
        self._names: dict[Path, str] = {}

    def variables(self, name: str) -> dict[str, str]:
        """Return the environment variables by which a run's process records what it writes."""
        log = self._logs / str(next(self._numbers))
        self._names[log] = name
        return {VARIABLE: str(log)}

    def close(self) -> None:
        """Remove the records of what the runs have written to shared files."""
        remove_copy(self._logs)

    def find(self) -> tuple[SharedFile, ...]:
        """Return the files that more than one run wrote, and those that changed unseen."""
        writers: Mapping[Path, dict[str, None]] = defaultdict(dict)
        for log, name in self._names.items():
            for path in read_written_files(log):
                writers[path][name] = None
        shared = [
            SharedFile(path, tuple(names))
            for path, names in writers.items()
            if len(names) > 1 and self._counts(path)
        ]
        runs = set(self._names.values())
        unseen = [
            SharedFile(path)
            for path in self._changed()
            if path not in writers and len(runs) > 1 and self._counts(path)
        ]
        return tuple(sorted((*shared, *unseen), key=lambda file: file.path))

    def _changed(self) -> list[Path]:
        plan = plan_copy(self._folders)
        after = stamps_of((*plan.files, *plan.large))
        return [path for path, stamp in after.items() if self._before.get(path) != stamp]

    def _counts(self, path: Path) -> bool:
        """Return whether a file is shared by runs, and not their own or a cache."""
        if path.is_relative_to(self._run_dir) or _CACHES & {*path.parts} or path.is_dir():
            return False
        if not path.is_file():
            return False
        # A database is opened to be written also where it is read only.
        facts = path.stat()
        before = self._before.get(path)
        return stamp_of(facts) != before if before else facts.st_mtime >= self._started
