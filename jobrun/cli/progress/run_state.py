"""Summarise the events of a run as the state that its progress displays show."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from math import fsum

from msgspec import Struct, field

from jobrun.core.events import (
    CheckpointCommitted,
    CheckpointFailed,
    EpochEnded,
    Event,
    GroupRetried,
    GroupStarted,
    Logged,
    Measured,
    RunEnded,
    RunStarted,
    TaskEnded,
    TaskFacts,
    UsageMeasured,
)
from jobrun.core.text.terminal_text import keep_colours

# As much as a sparkline or a mean of times can use.
_HISTORY = 64
_COUNT_EVERY_S = 0.5
# The time left is not estimated by less: the first epochs of a run are not like the others.
_STEADY_S = 2.0


class TaskState(Struct, frozen=True):
    """The state of a task of the running group on one node.

    Attributes:
        state: ``waiting``, ``running``, ``ended`` or ``failed``.
        seconds: What it took, this time or, of one that has not ended, in the mean; None when not
            known.
    """

    task: str
    node: str
    state: str
    seconds: float | None


class RunState(Struct):
    """The state of one run, updated by its events.

    Attributes:
        clock: Seconds that never go back.
        metrics: The last values of each metric, oldest first.
        lines: The last lines of the log.
        first_epoch: The epoch this invocation began behind; -1 for a new run.
        epoch: The newest epoch that ended; 0 is init.
        failed_saves: How many checkpoints could not be saved.
        usage: What the run has used, by its last record.
        epoch_at: When the newest epoch ended.
        counted: How many epochs had ended at which times, a few a second of the last minute or so.
        ended_tasks: The tasks of the running group that have ended, by name and node.
        times: What each task took lately, by group, name and node.
    """

    clock: Callable[[], float] = time.monotonic
    started: RunStarted | None = None
    started_at: float = 0.0
    group: str = ""
    first_epoch: int = -1
    epoch: int = 0
    epochs_seen: int = 0
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    metrics: dict[str, deque[float | int | bool | str]] = field(default_factory=dict)
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=3))
    saved: CheckpointCommitted | None = None
    saved_at: float = 0.0
    failed_saves: int = 0
    ended: RunEnded | None = None
    usage: UsageMeasured | None = None
    epoch_at: float = 0.0
    counted: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    ended_tasks: dict[tuple[str, str], TaskEnded] = field(default_factory=dict)
    times: dict[tuple[str, str, str], deque[float]] = field(default_factory=dict)

    def update(self, event: Event) -> None:
        """Update the displayed state of the run by an event."""
        match event:
            case RunStarted():
                self.started, self.started_at = event, self.clock()
                self.first_epoch, self.epoch = event.epoch, max(event.epoch, 0)
            case GroupStarted() | GroupRetried():
                self.group, self.ended_tasks = event.group, {}
            case TaskEnded():
                self._task_ended(event)
            case Logged(printed=False):
                self.lines.append(render_log(event))
            case Measured():
                self._measured(event)
            case CheckpointCommitted():
                self.saved, self.saved_at = event, self.clock()
            case CheckpointFailed():
                self.failed_saves += 1
            case EpochEnded():
                self.epoch = event.epoch
                self.epochs_seen += 1
                self.seconds.append(event.seconds)
                self.epoch_at = self.clock()
                if not self.counted or self.epoch_at - self.counted[-1][1] >= _COUNT_EVERY_S:
                    self.counted.append((self.epochs_seen, self.epoch_at))
            case RunEnded():
                self.ended = event
            case UsageMeasured():
                self.usage = event
            case _:
                pass

    def _measured(self, event: Measured) -> None:
        # Those of steps come once per step and instance; the display is for the job's own.
        if not event.task:
            self.metrics.setdefault(event.name, deque(maxlen=_HISTORY)).append(event.value)

    @property
    def elapsed(self) -> float:
        """Return the seconds since the process of the displayed run started or resumed it."""
        return self.clock() - self.started_at if self.started else 0.0

    @property
    def remaining_s(self) -> float | None:
        """Estimate the seconds that the run in this displayed state has left; None if unknown."""
        total = self.started.total_epochs if self.started else None
        if total is None or not self.seconds:
            return None
        # From end to end, since saves and probes take time, too; counting down between the ends.
        # Over a time, not a number of epochs: of short ones a save takes as long as hundreds.
        count, since = self.counted[0]
        spread = self.epoch_at - since
        each = spread / (self.epochs_seen - count) if self.epochs_seen > count else 0.0
        each = each or _mean(self.seconds)
        if spread + each < _STEADY_S:
            return None
        begun = min(each, self.clock() - self.epoch_at)
        return max(0.0, max(0, total - self.epoch) * each - begun)

    def tasks(self) -> list[TaskState]:
        """List the displayed states of the tasks of the running group, in their order."""
        known = self.started.tasks if self.started else ()
        facts = [task for task in known if task.group == self.group]
        unended = {task.task for task in facts if (task.task, task.node) not in self.ended_tasks}
        return [self._task_state(task, unended) for task in facts]

    def _task_state(self, task: TaskFacts, unended: set[str]) -> TaskState:
        ended = self.ended_tasks.get((task.task, task.node))
        if ended is not None:
            state = "failed" if ended.failed else "ended"
            return TaskState(task.task, task.node, state, ended.seconds)
        times = self.times.get((self.group, task.task, task.node))
        # It starts as soon as those that it needs have ended, on all their nodes.
        state = "waiting" if unended & set(task.needs) else "running"
        return TaskState(task.task, task.node, state, _mean(times) if times else None)

    def _task_ended(self, event: TaskEnded) -> None:
        self.ended_tasks[event.task, event.node] = event
        key = (self.group, event.task, event.node)
        self.times.setdefault(key, deque(maxlen=_HISTORY)).append(event.seconds)

    def latest(self) -> dict[str, float | int | bool | str]:
        """Return the last value of each metric that the progress display has followed so far."""
        return {name: values[-1] for name, values in self.metrics.items()}


def render_log(event: Logged) -> str:
    """Render a task's logged text as a line of the displayed run state: ``lloyd: shift 0.02``."""
    text = keep_colours(event.text.rstrip("\n"))
    return f"{event.task}: {text}" if event.task else text


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)
