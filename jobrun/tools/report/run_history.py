"""Reconstruct the history of a run: invocations, epochs, saves and times, from its events; forks.

The forks are the ancestors that it was forked from, and the children forked from it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from jobrun.core.errors import CheckpointError
from jobrun.core.events import (
    CheckpointCommitted,
    CheckpointFailed,
    CheckpointSkipped,
    CheckpointTimes,
    EpochEnded,
    Event,
    GroupEnded,
    GroupRetried,
    Noted,
    RunEnded,
    RunStarted,
    TaskEnded,
)
from jobrun.core.files.json_files import read_lines
from jobrun.runner.rundir.logs import EVENTS, RecordedEvent, read_events
from jobrun.runner.rundir.run_directories import EVENTS_NAME, Run, open_run, runs

KILLED, RUNNING = "killed", "running"
# The longest kind, of which nothing is wanted, is not parsed.
_WANTED = tuple(kind for kind in EVENTS if kind is not CheckpointTimes)

_MOST_FORKS = 20


class Invocation(Struct, frozen=True):
    """One process's part of a run's history, in seconds since 1970.

    Attributes:
        before: The epoch it went on from; -1 for a new run.
        epoch: The last epoch it ended; ``before`` for none.
        outcome: ``finished``, ``stopped``, ``interrupted``, ``failed``; ``killed`` when it ended
            without a word, ``running`` when it lives.
    """

    started: float
    ended: float
    before: int
    epoch: int
    generation: int
    outcome: str = KILLED
    reason: str = ""


class Epoch(Struct, frozen=True):
    """An epoch that ended, at a time; one may have been run again in a later generation."""

    epoch: int
    at: float
    seconds: float
    generation: int


class Saved(Struct, frozen=True):
    """A checkpoint that became durable, at a time."""

    epoch: int
    at: float
    size_bytes: int
    seconds: float


class TaskTime(Struct, frozen=True):
    """The total time of one task on one node."""

    task: str
    node: str
    runs: int = 0
    seconds: float = 0.0
    longest_s: float = 0.0
    failed: int = 0


class Notice(Struct, frozen=True):
    """An event of a run that a reader of its report should know."""

    at: float
    epoch: int
    words: str


class History(Struct, frozen=True):
    """The history of a run; ``tasks``: the longest first; ``groups``: seconds each."""

    invocations: tuple[Invocation, ...] = ()
    epochs: tuple[Epoch, ...] = ()
    saves: tuple[Saved, ...] = ()
    tasks: tuple[TaskTime, ...] = ()
    groups: tuple[tuple[str, float], ...] = ()
    notices: tuple[Notice, ...] = ()
    total_epochs: int | None = None


def read_history(run: Path, *, live: bool) -> History:
    """Reconstruct a run's history from its log of events, skipping lines that cannot be parsed.

    Args:
        run: The run's directory.
        live: Whether its last invocation lives.
    """
    seen = _Seen()
    with contextlib.suppress(OSError):
        for record in read_events(read_lines(run / EVENTS_NAME), _WANTED):
            seen.see(record)
    return seen.history(live=live)


class _Seen(Struct):
    invocations: list[Invocation] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)
    saves: list[Saved] = field(default_factory=list)
    tasks: dict[tuple[str, str], TaskTime] = field(default_factory=dict)
    groups: dict[str, float] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    total_epochs: int | None = None
    latest: datetime | None = None

    def see(self, record: RecordedEvent[Event]) -> None:
        """Update the history of a run, which a report reconstructs, with a recorded event."""
        match record.event:
            case RunStarted() as event:
                self._end()
                at = record.at.timestamp()
                self.total_epochs = event.total_epochs
                self.invocations.append(
                    Invocation(at, at, event.epoch, event.epoch, record.generation)
                )
            case CheckpointFailed() | CheckpointSkipped() | GroupRetried() | Noted() as event:
                # The first words of the next process come before its start: they end none.
                self._notice(event, record.at.timestamp())
            case _:
                self._happened(record)
                self.latest = record.at

    def _happened(self, record: RecordedEvent[Event]) -> None:
        match record.event:
            # These are by far the most; their times are only added up.
            case TaskEnded() as event:
                self._task(event)
            case EpochEnded() as event:
                at = record.at.timestamp()
                self.epochs.append(Epoch(event.epoch, at, event.seconds, record.generation))
                self._last(epoch=event.epoch)
            case CheckpointCommitted() as event:
                at = record.at.timestamp()
                self.saves.append(Saved(event.epoch, at, event.size_bytes, event.seconds))
            case GroupEnded() as event:
                self.groups[event.group] = self.groups.get(event.group, 0.0) + event.seconds
            case RunEnded() as event:
                self._last(outcome=event.outcome, reason=event.reason)
            case _:
                pass

    def history(self, *, live: bool) -> History:
        """Build the history of a run from the recorded events that were seen."""
        self._end()
        if live and self.invocations and self.invocations[-1].outcome == KILLED:
            self._last(outcome=RUNNING)
        tasks = sorted(self.tasks.values(), key=lambda task: -task.seconds)
        return History(
            tuple(self.invocations),
            tuple(self.epochs),
            tuple(self.saves),
            tuple(tasks),
            tuple(self.groups.items()),
            tuple(self.notices),
            self.total_epochs,
        )

    def _end(self) -> None:
        if self.latest:
            self._last(ended=self.latest.timestamp())
            self.latest = None

    def _last(self, **changes: Any) -> None:
        if self.invocations:
            self.invocations[-1] = replace(self.invocations[-1], **changes)

    def _task(self, event: TaskEnded) -> None:
        key = (event.task, event.node)
        was = self.tasks.get(key) or TaskTime(*key)
        self.tasks[key] = TaskTime(
            *key,
            was.runs + 1,
            was.seconds + event.seconds,
            max(was.longest_s, event.seconds),
            was.failed + event.failed,
        )

    def _notice(
        self, event: CheckpointFailed | CheckpointSkipped | GroupRetried | Noted, at: float
    ) -> None:
        epoch = self.invocations[-1].epoch if self.invocations else -1
        match event:
            case CheckpointFailed():
                words = f"saving epoch {event.epoch} failed: {event.reason}"
            case CheckpointSkipped():
                words = f"epoch {event.epoch} was found unusable: {event.reason}"
            case GroupRetried():
                words = f"{event.group} failed in epoch {event.epoch} and ran again"
            case Noted() if event.level == "warning":
                words = event.text
            case _:
                return
        self.notices.append(Notice(at, epoch, words))


class Link(Struct, frozen=True):
    """A fork: which run, from which epoch of its parent, with which blobs (empty: all)."""

    run: str
    epoch: int
    blobs: tuple[str, ...] = ()


def ancestors(run: Run) -> tuple[Link, ...]:
    """Find the ancestors of a fork: its parent, its parent's parent, and so on."""
    return tuple(_upwards(run))


def children(run: Run) -> tuple[Link, ...]:
    """Find the children of a run, the forks made from it, oldest first."""
    others = runs(run.path.parent.parent, run.record.job)
    forks = [other for other in others if other.record.parent.get("run_id") == run.record.run_id]
    return tuple(_link(child.name, child.record.parent) for child in forks[:_MOST_FORKS])


def _upwards(run: Run) -> Iterator[Link]:
    seen = {run.record.run_id}
    while run.record.parent and len(seen) <= _MOST_FORKS:
        parent = run.record.parent
        yield _link(str(parent.get("run")), parent)
        if parent.get("run_id") in seen:
            return
        seen.add(str(parent.get("run_id")))
        above = _parent(run)
        if above is None:
            return
        run = above


def _parent(run: Run) -> Run | None:
    """Find a run's parent in the fork lineage, if the parent's directory has not moved."""
    path = Path(run.path, str(run.record.parent.get("checkpoints", ""))).parent
    try:
        parent = open_run(path.resolve())
    except CheckpointError:
        return None
    return parent if parent.record.run_id == run.record.parent.get("run_id") else None


def _link(run: str, parent: Mapping[str, Any]) -> Link:
    epoch = parent.get("epoch")
    return Link(run, epoch if isinstance(epoch, int) else -1, tuple(parent.get("blobs") or ()))
