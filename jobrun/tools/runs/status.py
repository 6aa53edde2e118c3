"""Determine the status of a run from its files alone, from another process or host."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from msgspec import Struct, field

from jobrun.core.errors import CheckpointError, JobrunError
from jobrun.core.events import (
    CheckpointCommitted,
    EpochEnded,
    Event,
    GroupEnded,
    GroupRetried,
    GroupStarted,
    RunStarted,
    TaskEnded,
    TaskFacts,
)
from jobrun.core.files.json_files import find_last_line, read_tail
from jobrun.runner.rundir.journal import read_journal
from jobrun.runner.rundir.lock import Owner, is_live, owner_of
from jobrun.runner.rundir.logs import LostLines, RecordedEvent, read_events, read_losses
from jobrun.runner.rundir.lost_epochs import describe_lost_epochs
from jobrun.runner.rundir.run_directories import EVENTS_NAME, METRICS_NAME, Run
from jobrun.runner.rundir.run_json import KILLED
from jobrun.tools.runs.metrics import Metrics, find_gaps, read_last_values, read_metrics
from jobrun.tools.runs.recorded_usage import RunUsage, read_total_usage
from jobrun.tools.runs.tag_and_remove_runs import read_tags

# The end of a long log shows the status of a run, and reading all of it would be slow.
_TAIL_BYTES = 256 << 10
_EPOCHS_LOOKED_AT, _TIME_LOOKED_AT_S = 20, 30.0
_START = b'"event": "RunStarted"'
# Between the ends of two epochs: so many times as long as was measured, and so much more.
_LONGEST_GAP, _LONGEST_GAP_S = 10.0, 30.0


class Status(Struct, frozen=True):
    """The status of a run.

    Attributes:
        status: As ``run.json`` says; ``killed`` when it says that it runs but its lock is free.
        owner: Who holds it; None when it does not live.
        epoch: The newest epoch that ended, by the events; -1 for none.
        saved: The newest epoch that was acknowledged; -1 for none.
        total_epochs: After which it ends, if it says so.
        saved_age_s: Since that save; None when there is none.
        saved_bytes: Its size; 0 when not known.
        epoch_s: How long an epoch took lately, in the mean, with what is between epochs; None when
            not known.
        group: What runs now; empty when nothing does.
        age_s: Since anything was summary.
        metrics: What it measured lately.
        lines: The last lines that tasks said.
        tasks: Of the group that runs: node, task, and ``waiting``, ``running``, ``ended`` or
            ``failed``; none when nothing runs.
        lost: Lines that were not written, by file.
        faults: Which of its files could not be read, in words.
        usage: What it has used, over all of its starts.
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
    lost: Mapping[str, LostLines] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    usage: RunUsage = RunUsage()

    def __repr__(self) -> str:
        """Show a run's ``Status`` in one line: status and epochs, without its many metrics."""
        saved = f", epoch {self.saved} saved" if self.saved >= 0 else ""
        return f"<Status of {self.run.name}: {self.status}, epoch {self.epoch}{saved}>"

    @property
    def left_s(self) -> float | None:
        """Estimate the seconds until the run of this status ends; None if that is unknown."""
        if self.owner is None or self.total_epochs is None or self.epoch_s is None:
            return None
        return max(0, self.total_epochs - max(self.epoch, 0)) * self.epoch_s


def read_status(run: Run, lines: int = 3) -> Status:
    """Determine the status of a run from its record, lock and event log.

    Args:
        run: The run.
        lines: How many of the last lines of its log to read.
    """
    live = is_live(run.path)
    recorded = run.record.status
    summary = _EventSummary()
    faults: list[str] = []
    with _noting(run.path / EVENTS_NAME, faults):
        for event in _events(run.path / EVENTS_NAME):
            summary.see(event)
    metrics = Metrics((), ())
    with _noting(run.path / METRICS_NAME, faults):
        metrics = read_metrics(run.path, _TAIL_BYTES)
        if damaged := read_last_values(run.path)[1]:
            faults.append(
                f"lines of {METRICS_NAME} that cannot be read and are left out: {damaged}"
            )
        faults += map(str, find_gaps(run))
    if _saved(run) >= 0 and not _has_lines(run.path / EVENTS_NAME):
        faults.append(f"{EVENTS_NAME} is gone or empty, although epoch {_saved(run)} was saved")
    with _noting(run.path, faults):
        if lost := describe_lost_epochs(run, lambda: _list_epochs(run)):
            faults.append(lost)
    last_lines: list[str] = []
    with _noting(run.path / "logs", faults):
        last_lines = _last_lines(run.path / "logs", lines)
    return Status(
        run=run,
        status="running" if live else KILLED if recorded == "running" else recorded,
        owner=owner_of(run.path) if live else None,
        epoch=max(summary.epoch, _saved(run)),
        saved=_saved(run),
        total_epochs=summary.total_epochs,
        saved_age_s=_age_s(summary.saved_at),
        saved_bytes=summary.saved_bytes,
        epoch_s=summary.epoch_s,
        group=summary.group if live else "",
        age_s=_age_s(summary.last_at),
        metrics=metrics,
        lines=tuple(last_lines),
        tags=read_tags(run.path),
        tasks=tuple(summary.tasks()) if live else (),
        lost=read_losses(run.path),
        faults=tuple(faults),
        usage=read_total_usage(run.path),
    )


@contextlib.contextmanager
def _noting(path: Path, faults: list[str]) -> Iterator[None]:
    """Add to a run's status which of its files could not be read, and why."""
    try:
        yield
    except FileNotFoundError:
        pass
    except OSError as error:
        faults.append(f"cannot read {error.filename or path}: {error.strerror or error}")
    except CheckpointError as error:
        faults += [fault.message for fault in error.faults]


class _EventSummary(Struct):
    """The state of a live run, summarised from its event log."""

    epoch: int = -1
    total_epochs: int | None = None
    saved_at: datetime | None = None
    saved_bytes: int = 0
    group: str = ""
    last_at: datetime | None = None
    seconds: list[float] = field(default_factory=list)
    facts: tuple[TaskFacts, ...] = ()
    has_failed: dict[tuple[str, str], bool] = field(default_factory=dict)
    epoch_at: datetime | None = None
    # From the end of an epoch to that of the next one.
    gaps_s: list[float] = field(default_factory=list)
    saving_s: float = 0.0

    @property
    def epoch_s(self) -> float | None:
        """Return the mean seconds per epoch, with saves, for the time left in the status."""
        if not self.seconds:
            return None
        computing_s = _mean_of_newest(self.seconds)
        return max(computing_s, _mean_of_newest(self.gaps_s)) if self.gaps_s else computing_s

    def see(self, record: RecordedEvent[Event]) -> None:
        """Update the summarised status of a run by one event."""
        self.last_at = record.at
        match record.event:
            case RunStarted() as event:
                self.epoch, self.total_epochs = event.epoch, event.total_epochs
                self.seconds.clear()
                self.gaps_s.clear()
                self.epoch_at = None
                self.facts = event.tasks
            case GroupStarted() | GroupRetried() as event:
                self.group, self.has_failed = event.group, {}
            case GroupEnded():
                self.group = ""
            case TaskEnded() as event:
                self.has_failed[event.node, event.task] = event.failed
            case CheckpointCommitted() as event:
                self.saved_at, self.saved_bytes = record.at, event.size_bytes
                self.saving_s += event.seconds
            case EpochEnded() as event:
                self.epoch = event.epoch
                self.seconds.append(event.seconds)
                self._end_epoch(record.at, event.seconds)
            case _:
                pass

    def _end_epoch(self, at: datetime, seconds: float) -> None:
        """Add an epoch's end to the summary of events from which a run's status is computed.

        A span that is negative, or many times what was measured with a monotonic clock, was none.
        """
        measured_s, self.saving_s = seconds + self.saving_s, 0.0
        if self.epoch_at is not None:
            gap_s = (at - self.epoch_at).total_seconds()
            is_span = 0.0 <= gap_s <= _LONGEST_GAP * measured_s + _LONGEST_GAP_S
            self.gaps_s.append(gap_s if is_span else measured_s)
        self.epoch_at = at

    def tasks(self) -> Iterator[tuple[str, str, str]]:
        """Yield for a run's status the newest group's tasks: waiting, running, ended or failed."""
        facts = [task for task in self.facts if task.group == self.group]
        unended = {task.task for task in facts if (task.node, task.task) not in self.has_failed}
        for task in facts:
            failed = self.has_failed.get((task.node, task.task))
            # A task starts as soon as those that it needs have ended, on all their nodes.
            going = "waiting" if unended & set(task.needs) else "running"
            state = going if failed is None else "failed" if failed else "ended"
            yield task.node, task.task, state


def _mean_of_newest(spans_s: list[float]) -> float:
    """Average the newest time spans for a run's status; include more spans if they are short.

    A save takes as long as hundreds of short epochs, and comes after as many.
    """
    count, sum_s = 0, 0.0
    for span_s in reversed(spans_s):
        if count >= _EPOCHS_LOOKED_AT and sum_s >= _TIME_LOOKED_AT_S:
            break
        count, sum_s = count + 1, sum_s + span_s
    return sum_s / count


def _events(path: Path) -> Iterator[RecordedEvent[Event]]:
    """Read the events that decide a run's status: its last start, and the end of the log."""
    lines = read_tail(path, _TAIL_BYTES)
    if not any(_START in line[:64] for line in lines):
        lines.insert(0, find_last_line(path, _START))
    return read_events(lines)


def _has_lines(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _list_epochs(run: Run) -> tuple[int, ...]:
    """List the epochs of a run, for its status; numpy is imported only if they are elsewhere."""
    inside = run.epochs_inside
    if inside or _saved(run) < 0:
        return inside
    epochs: tuple[int, ...] = import_module("jobrun.tools.inspection").stored_epochs(run)
    return epochs


def _saved(run: Run) -> int:
    try:
        return read_journal(run.path, run.record.run_id).newest
    except JobrunError:
        return run.record.epoch


def _last_lines(logs: Path, count: int) -> list[str]:
    """Read the last lines of the newest task log, which the ``Status`` of a run quotes.

    Raises:
        OSError: It is no regular file, or cannot be read.
    """
    try:
        files = sorted(logs.glob("*.log"), key=lambda path: path.lstat().st_mtime_ns)
    except OSError:
        return []
    if not files or not count:
        return []
    name = files[-1].stem
    tail = read_tail(files[-1], _TAIL_BYTES)[-count:]
    return [f"{name} {line.decode(errors='backslashreplace')}" for line in tail]


def _age_s(at: datetime | None) -> float | None:
    return None if at is None else max(0.0, (datetime.now(UTC) - at).total_seconds())
