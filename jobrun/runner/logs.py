"""A run's own record of what happened: metrics, events, and what each task said.

A listener that writes lines as they come. It never raises and never fails a run: what
cannot be written is counted, and told at the end.
"""

from __future__ import annotations

import json
import math
import threading
from collections import Counter
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from jobrun.core.errors import JobrunError
from jobrun.core.events import (
    CheckpointTimes,
    Event,
    GroupRetried,
    GroupStarted,
    Logged,
    Measured,
    NodeReplaced,
    TaskLimited,
)
from jobrun.graph.types import Job
from jobrun.runner.durable import disk_faults, write_whole
from jobrun.runner.rundir import EVENTS_NAME, METRICS_NAME

LOG_LIMIT_BYTES = 256 << 20


class RunLogs:
    """Writes into a run's ``metrics.jsonl``, ``events.jsonl`` and ``logs/``; use as a listener."""

    def __init__(self, run: Path, job: Job, generation: int = 0) -> None:
        self._run = run
        self._metrics_path = run / METRICS_NAME
        self._generation = generation
        self._lock = threading.Lock()
        self._sinks: dict[Path, _Sink] = {}
        self._metrics = self._sink(self._metrics_path)
        self._events = self._sink(run / EVENTS_NAME)
        # Where each group's own lines begin in the metrics, should they be measured again.
        self._begun: dict[str, int] = {}
        self._closed = False
        tasks = [task for group in job.groups for task in group.tasks]
        nodes = Counter(task.name for task in tasks)
        self._spread = {task.name for task in tasks if nodes[task.name] > 1}
        self._several = {task.name for task in tasks if task.instances > 1}
        self.failed_writes = 0

    def __call__(self, event: Event) -> None:
        """Write the event where it belongs. Any thread."""
        match event:
            case Logged():
                self._append(self._sink(self._log_path(event)), self._log_line(event))
            case TaskLimited():
                pass
            case Measured():
                self._append(self._metrics, event_json(event, self._generation))
            case _:
                if isinstance(event, GroupStarted):
                    self._begun[event.group] = _size_bytes(self._metrics_path)
                elif isinstance(event, GroupRetried):
                    self._drop(self._begun.get(event.group, 0))
                elif isinstance(event, NodeReplaced) and not event.records:
                    # Who goes back into an epoch has cut them there already.
                    self._go_back(event.epoch)
                line = event_json(event, self._generation)
                self._append(self._events, line)
                if isinstance(event, CheckpointTimes) and event.action == "save":
                    self._append(self._metrics, line)

    def close(self) -> None:
        """Close all files; may be called twice. Later events are dropped."""
        with self._lock:
            self._closed = True
            for sink in tuple(self._sinks.values()):
                sink.close()

    def _drop(self, start: int) -> None:
        """Set aside the metrics of an attempt that does not count."""
        with self._lock:
            try:
                _set_aside(self._run, start)
            except OSError:
                self.failed_writes += 1

    def _go_back(self, epoch: int) -> None:
        """Set aside the metrics of all epochs after this one."""
        with self._lock:
            try:
                # Another file takes the place of this one.
                self._metrics.close()
                trim_metrics(self._run, epoch)
            except (OSError, JobrunError):
                self.failed_writes += 1

    def _append(self, sink: _Sink, line: str) -> None:
        with self._lock:
            if self._closed:
                return
            try:
                sink.write(line)
            except OSError:
                self.failed_writes += 1

    def _sink(self, path: Path) -> _Sink:
        return self._sinks.get(path) or self._sinks.setdefault(path, _Sink(path))

    def _log_path(self, event: Logged) -> Path:
        instance = f".{event.instance}" if event.task in self._several else ""
        return self._run / "logs" / f"{event.task or 'job'}{instance}.log"

    def _log_line(self, event: Logged) -> str:
        node = f" {event.node}" if event.task in self._spread else ""
        return f"[{event.epoch}{node}] {event.text}"


@dataclass(slots=True)
class _Sink:
    """A file that lines are added to, up to a limit. It is opened for the first of them."""

    path: Path
    file: TextIO | None = None
    # Characters, of lines that were written here.
    written: int = 0

    def write(self, line: str) -> None:
        """Add a line.

        Raises:
            OSError: The disk says no.
        """
        if self.written > LOG_LIMIT_BYTES:
            return
        self.written += len(line) + 1
        if self.written > LOG_LIMIT_BYTES:
            line = f"(this file is full at {LOG_LIMIT_BYTES >> 20} MiB)"
        if self.file is None:
            self.path.parent.mkdir(exist_ok=True)
            # Surrogates: what a program prints need not be text.
            self.file = self.path.open(
                "a", buffering=1, encoding="utf-8", errors="backslashreplace"
            )
        self.file.write(line + "\n")

    def close(self) -> None:
        """Close the file; a later line opens it again."""
        file, self.file = self.file, None
        if file is not None:
            file.close()


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _set_aside(run: Path, start: int) -> None:
    path, aside = run / METRICS_NAME, run / "superseded" / METRICS_NAME
    if _size_bytes(path) <= start:
        return
    aside.parent.mkdir(exist_ok=True)
    with path.open("r+b") as file, aside.open("ab") as kept:
        file.seek(start)
        kept.write(file.read())
        kept.flush()
        # Whoever appends goes on at the new end.
        file.truncate(start)


def cut_metrics(run: Path, size_bytes: int) -> None:
    """Move what lies behind the first so many bytes of ``metrics.jsonl`` out of it.

    Raises:
        EnvironmentFaultError: The disk says no.
    """
    with disk_faults(f"trim {METRICS_NAME}"):
        _set_aside(run, size_bytes)


def trim_metrics(run: Path, epoch: int) -> int:
    """Move metrics of epochs later than ``epoch`` out of ``metrics.jsonl``; how many lines.

    A resumed run measures these epochs again; what the lost ones measured is kept in
    ``superseded/metrics.jsonl``. A torn last line goes with them.

    Raises:
        EnvironmentFaultError: The disk says no.
    """
    path, aside = run / METRICS_NAME, run / "superseded" / METRICS_NAME
    with disk_faults(f"trim {METRICS_NAME}"):
        try:
            lines = path.read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return 0
        kept = [line for line in lines if _epoch_of(line) <= epoch]
        if len(kept) == len(lines):
            return 0
        over = [line for line in lines if _epoch_of(line) > epoch]
        aside.parent.mkdir(exist_ok=True)
        with aside.open("ab") as file:
            file.writelines(over)
        write_whole(path, b"".join(kept))
    return len(over)


def _plain(value: Any) -> Any:
    """The JSON form of what has none: the fields of a part of an event, else its text."""
    if is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    return str(value)


# Made once: what json.dumps would make for each line takes longer than the line.
_ENCODER = json.JSONEncoder(default=_plain, ensure_ascii=False, allow_nan=False)


def event_json(event: Event, generation: int = 0) -> str:
    """An event as one line of JSON, with its name and the time; NaN and infinity as text."""
    content: dict[str, Any] = {
        "event": type(event).__name__,
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "generation": generation,
        **{name: getattr(event, name) for name in event.__dataclass_fields__},
    }
    try:
        return _ENCODER.encode(content)
    except ValueError:
        return _ENCODER.encode(_finite(content))


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become text."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if is_dataclass(value):
        return _finite(_plain(value))
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(float(value))
    return value


def _epoch_of(line: bytes) -> float:
    try:
        return int(json.loads(line)["epoch"])
    except (KeyError, TypeError, ValueError):
        return math.inf
