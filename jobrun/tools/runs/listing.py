"""All runs below a directory, fast: from an index that any call can make anew. Shows nothing.

The index is never the truth: an entry counts only as long as the run's ``run.json`` has the
size and the time it had when the entry was made. A missing, damaged or foreign index costs
time and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from jobrun.core.errors import JobrunError
from jobrun.runner.lock import is_live
from jobrun.runner.record import RECORD_NAME, read_record

INDEX_NAME = ".index.json"
_FORMAT = 1
# What a run that neither lives nor has said how it ended is called.
KILLED = "killed"


@dataclass(frozen=True, slots=True)
class Listed:
    """One run, in short.

    Attributes:
        path: Relative to the directory of the runs: ``job/name``.
        status: As recorded; ``killed`` when it says that it runs and nobody holds it.
        epoch: The newest epoch that was acknowledged when the record was written.
    """

    path: str
    job: str
    created: str
    status: str
    epoch: int
    exit_code: int | None
    reason: str
    resumable: bool

    @property
    def name(self) -> str:
        """What the run is called behind its job's name."""
        return self.path.rpartition("/")[2]


def listed_runs(run_dir: Path) -> tuple[Listed, ...]:
    """The runs below a directory, oldest first. What is no run, or damaged, is left out."""
    known = _read_index(run_dir)
    fresh: dict[str, Any] = {}
    for path, stamp in _records(run_dir):
        entry = known.get(path)
        if entry is None or entry[:2] != stamp:
            entry = _entry(run_dir, path, stamp)
        if entry is not None:
            fresh[path] = entry
    if fresh != known:
        _write_index(run_dir, fresh)
    found = (_listed(run_dir, path, entry) for path, entry in fresh.items())
    return tuple(sorted(found, key=lambda one: (one.created, one.path)))


def _records(run_dir: Path) -> Iterator[tuple[str, list[int]]]:
    """The path of each run, with the size and the time of its record."""
    for job in _directories(run_dir):
        for run in _directories(Path(job.path)):
            try:
                facts = os.stat(os.path.join(run.path, RECORD_NAME))  # noqa: PTH116, PTH118
            except OSError:
                continue
            yield f"{job.name}/{run.name}", [facts.st_size, facts.st_mtime_ns]


def _directories(parent: Path) -> list[os.DirEntry[str]]:
    # Links lead to runs that are listed anyway; a name with a dot is not a job's or a run's.
    try:
        with os.scandir(parent) as entries:
            return [
                entry
                for entry in entries
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []


def _entry(run_dir: Path, path: str, stamp: list[int]) -> list[Any] | None:
    try:
        record = read_record(run_dir / path)
    except JobrunError:
        return None
    values = asdict(record)
    return [*stamp, *(values[name] for name in _KEPT)]


def _listed(run_dir: Path, path: str, entry: list[Any]) -> Listed:
    listed = Listed(path, *entry[2:])
    if listed.status == "running" and not is_live(run_dir / path):
        return replace(listed, status=KILLED)
    return listed


_KEPT = tuple(field.name for field in fields(Listed) if field.name != "path")


def _read_index(run_dir: Path) -> dict[str, Any]:
    try:
        content = json.loads((run_dir / INDEX_NAME).read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        return {}
    if content.get("fields") != list(_KEPT) or not isinstance(content.get("runs"), dict):
        return {}
    length = 2 + len(_KEPT)
    return {
        path: entry
        for path, entry in content["runs"].items()
        if isinstance(entry, list) and len(entry) == length
    }


def _write_index(run_dir: Path, runs: dict[str, Any]) -> None:
    content = {"format": _FORMAT, "fields": list(_KEPT), "runs": runs}
    beside = run_dir / f"{INDEX_NAME}.{os.getpid()}"
    # A directory that cannot be written to can still be listed.
    with contextlib.suppress(OSError):
        beside.write_text(json.dumps(content))
        beside.replace(run_dir / INDEX_NAME)
