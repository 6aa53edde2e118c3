"""Define what happens in a run as frozen values, which the runner and sessions emit to listeners.

An event is emitted after it happened. A listener must not raise and must not block.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from jobrun.core.resource_usage import ProcessUse
from jobrun.core.time_use import TimeUse


class TaskFacts(Struct, frozen=True):
    """A task on one of its nodes; it starts when those that it ``needs`` have ended, everywhere."""

    group: str
    task: str
    node: str
    needs: tuple[str, ...] = ()


class RunStarted(Struct, frozen=True):
    """A run has started, or has been resumed.

    Attributes:
        epoch: The last epoch that was already there; -1 for a new run.
        total_epochs: After which it ends, if nothing ends it before; None when not known.
        tasks: All of them: with the ends of tasks, they tell which ones run at any time, so that
            no epoch has to tell it. None at all, if they are very many.
    """

    run: str
    job: str
    directory: str
    epoch: int
    total_epochs: int | None
    tasks: tuple[TaskFacts, ...] = ()


class GroupStarted(Struct, frozen=True):
    """The tasks of a group begin, in this epoch."""

    group: str
    epoch: int
    tasks: tuple[str, ...]


class GroupEnded(Struct, frozen=True):
    """All tasks of a group have ended, ``seconds`` after they began."""

    group: str
    epoch: int
    seconds: float


class GroupRetried(Struct, frozen=True):
    """An attempt failed, and the group will run again from where it started.

    What the attempt measured does not count; ``attempt`` is 1 for the first.
    """

    group: str
    epoch: int
    attempt: int


class NodeReplaced(Struct, frozen=True):
    """A lost node was replaced; the run continues after ``epoch`` (-1: from init).

    What was measured after that does not count.

    Attributes:
        records: Records of the next epoch after which it continues; 0: from its start.
    """

    node: str
    epoch: int
    records: int = 0


class TaskLimited(Struct, frozen=True):
    """A task with a time limit has begun; ``TaskEnded`` and ``TasksGivenUp`` end that.

    For the supervisor of the process that runs the task: code that keeps the interpreter for
    itself can be ended from outside only. It is not written into the run's logs.

    Attributes:
        path: Of the task in the spec.
        file: Of the spec, that declares the task; with ``line`` and ``column``, 0 for none.
        grace_s: How long it may take to end after its limit, in seconds.
        pid: Of the process that runs it.
    """

    task: str
    node: str
    epoch: int
    path: str
    file: str
    line: int
    column: int
    limit_s: float
    grace_s: float
    pid: int


class TasksGivenUp(Struct, frozen=True):
    """Tasks did not end, and are waited for no more; the process that runs them is about to end.

    Attributes:
        tasks: ``node/task`` each.
    """

    tasks: tuple[str, ...]
    epoch: int
    pid: int


class TaskEnded(Struct, frozen=True):
    """A task has ended on a node; ``seconds`` is the wall time that it ran."""

    task: str
    node: str
    epoch: int
    seconds: float
    failed: bool


class TaskWaited(Struct, frozen=True):
    """How long a task that is about to end has waited, all its threads together, in seconds.

    For the account of the run's time; it is not written into the run's logs.

    Attributes:
        threads: How many threads of the task ran side by side.
        data_s: For records of readers.
        nodes_s: For blobs and records of other nodes.
        queue_s: For other tasks of its node: for records of a queue, or for room in one.
    """

    task: str
    node: str
    threads: int
    data_s: float = 0.0
    nodes_s: float = 0.0
    queue_s: float = 0.0


class ProcessMeasured(Struct, frozen=True):
    """What the process of a node has used; see ``UsageMeasured``, which gathers it.

    Attributes:
        grown: Its memory has grown within an epoch, so that it is recorded at once.
    """

    use: ProcessUse
    grown: bool = False


class UsageMeasured(Struct, frozen=True):
    """What a run has used, as of the end of an epoch, or within one. A line of ``usage.jsonl``.

    Attributes:
        epoch: The last that has ended; 0 after init, -1 before that.
        started: When this start of the run began, in seconds since 1970.
        starts: How many starts ``before`` and this one are.
        times: Where the time went since this start.
        before: Where that of all earlier starts went, together.
        processes: What each process has used since it started.
        within: It was measured while the next epoch ran, since memory had grown.
        advice: What to write where more than a tenth of the time is lost; empty for nothing.
    """

    epoch: int
    started: float
    starts: int
    times: TimeUse
    before: TimeUse = TimeUse()
    processes: tuple[ProcessUse, ...] = ()
    within: bool = False
    advice: str = ""


class Logged(Struct, frozen=True):
    """A line from a ``log`` step, a program's output or what a callable prints.

    Attributes:
        path: The step's place.
        printed: A callable has printed it, so that the terminal has it already.
    """

    text: str
    task: str
    node: str
    instance: int
    epoch: int
    path: str
    printed: bool = False


class Measured(Struct, frozen=True):
    """A metric. ``task`` is empty for those of the job's ``metrics``."""

    name: str
    value: float | int | bool | str
    epoch: int
    task: str = ""
    node: str = ""
    instance: int = 0


class CheckpointCommitted(Struct, frozen=True):
    """The epoch is durable: it will be there after any kill."""

    epoch: int
    size_bytes: int
    seconds: float
    path: str


class CheckpointWithin(Struct, frozen=True):
    """A checkpoint within an epoch is durable; the next save replaces it."""

    epoch: int
    records: int
    size_bytes: int
    seconds: float
    path: str


class NodeTime(Struct, frozen=True):
    """How long one node's file took. A megabyte is a million bytes.

    Attributes:
        copy_s: (save) Copying what tasks change in place, all threads together.
        gate_s: (save) How long tasks waited for such a copy.
        sync_s: (save) Of ``seconds``, waiting for the disk to have it.
        written_bytes: (save) Of ``size_bytes``, what the disk did not have yet, in whole pages.
    """

    node: str
    size_bytes: int
    seconds: float
    megabytes_per_s: float
    copy_s: float = 0.0
    gate_s: float = 0.0
    sync_s: float = 0.0
    written_bytes: int = 0


class CheckpointTimes(Struct, frozen=True):
    """Time that saving, loading or copying an epoch took, node by node.

    Attributes:
        action: ``save``, ``load``, ``partial load`` or ``upload``.
        size_bytes: Of all nodes.
        seconds: Of the slowest node: nodes work side by side.
        megabytes_per_s: All bytes in that time.
        slowest: That node; empty without any.
        nodes: In the order of the files.
        hold_s: (save) How long the run was blocked to begin it; all of it, unless ``beside``.
        wait_s: (save) How long the run waited for the save before it.
        commit_s: (save) From the last file to an epoch that is there to stay.
        beside: (save) The run went on meanwhile.
        stall_s: (save) How much later the run is for it, as far as it waited.
        written_bytes: (save) Of all nodes; the rest had not changed.
    """

    action: str
    epoch: int
    size_bytes: int
    seconds: float
    megabytes_per_s: float
    slowest: str
    nodes: tuple[NodeTime, ...]
    hold_s: float = 0.0
    wait_s: float = 0.0
    commit_s: float = 0.0
    beside: bool = False
    stall_s: float = 0.0
    written_bytes: int = 0


class CheckpointFailed(Struct, frozen=True):
    """A save failed and the spec says to go on (``on_error: warn``)."""

    epoch: int
    reason: str


class CheckpointSkipped(Struct, frozen=True):
    """A stored epoch was found unusable, and why; it is set aside, and an older one is used."""

    epoch: int
    reason: str


class EpochEnded(Struct, frozen=True):
    """An epoch has ended, and its stop conditions were evaluated.

    Attributes:
        epoch: Counted from 1.
        seconds: The wall time of the epoch.
        metrics: Names and last values, in the order of the spec.
        stopping: The stop conditions that hold, as a person reads them; empty if the run continues.
    """

    epoch: int
    seconds: float
    metrics: tuple[tuple[str, float | int | bool | str], ...]
    stopping: tuple[str, ...]


class Noted(Struct, frozen=True):
    """Something the user should know; ``level`` is ``info`` or ``warning``."""

    text: str
    level: str = "info"


class RunEnded(Struct, frozen=True):
    """``outcome``: ``finished``, ``stopped``, ``interrupted`` or ``failed``."""

    outcome: str
    epoch: int
    seconds: float
    reason: str


Event = (
    RunStarted
    | GroupStarted
    | GroupEnded
    | GroupRetried
    | NodeReplaced
    | TaskLimited
    | TasksGivenUp
    | TaskEnded
    | TaskWaited
    | ProcessMeasured
    | UsageMeasured
    | Logged
    | Measured
    | CheckpointCommitted
    | CheckpointWithin
    | CheckpointTimes
    | CheckpointFailed
    | CheckpointSkipped
    | EpochEnded
    | Noted
    | RunEnded
)
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Do nothing with a run's event: the listener for callers that need no events."""
    del event
