"""How a run stands, from its files alone: from another terminal, or another host."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jobrun.core.errors import JobrunError
from jobrun.runner.journal import read_journal
from jobrun.runner.lock import Owner, is_live, owner_of
from jobrun.runner.rundir import EVENTS_NAME, Run
from jobrun.tools.runs.listing import KILLED
from jobrun.tools.runs.series import Metrics, read_metrics
from jobrun.tools.runs.tags import tags_of

# The end of a long log tells how a run stands; nobody waits for the whole of it.
_TAIL_BYTES = 256 << 10
_EPOCHS_LOOKED_AT = 20


@dataclass(frozen=True, slots=True)
class Status:
    """How a run stands.

    Attributes:
        status: As ``run.json`` says; ``killed`` when it says that it runs and nobody holds it.
        owner: Who holds it; None when it does not live.
        epoch: The newest epoch that ended, as the events tell; -1 for none.
        saved: The newest epoch that was acknowledged; -1 for none.
        total_epochs: After which it ends, if it says so.
        saved_age_s: Since that save; None when there is none.
        saved_bytes: Its size; 0 when not known.
        epoch_s: How long an epoch took lately, in the mean, with what is between epochs; None when
            not known.
        group: What runs now; empty when nothing does.
        age_s: Since anything was told.
        metrics: What it measured lately.
        lines: The last lines that tasks said.
        tasks: Of the group that runs: node, task, and ``waiting``, ``running``, ``ended`` or
            ``failed``; none when nothing runs.
    """

    run: Run
    status: str
    owner: Owner | None
    epoch: int
    saved: int
    total_epochs: int | None
    saved_age_s: float | None
    saved_bytes: int
    epoch_s: float | None
    group: str
    age_s: float | None
    metrics: Metrics
    lines: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    tasks: tuple[tuple[str, str, str], ...] = ()

    @property
    def left_s(self) -> float | None:
        """Until its last epoch ends, if nothing else ends it; None when not known."""
        if self.owner is None or self.total_epochs is None or self.epoch_s is None:
            return None
        return max(0, self.total_epochs - max(self.epoch, 0)) * self.epoch_s


def status_of(run: Run, lines: int = 3) -> Status:
    """Look at a run.

    Args:
        run: The run.
        lines: How many of the last lines of its log to read.
    """
    live = is_live(run.path)
    recorded = run.record.status
    told = _Told()
    for event in _events(run.path / EVENTS_NAME):
        told.see(event)
    return Status(
        run=run,
        status="running" if live else KILLED if recorded == "running" else recorded,
        owner=owner_of(run.path) if live else None,
        epoch=max(told.epoch, _saved(run)),
        saved=_saved(run),
        total_epochs=told.total_epochs,
        saved_age_s=_age_s(told.saved_at),
        saved_bytes=told.saved_bytes,
        epoch_s=told.epoch_s,
        group=told.group if live else "",
        age_s=_age_s(told.last_at),
        metrics=read_metrics(run.path, _TAIL_BYTES),
        lines=tuple(_last_lines(run.path / "logs", lines)),
        tags=tags_of(run.path),
        tasks=tuple(told.tasks()) if live else (),
    )


@dataclass(slots=True)
class _Told:
    """What the events tell."""

    epoch: int = -1
    total_epochs: int | None = None
    saved_at: str = ""
    saved_bytes: int = 0
    group: str = ""
    last_at: str = ""
    seconds: list[float] = field(default_factory=list)
    facts: list[Mapping[str, Any]] = field(default_factory=list)
    ends: dict[tuple[str, str], bool] = field(default_factory=dict)
    epochs_at: list[datetime] = field(default_factory=list)

    @property
    def epoch_s(self) -> float | None:
        """From end to end, since saves and probes take time, too; of a single epoch, it alone."""
        if not self.seconds:
            return None
        spread = (self.epochs_at[-1] - self.epochs_at[0]).total_seconds()
        return max(sum(self.seconds) / len(self.seconds), spread / max(1, len(self.epochs_at) - 1))

    def see(self, event: Mapping[str, Any]) -> None:
        """Take one event in."""
        self.last_at = event.get("time", "")
        match event.get("event"):
            case "RunStarted":
                self.epoch, self.total_epochs = event["epoch"], event["total_epochs"]
                self.seconds.clear()
                self.epochs_at.clear()
                self.facts = event.get("tasks", [])
            case "GroupStarted" | "GroupRetried":
                self.group, self.ends = event["group"], {}
            case "GroupEnded":
                self.group = ""
            case "TaskEnded":
                self.ends[event["node"], event["task"]] = event["failed"]
            case "CheckpointCommitted":
                self.saved_at, self.saved_bytes = event["time"], event["size_bytes"]
            case "EpochEnded":
                self.epoch = event["epoch"]
                self.seconds = [*self.seconds, event["seconds"]][-_EPOCHS_LOOKED_AT:]
                at = datetime.fromisoformat(event["time"])
                self.epochs_at = [*self.epochs_at, at][-_EPOCHS_LOOKED_AT:]
            case _:
                pass

    def tasks(self) -> Iterator[tuple[str, str, str]]:
        """How the tasks of the group stand that runs."""
        facts = [one for one in self.facts if one["group"] == self.group]
        left = {one["task"] for one in facts if (one["node"], one["task"]) not in self.ends}
        for one in facts:
            failed = self.ends.get((one["node"], one["task"]))
            # A task starts as soon as those that it needs have ended, on all their nodes.
            going = "waiting" if left & set(one["needs"]) else "running"
            state = going if failed is None else "failed" if failed else "ended"
            yield one["node"], one["task"], state


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """The start of the last invocation, if it is not within the tail, and the tail."""
    data = _tail(path)
    found = []
    for line in data:
        try:
            event = json.loads(line)
        except ValueError:
            # The first is cut off by the limit, the last may be half written.
            continue
        if isinstance(event, dict):
            found.append(event)
    if not any(event.get("event") == "RunStarted" for event in found):
        yield from _last_start(path)
    yield from found


def _tail(path: Path) -> list[bytes]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            return file.read().splitlines()
    except OSError:
        return []


def _last_start(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            starts = [line for line in file if b'"RunStarted"' in line[:64]]
    except OSError:
        return []
    return [json.loads(starts[-1])] if starts else []


def _saved(run: Run) -> int:
    try:
        return read_journal(run.path, run.record.run_id).newest
    except JobrunError:
        return run.record.epoch


def _last_lines(logs: Path, count: int) -> list[str]:
    """The last lines of the log that was written last."""
    try:
        files = sorted(logs.glob("*.log"), key=lambda path: path.stat().st_mtime_ns)
    except OSError:
        return []
    if not files or not count:
        return []
    name = files[-1].stem
    lines = [line.decode(errors="backslashreplace") for line in _tail(files[-1])[-count:]]
    return [f"{name} {line}" for line in lines]


def _age_s(time: str) -> float | None:
    if not time:
        return None
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds())
