"""``run.json``: what a run is and how it stands, as one frozen value. No absolute paths in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from jobrun.core.errors import CheckpointError
from jobrun.runner.durable import disk_faults, read_plain, write_whole

RECORD_NAME = "run.json"
FORMAT = 1

Status = Literal["running", "finished", "stopped", "interrupted", "failed"]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run.

    Attributes:
        run_id: A UUID; every checkpoint of the run carries it.
        job: The job's name.
        created: UTC, ISO 8601, with microseconds.
        status: ``running`` also stands there after a kill: only the lock tells who lives.
        epoch: The newest epoch that was acknowledged when this was written; -1 for none.
        exit_code: Of the last invocation that ended; None while running, or killed.
        reason: Why it ended, in words.
        resumable: False for ``checkpoint: none``.
        generation: Raised by each ``resume --epoch N``.
        parent: For a fork: the run and the epoch it started from.
        folder: The spec's folder, relative to the run's directory.
        spec_digest: Of the resolved spec that last ran.
        limit_epochs: The stop item that ``--epochs`` added to this run; 0 for none.
        accepted: The drift that was accepted, field by field, ever.
        callables: Digest of the source of each callable, of what it imports from the spec's
            folder, and of scripts there.
        data: Size, time and digest of each data file that epochs read.
        variables: Digest of each environment variable that the spec reads.
        environment: Versions and numerics of the last invocation.
        resized: Each change of the number of nodes: after which epoch, of which family, and what
            became of its state.
        file_system: What kind the run was on then, such as ``ext4``.
        host: Where the last invocation ran.
        version: Of the jobrun that wrote this.
    """

    run_id: str
    job: str
    created: str
    status: Status = "running"
    epoch: int = -1
    exit_code: int | None = None
    reason: str = ""
    resumable: bool = True
    generation: int = 0
    parent: Mapping[str, Any] = field(default_factory=dict)
    folder: str = "."
    spec_digest: str = ""
    limit_epochs: int = 0
    accepted: tuple[str, ...] = ()
    callables: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    resized: tuple[Mapping[str, Any], ...] = ()
    file_system: str = ""
    host: str = ""
    version: str = ""


def write_record(run: Path, record: RunRecord) -> None:
    """Replace the run's ``run.json``, durably.

    Raises:
        EnvironmentFaultError: The disk says no.
    """
    content = {"format": FORMAT, **asdict(record)}
    with disk_faults(f"write {RECORD_NAME}"):
        write_whole(run / RECORD_NAME, json.dumps(content, indent=2).encode() + b"\n")


def read_record(run: Path) -> RunRecord:
    """The run's ``run.json``.

    Raises:
        CheckpointError: There is none, it is damaged, or a newer jobrun wrote it.
    """
    try:
        content = json.loads(read_plain(run / RECORD_NAME))
    except OSError as error:
        raise CheckpointError.of(
            "E350",
            f"not a jobrun run directory: {run}",
            "name a run below --run-dir, or the path of its directory",
        ) from error
    except ValueError as error:
        raise _damaged(run, "it is not JSON") from error
    if not isinstance(content, dict) or not isinstance(content.get("format"), int):
        raise _damaged(run, "it has no format number")
    if content["format"] > FORMAT:
        raise CheckpointError.of(
            "E375",
            f"{run / RECORD_NAME} was written by jobrun {content.get('version', '(unnamed)')}, "
            "which is newer than this one",
            "use that version of jobrun, or a later one",
        )
    known = {item.name for item in fields(RunRecord)}
    values = {key: value for key, value in content.items() if key in known}
    for key in ("accepted", "resized"):
        values[key] = tuple(values.get(key, ()))
    try:
        return RunRecord(**values)
    except TypeError as error:
        raise _damaged(run, "a field is missing") from error


def _damaged(run: Path, why: str) -> CheckpointError:
    return CheckpointError.of(
        "E375",
        f"{run / RECORD_NAME} is damaged: {why}",
        "the checkpoints are not touched; put run.json back from a copy of the run",
    )
