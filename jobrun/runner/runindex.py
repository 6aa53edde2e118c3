"""All runs below a directory, fast: from an index that any call can make anew. Never the truth.

An entry counts only as long as the run's ``run.json`` is the file, with the size and the time, that
it was when the entry was made. A missing, damaged or foreign index costs time and nothing else;
what a command does to a run, it decides by the run's own files.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from jobrun.core.errors import JobrunError
from jobrun.runner.record import RECORD_NAME, read_record

INDEX_NAME = ".index.json"
_FORMAT = 2
# Numbers in front of each entry: which file it was made from.
_STAMPS = 3


@dataclass(frozen=True, slots=True)
class Indexed:
    """One run, in short, as its ``run.json`` says.

    Attributes:
        path: Relative to the directory of the runs: ``job/name``.
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


def indexed_runs(run_dir: Path, worth: int = 1) -> tuple[Indexed, ...]:
    """The runs below a directory, oldest first. What is no run, or damaged, is left out.

    Args:
        run_dir: The directory.
        worth: Write the index when at least so many of its entries are not as they were.
    """
    known = _read_index(run_dir)
    fresh: dict[str, Any] = {}
    changed = 0
    for path, stamp in _records(run_dir):
        entry = known.get(path)
        if entry is None or entry[:_STAMPS] != stamp:
            entry = _entry(run_dir, path, stamp)
            changed += 1
        if entry is not None:
            fresh[path] = entry
    changed += len(known.keys() - fresh.keys())
    if changed >= worth:
        _write_index(run_dir, fresh)
    found = (Indexed(path, *entry[_STAMPS:]) for path, entry in fresh.items())
    return tuple(sorted(found, key=lambda one: (one.created, one.path)))


def _records(run_dir: Path) -> Iterator[tuple[str, list[int]]]:
    """The path of each run, with what tells its record from another one."""
    for job in _directories(run_dir):
        for run in _directories(job.path):
            try:
                facts = os.stat(f"{run.path}/{RECORD_NAME}")  # noqa: PTH116 - ten thousand of them
            except OSError:
                continue
            yield f"{job.name}/{run.name}", [facts.st_size, facts.st_mtime_ns, facts.st_ino]


def _directories(parent: Path | str) -> list[os.DirEntry[str]]:
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


_KEPT = tuple(field.name for field in fields(Indexed) if field.name != "path")


def _read_index(run_dir: Path) -> dict[str, Any]:
    try:
        content = json.loads((run_dir / INDEX_NAME).read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        return {}
    if content.get("fields") != list(_KEPT) or not isinstance(content.get("runs"), dict):
        return {}
    length = _STAMPS + len(_KEPT)
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
