"""Index the runs below a directory, so that listing reads only changed ones; find the newest.

An entry counts only as long as the files that it was made from are the files, with the sizes and
the times, that they were then. A missing, damaged or foreign index costs time and nothing else;
what a command does to a run, it decides by the run's own files.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from jobrun.core.errors import JobrunError
from jobrun.core.files.disk import read_regular, write_all
from jobrun.runner.rundir.run_json import RECORD_NAME, RunRecord, creation_order, read_record

INDEX_NAME = ".index.json"
# Version of the file format; entries are versioned by the names of their values.
_FORMAT = 3
# The most bytes of an index: enough for a hundred times ten thousand runs.
_MOST_BYTES = 512 << 20
# Resolution of file times: NFS may have whole seconds.
COARSE_NS = 2_000_000_000
# Shell completion reads up to this many new runs itself: writing the index takes longer.
_MOST_UNKNOWN = 20

NEWEST_NAME = ".newest.json"
_NEWEST_FORMAT = 1
_MOST_NEWEST_BYTES = 64 << 20


class RunIndex(Struct, frozen=True):
    """The layout of one index file below a directory of runs.

    Attributes:
        file: Its name.
        names: What each value of an entry is, in their order.
        read: Reads the values of the run in a directory; raises ``JobrunError`` or ``OSError``
            where there is none that can be read.
        fits: Whether values that the file holds are of the types of those that ``read`` returns.
        source: The name of the one file of a run that ``read`` reads and that is written in place,
            such as ``metrics.jsonl``; empty where only ``run.json`` is read.
    """

    file: str
    names: tuple[str, ...]
    read: Callable[[Path], list[Any]]
    fits: Callable[[list[Any]], bool]
    source: str = ""


class IndexedRun(Struct, frozen=True):
    """One run, in short, as its ``run.json`` says.

    Attributes:
        path: Relative to the directory of the runs: ``job/name``.
        order: See ``record.creation_order``.
        epoch: The newest epoch that was acknowledged when the record was written.
        inputs: See ``dump_inputs``.
    """

    path: str
    job: str
    created: str
    order: int
    status: str
    epoch: int
    exit_code: int | None
    reason: str
    resumable: bool
    inputs: str

    @property
    def name(self) -> str:
        """The indexed run's name without that of its job: ``20261121-0942-brisk-heron``."""
        return self.path.rpartition("/")[2]


def indexed_runs(run_dir: Path, worth: int = 1) -> tuple[IndexedRun, ...]:
    """Return the entries of the run index of a directory, updated and sorted, oldest first.

    Args:
        run_dir: The directory.
        worth: Write the index when at least so many of its entries are not as they were.
    """
    entries = (
        IndexedRun(path, *values) for path, values in read_index(run_dir, _RUNS, worth=worth)
    )
    return tuple(sorted(entries, key=lambda entry: (entry.order, entry.path)))


class OrderedRuns:
    """The runs below a directory, newest first, of which only those that are asked for are read.

    What the index says of the order of runs, no change of a run changes. A completion shows a few
    of ten thousand runs.

    Args:
        run_dir: The directory.
        index: What is known of each; None for what an ``IndexedRun`` has.
        on_fault: See ``read_index``.

    Attributes:
        paths: Relative to the directory; of all runs, and of what was one.
    """

    def __init__(
        self,
        run_dir: Path,
        index: RunIndex | None = None,
        on_fault: Callable[[str, Exception], None] | None = None,
    ) -> None:
        self._run_dir = run_dir
        self._index = index = index or _RUNS
        self._on_fault = on_fault or ignore_fault
        listed = [
            f"{job.name}/{run.name}"
            for job in list_directories(run_dir, "", self._on_fault)
            for run in list_directories(job.path, job.name, self._on_fault)
        ]
        known = self._known = _load(run_dir, index)
        unknown = [path for path in listed if path not in known]
        if len(unknown) > _MOST_UNKNOWN:
            deque(read_index(run_dir, index), maxlen=0)
            known = self._known = _load(run_dir, index)
        for path in unknown:
            # A new run, or no run at all.
            if path not in known and (entry := self._look_at(path)) is not None:
                known[path] = entry
        order = 1 + index.names.index("order")
        present = [(known[path][order], path) for path in listed if path in known]
        self.paths = [path for _, path in sorted(present, reverse=True)]

    def read(self, path: str) -> list[Any] | None:
        """Read a run from the index, or from its files if they changed; None if unreadable."""
        entry = self._look_at(path, self._known[path])
        return entry and entry[1:]

    def _look_at(self, path: str, known: list[Any] | None = None) -> list[Any] | None:
        """Return a run's index entry, read again if the run has changed; None if unreadable."""
        run = self._run_dir / path
        try:
            stamp = _stamp_run(str(run), self._index.source, time.time_ns() - COARSE_NS)
            if known and stamp and stamp == known[0]:
                return known
            return [stamp, *self._index.read(run)]
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (JobrunError, OSError) as error:
            self._on_fault(path, error)
            return None


def ignore_fault(path: str, error: Exception) -> None:
    """Ignore an unreadable run, as the ``on_fault`` callback of an update of the index."""
    del path, error


def read_index(
    run_dir: Path,
    index: RunIndex,
    on_fault: Callable[[str, Exception], None] = ignore_fault,
    worth: int = 1,
) -> Iterator[tuple[str, list[Any]]]:
    """Update the index of runs, reading only changed ones; yield each run's path and values.

    Args:
        run_dir: The directory of the runs.
        index: What is known of each.
        on_fault: Is called with the path of a run, or of a job's directory, that cannot be read.
        worth: Write the index when at least so many of its entries are not as they were.
    """
    known = _load(run_dir, index)
    fresh: dict[str, list[Any]] = {}
    changed = 0
    for path, stamp in _stamps(run_dir, index.source, on_fault):
        entry = known.get(path)
        if entry is None or not stamp or entry[0] != stamp:
            changed += 1
            try:
                entry = [stamp, *index.read(run_dir / path)]
            except (JobrunError, OSError) as error:
                on_fault(path, error)
                continue
        fresh[path] = entry
        yield path, entry[1:]
    changed += len(known.keys() - fresh.keys())
    if changed >= worth:
        _store(run_dir, index, fresh)


def _stamps(
    run_dir: Path, source: str, on_fault: Callable[[str, Exception], None]
) -> Iterator[tuple[str, int]]:
    """Yield each run's path for the index, with a stamp that changes when the run's files do.

    Files that were renamed or deleted change the time of the run's directory. The number is 0 for a
    run that changed a moment ago: a file system's clock is coarse, and the files may change again
    at the same time.
    """
    young_ns = time.time_ns() - COARSE_NS
    for job in list_directories(run_dir, "", on_fault):
        for run in list_directories(job.path, job.name, on_fault):
            name = f"{job.name}/{run.name}"
            try:
                stamp = _stamp_run(run.path, source, young_ns)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                on_fault(name, error)
                continue
            yield name, stamp


def _stamp_run(run: str, source: str, young_ns: int) -> int:
    """Compute the stamp of a run's files, by which the index sees that they have changed.

    Args:
        run: The path of the run's directory.
        source: See ``RunIndex``.
        young_ns: What has changed since this time is young: 0 is returned.

    Raises:
        OSError: It is no run, or cannot be looked at.
    """
    stat = os.stat
    record = stat(f"{run}/{RECORD_NAME}")
    if not source:
        return hash((record.st_size, record.st_mtime_ns, record.st_ino))
    folder = stat(run)
    changed_ns = max(record.st_mtime_ns, folder.st_mtime_ns)
    state: tuple[int, ...] = (
        record.st_size, record.st_mtime_ns, record.st_ino, folder.st_mtime_ns, folder.st_ino
    )  # fmt: skip
    try:
        facts = stat(f"{run}/{source}")
    except (FileNotFoundError, NotADirectoryError):
        # A run without this source is a run, too.
        return 0 if changed_ns > young_ns else hash(state)
    changed_ns = max(changed_ns, facts.st_mtime_ns)
    state += (facts.st_size, facts.st_mtime_ns, facts.st_ino)
    # The hash of integers is the same in each process.
    return 0 if changed_ns > young_ns else hash(state)


def list_directories(
    parent: Path | str, name: str, on_fault: Callable[[str, Exception], None]
) -> list[os.DirEntry[str]]:
    """List the directories in a folder, jobs or the runs of one job, to index the runs.

    Args:
        parent: The directory.
        name: As ``on_fault`` gets it.
        on_fault: Is called if it cannot be listed.
    """
    # Links point to runs that are listed anyway; jobs and runs have no name with a leading dot.
    try:
        with os.scandir(parent) as entries:
            return [
                entry
                for entry in entries
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        on_fault(name or str(parent), error)
        return []


def _read_short(run: Path) -> list[Any]:
    record = read_record(run)
    values = {
        **asdict(record),
        "order": creation_order(record.order, record.created),
        "inputs": dump_inputs(record),
    }
    return [values[name] for name in _RUNS.names]


def dump_inputs(record: RunRecord) -> str:
    """Convert the inputs of a run to text, which ``run_inputs.read_inputs`` reads."""
    values = (record.params, record.variables, record.seed, record.given)
    return json.dumps(values, separators=(",", ":"))


# The exit code may be missing.
_SHORT_TYPES = [[str, str, int, str, int, code, str, bool, str] for code in (int, type(None))]
_RUNS = RunIndex(
    INDEX_NAME,
    tuple(name for name in IndexedRun.__struct_fields__ if name != "path"),
    _read_short,
    lambda values: list(map(type, values)) in _SHORT_TYPES,
)


def _load(run_dir: Path, index: RunIndex) -> dict[str, list[Any]]:
    try:
        content = json.loads(read_regular(run_dir / index.file, _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        return {}
    if content.get("fields") != list(index.names) or not isinstance(content.get("runs"), dict):
        return {}
    return {
        path: entry
        for path, entry in content["runs"].items()
        if isinstance(entry, list) and len(entry) > 0 and index.fits(entry[1:])
    }


def _store(run_dir: Path, index: RunIndex, runs: dict[str, list[Any]]) -> None:
    content = {"format": _FORMAT, "fields": list(index.names), "runs": runs}
    write_index(run_dir, index.file, content)


def write_index(run_dir: Path, name: str, content: dict[str, Any]) -> None:
    """Write the index of runs atomically, or nothing if its directory cannot be written."""
    temporary = run_dir / f"{name}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        # As private as the records that it is built from.
        descriptor = os.open(temporary, flags, 0o600)
    except OSError:
        # A directory that cannot be written to can still be listed.
        return
    try:
        write_all(descriptor, json.dumps(content, separators=(",", ":")).encode())
        temporary.replace(run_dir / name)
    except OSError:
        temporary.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def find_newest(run_dir: Path, job: str = "") -> str:
    """Return from the index the relative path of the newest run, of a job or of all; else "".

    Returns:
        Empty where there is none, or where all runs must be read to say it.
    """
    known = _load_newest(run_dir)
    candidates: list[tuple[int, str]] = []
    for entry in list_directories(run_dir, "", ignore_fault) if known else ():
        stamp, order, path = known.get(entry.name, (0, 0, ""))
        if not stamp or stamp != _stamp(entry.path):
            return ""
        if path and job in ("", entry.name):
            candidates.append((order, path))
    return max(candidates)[1] if candidates else ""


def stamp_jobs(run_dir: Path) -> dict[str, int]:
    """Return a stamp of when each job's directory last changed, to keep in the index of runs.

    A file system's clock is coarse: one that has changed a moment ago gets no stamp.
    """
    return {entry.name: _stamp(entry.path) for entry in list_directories(run_dir, "", ignore_fault)}


def remember_newest(run_dir: Path, stamps: Mapping[str, int], runs: Iterable[IndexedRun]) -> None:
    """Write each job's newest run to the index; leave out jobs that have an unreadable run.

    Args:
        run_dir: The directory of the runs.
        stamps: From before they were listed.
        runs: All that there are.
    """
    of_jobs: dict[str, list[IndexedRun]] = {}
    for run in runs:
        of_jobs.setdefault(run.path.partition("/")[0], []).append(run)
    content: dict[str, list[Any]] = {}
    for job, stamp in stamps.items():
        known = of_jobs.get(job, [])
        names = {entry.name for entry in list_directories(run_dir / job, job, ignore_fault)}
        # A run that cannot be read now, and one of another job, may count later, or elsewhere.
        if stamp and names == {run.name for run in known if run.job == job}:
            newest = max(((run.order, run.path) for run in known), default=(0, ""))
            content[job] = [stamp, *newest]
    write_index(run_dir, NEWEST_NAME, {"format": _NEWEST_FORMAT, "jobs": content})


def _stamp(directory: str | Path) -> int:
    try:
        facts = Path(directory).stat()
    except OSError:
        return 0
    is_young = facts.st_mtime_ns > time.time_ns() - COARSE_NS
    # The hash of integers is the same in each process.
    return 0 if is_young else hash((facts.st_mtime_ns, facts.st_ino))


def _load_newest(run_dir: Path) -> dict[str, tuple[int, int, str]]:
    try:
        content = json.loads(read_regular(run_dir / NEWEST_NAME, _MOST_NEWEST_BYTES))
        if content["format"] != _NEWEST_FORMAT:
            return {}
        jobs = content["jobs"].items()
        return {job: (int(stamp), int(order), str(path)) for job, (stamp, order, path) in jobs}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
