"""List, tag, measure and remove the runs below a directory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from jobrun.core.errors import UsageError
from jobrun.core.files.disk import disk_faults, write_file
from jobrun.core.files.json_files import read_json
from jobrun.core.lazy_dataclass import replace
from jobrun.core.text.patterns import lazy_pattern
from jobrun.runner.rundir.lock import RunLock, is_live
from jobrun.runner.rundir.run_directories import Run, remove_directory
from jobrun.runner.rundir.run_index import IndexedRun, OrderedRuns

# What a run that neither lives nor has said how it ended is called.
KILLED = "killed"
TAGS_NAME = "tags.json"
_TAG = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_.=-]{0,63}")


class NewestFirst:
    """The runs below a directory, newest first; only those that are asked for are looked at."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._ordered = OrderedRuns(run_dir)

    def runs(self, is_wanted: Callable[[str], bool]) -> Iterator[IndexedRun]:
        """List the runs whose paths are wanted, newest first, with their present status."""
        for path in self._ordered.paths:
            if is_wanted(path) and (one := self._ordered.read(path)) is not None:
                yield _with_present_status(self._run_dir, one)

    def newest_of_jobs(self) -> Iterator[IndexedRun]:
        """List the newest run of each job, newest first."""
        left = {path.partition("/")[0] for path in self._ordered.paths}
        for one in self.runs(lambda path: path.partition("/")[0] in left):
            left.discard(one.path.partition("/")[0])
            yield one
            if not left:
                return


def read_tags(run: Path) -> tuple[str, ...]:
    """Read the tags by which runs are managed, sorted; none if the file is unreadable."""
    try:
        content = read_json(run / TAGS_NAME)
    except (OSError, ValueError):
        return ()
    found = content if isinstance(content, list) else []
    return tuple(sorted({tag for tag in found if isinstance(tag, str) and _TAG.fullmatch(tag)}))


def change_tags(run: Path, add: tuple[str, ...], remove: tuple[str, ...]) -> tuple[str, ...]:
    """Change the tags by which a run is managed, and return all its tags.

    Raises:
        UsageError: E422, a tag is not one word.
        EnvironmentFaultError: Writing or deleting fails.
    """
    for tag in add:
        if not _TAG.fullmatch(tag):
            raise UsageError.of(
                "E422",
                f"'{tag}' cannot be a tag",
                "write one word of letters, digits and _ . = -, such as baseline or lr=0.1",
            )
    tags = sorted({*read_tags(run), *add} - set(remove))
    with disk_faults("E354", f"write {TAGS_NAME}"):
        write_file(run / TAGS_NAME, json.dumps(tags).encode() + b"\n")
    return tuple(tags)


def measure_size(run: Path) -> int:
    """Measure, to manage runs, the bytes of all files in a run's directory."""
    return sum(path.lstat().st_size for path in run.rglob("*") if not path.is_dir())


def remove_run(run: Run, *, unfinished: bool = False) -> None:
    """Remove a run that is managed, with its directory, unless the run is live.

    Args:
        run: The run.
        unfinished: One that ``resume`` could go on with is meant, too.

    Raises:
        LockedError: It lives.
        UsageError: E423, it could be continued, and ``unfinished`` does not say so.
        EnvironmentFaultError: Writing or deleting fails.
    """
    if run.unfinished and run.has_saved and not unfinished:
        raise UsageError.of(
            "E423",
            f"{run.name} is not finished, and 'jobrun resume' could continue it",
            "to remove it anyway, add --unfinished",
        )
    # Locked until it is gone, so that half a run cannot be resumed.
    with RunLock.acquire(run.path):
        remove_directory(run.path)


def _with_present_status(run_dir: Path, one: IndexedRun) -> IndexedRun:
    if one.status == "running" and not is_live(run_dir / one.path):
        return replace(one, status=KILLED)
    return one
