"""Account for the time of a run and what its processes use; record both with the epochs.

``TimeAccount`` is a stopwatch with one row running at any time, so that the rows add up to the wall
time. ``UsageRecorder`` listens to the events of a start and emits ``UsageMeasured``.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable

from jobrun.core.events import (
    EpochEnded,
    Event,
    GroupEnded,
    Listener,
    ProcessMeasured,
    TaskEnded,
    TaskWaited,
    UsageMeasured,
)
from jobrun.core.resource_usage import CostBudget, MemoryWatch, ProcessUse, measure_process
from jobrun.core.time_use import TimeRow, TimeUse
from jobrun.graph.checkpoint_policy import WAIT_SHARE
from jobrun.graph.readers import ReadRecords
from jobrun.graph.types import Job

_DIGITS = 6


class TimeAccount:
    """Divides the wall time of one start of a run among the rows of ``TimeUse``.

    The loop's thread switches between rows. What tasks wait for within a group is moved from
    ``computing`` when the group has ended: for each node the part of its time in which no task of
    it ran (while other nodes' did), and of the rest the part that its threads spent waiting; in
    the mean over the nodes.

    Args:
        started: When the start began, by the clock; it is in the row ``startup`` until ``switch``.
        clock: Gives the present time in seconds.
    """

    def __init__(
        self, started: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._row: TimeRow = "startup"
        self._at = clock() if started is None else started
        self._spent: dict[TimeRow, float] = {"startup": 0.0, "computing": 0.0}
        self._ended: list[tuple[str, str, float, float]] = []
        self._waits: list[TaskWaited] = []

    def switch(self, row: TimeRow) -> TimeRow:
        """Switch the time account to another category (``saves``); return the earlier one."""
        now, before = self._clock(), self._row
        self._spent[before] = self._spent.get(before, 0.0) + now - self._at
        self._row, self._at = row, now
        return before

    def move(self, row: TimeRow, seconds: float) -> None:
        """Move seconds from ``computing`` to another category of the time account.

        Can be called from any thread.
        """
        self._spent[row] = self._spent.get(row, 0.0) + seconds
        self._spent["computing"] -= seconds

    def see(self, event: TaskEnded | TaskWaited) -> None:
        """Record in the time account when a task of the running group ended or waited.

        Can be called from any thread.
        """
        if isinstance(event, TaskWaited):
            self._waits.append(event)
        else:
            self._ended.append((event.node, event.task, self._clock(), event.seconds))

    def begin_group(self) -> None:
        """Begin a task group in the time account: forget the times of earlier tasks."""
        self._ended, self._waits = [], []

    def end_group(self, seconds: float) -> None:
        """Move seconds that a group's tasks waited out of the time account's ``computing``."""
        ended, waits = self._ended, self._waits
        if self._row != "computing" or (len(ended) == 1 and not waits):
            return
        nodes = dict[str, list[tuple[str, float, float]]]()
        for node, task, at, taken_s in ended:
            nodes.setdefault(node, []).append((task, at, taken_s))
        waited = dict[str, dict[str, TaskWaited]]()
        for wait in waits:
            waited.setdefault(wait.node, {})[wait.task] = wait
        data_s = nodes_s = 0.0
        for node, tasks in nodes.items():
            busy_s = min(seconds, _union_s((at - taken_s, at) for _, at, taken_s in tasks))
            data, peers = _waiting_parts(
                [(task, taken_s) for task, _, taken_s in tasks], waited.get(node, {})
            )
            data_s += data * busy_s
            nodes_s += peers * busy_s + (seconds - busy_s if len(nodes) > 1 else 0.0)
        if data_s:
            self.move("data", data_s / len(nodes))
        if nodes_s:
            self.move("nodes", nodes_s / len(nodes))

    def times(self) -> TimeUse:
        """Return the seconds so far in each category of the time account, such as ``saves``.

        Can be called from any thread.
        """
        spent = dict(self._spent)
        spent[self._row] = spent.get(self._row, 0.0) + self._clock() - self._at
        return TimeUse(**{row: round(seconds, _DIGITS) for row, seconds in spent.items()})


def _union_s(spans: Iterable[tuple[float, float]]) -> float:
    """Return how many seconds are covered by at least one of these time spans."""
    total, reached = 0.0, -math.inf
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


_NO_WAIT = TaskWaited("", "", 0)


def _waiting_parts(
    ended: list[tuple[str, float]], waits: dict[str, TaskWaited]
) -> tuple[float, float]:
    """Return the fractions of a node's time spent waiting for data and for other nodes.

    A thread that waits for another task of its node does not count: that one runs.
    """
    whole = sum(seconds for task, seconds in ended if task not in waits)
    data = peers = 0.0
    for task, seconds in ended:
        waited = waits.get(task, _NO_WAIT)
        whole += max(0.0, seconds * waited.threads - waited.queue_s)
        data += waited.data_s
        peers += waited.nodes_s
    whole = max(whole, data + peers)
    return (data / whole, peers / whole) if whole else (0.0, 0.0)


class UsageRecorder:
    """Gathers what a start of a run uses from its events, and records it with the epochs.

    A record is made after each epoch, unless that would cost more than a quarter of a percent of
    the time: then as often as keeps it under that. One more is made within an epoch when memory
    has grown, and the last one by ``close``.

    Args:
        emit: Receives ``UsageMeasured`` and all other events.
        account: Where the time goes.
        before: The last record of the run's earlier starts; None for none.
        job: The job, for advice.
    """

    def __init__(
        self, emit: Listener, account: TimeAccount, before: UsageMeasured | None, job: Job
    ) -> None:
        self._emit = emit
        self._account = account
        self._job = job
        self._started = round(time.time() - account.times().total_s, 3)
        self._before = before.before.add(before.times) if before else TimeUse()
        self._starts = before.starts + 1 if before else 1
        self._epoch = -1
        self._budget = CostBudget()
        self._others: dict[str, ProcessUse] = {}
        self._lock = threading.Lock()
        self._is_closed = False
        self._watch = MemoryWatch(lambda: self._record(within=True))

    def listen(self, event: Event) -> None:
        """Add an event's time and usage to the run's account; pass the event on.

        Can be called from any thread.
        """
        match event:
            case TaskEnded():
                self._account.see(event)
            case TaskWaited():
                self._account.see(event)
                return
            case ProcessMeasured():
                self._others[event.use.node] = event.use
                if event.grown:
                    self._record(within=True)
                return
            case _:
                pass
        self._emit(event)
        if isinstance(event, EpochEnded) or (isinstance(event, GroupEnded) and not event.epoch):
            self._epoch = event.epoch
            if self._budget.is_due:
                self._record()

    def close(self) -> None:
        """Record once the time and resources that the run used since it started or resumed."""
        self._watch.close()
        if not self._is_closed:
            self._is_closed = True
            self._record()

    def _record(self, *, within: bool = False) -> None:
        with self._lock:
            began = self._budget.cost_clock()
            times = self._account.times()
            # trainer_2 before trainer_10.
            others = sorted(self._others.items(), key=lambda entry: (len(entry[0]), entry[0]))
            processes = (measure_process(), *(use for _, use in others))
            self._emit(
                UsageMeasured(
                    self._epoch,
                    self._started,
                    self._starts,
                    times,
                    self._before,
                    processes,
                    within,
                    advise(times, self._job),
                )
            )
            self._budget.spend(began)


# Less than this is not worth a change of the spec.
_LOST_PART, _LOST_S = 0.1, 2.0
_INTERVALS_S = (1200, 1800, 3600, 7200, 14400)


def advise(times: TimeUse, job: Job) -> str:
    """Return advice on the wait that takes most of a run's time; empty if under a tenth.

    Args:
        times: The account of the time.
        job: The job that was run.
    """
    losses = {
        "saves": times.saves,
        "data": times.data,
        "nodes": times.nodes,
        "upload": times.upload,
    }
    row, lost_s = max(losses.items(), key=lambda loss: loss[1])
    total_s = times.total_s
    if lost_s <= _LOST_PART * total_s or lost_s < _LOST_S:
        return ""
    match row:
        case "saves":
            mend = _save_advice(job, lost_s, total_s)
        case "data":
            mend = _data_advice(job)
        case "nodes":
            mend = "divide the work more evenly among the nodes, or give a run fewer of them"
        case _:
            mend = "write checkpoint: {upload: {when: end}}, so that only the last epoch is sent"
            if job.checkpoint.upload is None or job.checkpoint.upload.when == "end":
                mend = "write checkpoint: {compression: deflate}, so that there is less to send"
    label = {"saves": "saves", "data": "data", "nodes": "nodes", "upload": "uploads"}[row]
    return f"{lost_s / total_s:.0%} of the time was spent waiting for {label}: {mend}"


def _save_advice(job: Job, lost_s: float, total_s: float) -> str:
    policy = job.checkpoint
    if not policy.is_automatic:
        return "write checkpoint: {every: auto}, which keeps it under 5 %"
    # It saves every 10 minutes whatever that costs, so a save takes more than 30 s.
    wanted_s = 600 * lost_s / (WAIT_SHARE * total_s)
    every_s = next(
        (interval_s for interval_s in _INTERVALS_S if interval_s >= wanted_s), _INTERVALS_S[-1]
    )
    every = f"{every_s // 3600}h" if every_s >= 3600 else f"{every_s // 60}m"
    return f"write checkpoint: {{every: {every}}}, so that a kill loses at most {every} of work"


def _data_advice(job: Job) -> str:
    readers = [task.read.reader for task in job.epoch.tasks if isinstance(task.read, ReadRecords)]
    if not readers:
        return "read less, or in larger pieces"
    batch = 4 * readers[0].batch or 64
    return (
        f"write readers: {{{readers[0].name}: {{batch: {batch}}}}}, or keep the data in a form "
        "that is faster to read, such as .npy"
    )
