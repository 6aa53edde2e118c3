"""Remember the newest run of each job, so that finding it reads neither the others nor their index.

An entry counts only as long as the job's directory is the one that it was made from, with the time
that it had then: a run that is created, renamed or removed changes it. What else happens to a run
changes neither its place nor its order.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jobrun.core.files.disk import read_regular
from jobrun.runner.rundir.run_index import (
    COARSE_NS,
    IndexedRun,
    ignore_fault,
    list_directories,
    write_index,
)

NEWEST_NAME = ".newest.json"
_FORMAT = 1
_MOST_BYTES = 64 << 20


def find_newest(run_dir: Path, job: str = "") -> str:
    """Find the path of the newest run of a job, or of all, relative to the directory of the runs.

    Returns:
        Empty where there is none, or where all runs must be read to say it.
    """
    known = _load(run_dir)
    found: list[tuple[int, str]] = []
    for entry in list_directories(run_dir, "", ignore_fault) if known else ():
        stamp, order, path = known.get(entry.name, (0, 0, ""))
        if not stamp or stamp != _stamp(entry.path):
            return ""
        if path and job in ("", entry.name):
            found.append((order, path))
    return max(found)[1] if found else ""


def stamp_jobs(run_dir: Path) -> dict[str, int]:
    """Read the times of jobs' directories before their runs are listed, for ``remember_newest``.

    A file system's clock is coarse: one that has changed a moment ago gets no stamp.
    """
    return {entry.name: _stamp(entry.path) for entry in list_directories(run_dir, "", ignore_fault)}


def remember_newest(run_dir: Path, stamps: Mapping[str, int], runs: Iterable[IndexedRun]) -> None:
    """Remember the newest of the runs of each job that has only such as could be read.

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
    write_index(run_dir, NEWEST_NAME, {"format": _FORMAT, "jobs": content})


def _stamp(directory: str | Path) -> int:
    try:
        facts = Path(directory).stat()
    except OSError:
        return 0
    is_young = facts.st_mtime_ns > time.time_ns() - COARSE_NS
    # The hash of integers is the same in each process.
    return 0 if is_young else hash((facts.st_mtime_ns, facts.st_ino))


def _load(run_dir: Path) -> dict[str, tuple[int, int, str]]:
    try:
        content = json.loads(read_regular(run_dir / NEWEST_NAME, _MOST_BYTES))
        if content["format"] != _FORMAT:
            return {}
        jobs = content["jobs"].items()
        return {job: (int(stamp), int(order), str(path)) for job, (stamp, order, path) in jobs}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
