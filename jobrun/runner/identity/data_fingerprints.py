"""Fingerprint the data files that a run reads, in init or in every epoch.

A file is known by its size and a digest of its bytes; of a large one, of its beginning and end.
The time of its last change only saves the reading: a file that was touched is the same file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from jobrun.core.files.digest import PREFIX
from jobrun.graph.expressions import Text
from jobrun.graph.group_transforms import rebuild_group
from jobrun.graph.query import iter_steps
from jobrun.graph.steps import DataFile, Load, RunProgram, Save
from jobrun.graph.types import Job, TaskGroup

# Files up to this size are read as a whole; of larger ones, this many bytes at each end.
_WHOLE_BYTES = 64 << 20
_END_BYTES = 1 << 20
_PIECE_BYTES = 1 << 20
_FACTS = ("size_bytes", "mtime_ns", "digest")


def fingerprint_data(
    job: Job, folder: Path, known: Mapping[str, Any] | None = None
) -> dict[str, dict[str, Any]]:
    """Return size, time and digest of each data file that the job reads.

    Left out are files that the job itself writes, and all files where programs run, which may
    write any of them. A file that no epoch reads has the value ``read_by``: ``init``, which a
    resume does not run again, or ``rebuild``, whose constants have digests of their own.

    Args:
        job: The job.
        folder: The spec's folder, absolute; keys are paths relative to it.
        known: Fingerprints from before; a file with the same size and time is not read again.
    """
    steps = tuple(iter_steps(job))
    if any(isinstance(step, RunProgram) for step in steps):
        return {}
    written = {
        literal_path(file, folder)
        for step in steps
        if isinstance(step, Save)
        for file in step.files
    }
    epochs = set(_loaded(replace(job, init=TaskGroup("init")), folder))
    rebuilt = set(_loaded(replace(job, init=rebuild_group(job.init)), folder))
    fingerprints: dict[str, dict[str, Any]] = {}
    for path in dict.fromkeys(_loaded(job, folder)):
        if path in written or not path.is_file():
            continue
        name = os.path.relpath(path, folder)
        reader = {} if path in epochs else {"read_by": "rebuild" if path in rebuilt else "init"}
        fingerprints[name] = _fingerprint(path, (known or {}).get(name, {})) | reader
    return fingerprints


def keep_of_init(
    before: Mapping[str, Mapping[str, Any]], present: Mapping[str, Mapping[str, Any]]
) -> dict[str, Mapping[str, Any]]:
    """Return the fingerprints to record at a resume: of what only init read, those from then."""
    init = {name for name, facts in present.items() if facts.get("read_by") == "init"}
    return {**present, **{name: facts for name, facts in before.items() if name in init}}


def literal_path(file: DataFile, folder: Path) -> Path | None:
    """Return the path of a data file to fingerprint; None if it is known only at run time."""
    text = literal_text(file.path)
    if text is None:
        return None
    base = Path(file.folder) if file.folder else folder
    return Path(os.path.normpath(folder / base / text))


def literal_text(text: Text) -> str | None:
    """Return the path of a data file to fingerprint; None if the path has placeholders."""
    if all(isinstance(part, str) for part in text.parts):
        return "".join(part for part in text.parts if isinstance(part, str))
    return None


def _loaded(job: Job, folder: Path) -> Iterator[Path]:
    for step in iter_steps(job):
        if isinstance(step, Load):
            for file in step.files:
                path = literal_path(file, folder)
                if path is not None:
                    yield path


def _fingerprint(path: Path, known: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: known[name] for name in _FACTS if name in known}
    try:
        facts = path.stat()
        if (known.get("size_bytes"), known.get("mtime_ns")) == (facts.st_size, facts.st_mtime_ns):
            return known
        digest = _digest(path, facts.st_size)
    except OSError:
        # The step that reads it reports the error.
        return known
    return {"size_bytes": facts.st_size, "mtime_ns": facts.st_mtime_ns, "digest": digest}


def _digest(path: Path, size_bytes: int) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        if size_bytes <= _WHOLE_BYTES:
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
            return f"{PREFIX}{digest.hexdigest()}"
        digest.update(file.read(_END_BYTES))
        file.seek(-_END_BYTES, os.SEEK_END)
        digest.update(file.read(_END_BYTES))
    return f"ends-{PREFIX}{digest.hexdigest()}"
