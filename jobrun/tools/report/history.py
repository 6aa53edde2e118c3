"""What happened in a run, from its events: invocations, epochs, saves, times. Draws nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from jobrun.runner.rundir import EVENTS_NAME

KILLED, RUNNING = "killed", "running"
_NOTICES = frozenset({"CheckpointFailed", "CheckpointSkipped", "GroupRetried", "Noted"})


@dataclass(frozen=True, slots=True)
class Invocation:
    """One process's part of a run. Times are seconds since 1970.

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


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch that ended, at a time; one may have been run again in a later generation."""

    epoch: int
    at: float
    seconds: float
    generation: int


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint that became durable, at a time."""

    epoch: int
    at: float
    size_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class TaskTime:
    """All runs of one task on one node."""

    task: str
    node: str
    runs: int = 0
    seconds: float = 0.0
    longest_s: float = 0.0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a reader of the run should know."""

    at: float
    epoch: int
    words: str


@dataclass(frozen=True, slots=True)
class History:
    """What happened, in order; ``tasks`` by time, the longest first; ``groups``: seconds each."""

    invocations: tuple[Invocation, ...] = ()
    epochs: tuple[Epoch, ...] = ()
    saves: tuple[Saved, ...] = ()
    tasks: tuple[TaskTime, ...] = ()
    groups: tuple[tuple[str, float], ...] = ()
    notices: tuple[Notice, ...] = ()
    total_epochs: int | None = None


def read_history(run: Path, *, live: bool) -> History:
    """What happened in a run. A line that is torn or foreign is left out.

    Args:
        run: The run's directory.
        live: Whether its last invocation lives.
    """
    seen = _Seen()
    for event in _events(run / EVENTS_NAME):
        try:
            seen.see(event)
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
    return seen.history(live=live)


@dataclass(slots=True)
class _Seen:
    invocations: list[Invocation] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)
    saves: list[Saved] = field(default_factory=list)
    tasks: dict[tuple[str, str], TaskTime] = field(default_factory=dict)
    groups: dict[str, float] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    total_epochs: int | None = None
    latest: str = ""

    def see(self, event: Mapping[str, Any]) -> None:
        """Take one event in."""
        kind = event["event"]
        if kind == "RunStarted":
            self._end()
            at, before = _seconds(event["time"]), int(event["epoch"])
            self.total_epochs = event["total_epochs"]
            self.invocations.append(Invocation(at, at, before, before, int(event["generation"])))
        elif kind in _NOTICES:
            # The first words of the next process come before its start: they end none.
            self._notice(event, _seconds(event["time"]))
        else:
            self._happened(kind, event)
            self.latest = str(event["time"])

    def _happened(self, kind: str, event: Mapping[str, Any]) -> None:
        match kind:
            # By far the most; their times are not looked at one by one.
            case "TaskEnded":
                self._task(event)
            case "EpochEnded":
                epoch, seconds = int(event["epoch"]), float(event["seconds"])
                at = _seconds(event["time"])
                self.epochs.append(Epoch(epoch, at, seconds, int(event["generation"])))
                self._last(epoch=epoch)
            case "CheckpointCommitted":
                size_bytes, seconds = int(event["size_bytes"]), float(event["seconds"])
                at = _seconds(event["time"])
                self.saves.append(Saved(int(event["epoch"]), at, size_bytes, seconds))
            case "GroupEnded":
                group = str(event["group"])
                self.groups[group] = self.groups.get(group, 0.0) + float(event["seconds"])
            case "RunEnded":
                self._last(outcome=str(event["outcome"]), reason=str(event["reason"]))
            case _:
                pass

    def history(self, *, live: bool) -> History:
        """All of it."""
        self._end()
        if live and self.invocations and self.invocations[-1].outcome == KILLED:
            self._last(outcome=RUNNING)
        tasks = sorted(self.tasks.values(), key=lambda one: -one.seconds)
        return History(
            tuple(self.invocations), tuple(self.epochs), tuple(self.saves), tuple(tasks),
            tuple(self.groups.items()), tuple(self.notices), self.total_epochs,
        )  # fmt: skip

    def _end(self) -> None:
        if self.latest:
            self._last(ended=_seconds(self.latest))
            self.latest = ""

    def _last(self, **changes: Any) -> None:
        if self.invocations:
            self.invocations[-1] = replace(self.invocations[-1], **changes)

    def _task(self, event: Mapping[str, Any]) -> None:
        key, seconds = (str(event["task"]), str(event["node"])), float(event["seconds"])
        was = self.tasks.get(key) or TaskTime(*key)
        self.tasks[key] = TaskTime(
            *key, was.runs + 1, was.seconds + seconds, max(was.longest_s, seconds),
            was.failed + bool(event["failed"]),
        )  # fmt: skip

    def _notice(self, event: Mapping[str, Any], at: float) -> None:
        epoch = self.invocations[-1].epoch if self.invocations else -1
        match event["event"]:
            case "CheckpointFailed":
                words = f"saving epoch {event['epoch']} failed: {event['reason']}"
            case "CheckpointSkipped":
                words = f"epoch {event['epoch']} was found unusable: {event['reason']}"
            case "GroupRetried":
                words = f"{event['group']} failed in epoch {event['epoch']} and ran again"
            case "Noted" if event["level"] == "warning":
                words = str(event["text"])
            case _:
                return
        self.notices.append(Notice(at, epoch, words))


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def _events(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        with path.open("rb") as file:
            for line in file:
                # The longest kind, of which nothing is wanted.
                if b'"CheckpointTimes"' in line[:40]:
                    continue
                try:
                    event = json.loads(line.decode())
                except ValueError:
                    continue
                if isinstance(event, dict):
                    yield event
    except OSError:
        return
