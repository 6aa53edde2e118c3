"""The two ends of a queue: from a line into a task's workspaces, and back. Waits in lines only.

What is sent is nobody's but the receiver's: a value is handed over where nobody else can look
at its name before it has another one, and copied everywhere else.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from jobrun.blobs.values import PLAIN_KINDS, Value, describe, detach
from jobrun.core.errors import TaskFailedError
from jobrun.graph.data import Queue, ReadQueue, WriteQueue
from jobrun.graph.types import Scope, Task, TaskGroup
from jobrun.runtime.cancel import CancelledError
from jobrun.runtime.faults import explain_at
from jobrun.runtime.frame import Frame
from jobrun.runtime.lines import Line, LineByNumber, LineInTurn, Values
from jobrun.runtime.positions import Place
from jobrun.runtime.records import Numbered, Record
from jobrun.runtime.soleline import SoleLine
from jobrun.runtime.usage import BlockNames, usage, usage_of
from jobrun.runtime.workspace import LEVELS

# Queue and node; no node for a queue that all nodes share.
LineKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class LinePlan:
    """A queue on one node, or on all: how many tasks write to it and read from it.

    Attributes:
        is_sole: One thread of one node writes to it, and one of the same node reads from it.
    """

    key: LineKey
    queue: Queue
    writers: int
    readers: int
    is_sole: bool = False

    def open(self) -> Line:
        """An empty line for one run of the group."""
        queue = self.queue
        if self.is_sole:
            return SoleLine(queue.capacity)
        kind = LineByNumber if queue.ordered else LineInTurn
        return kind(queue.capacity, self.writers, self.readers)


def line_key(queue: Queue, node: str) -> LineKey:
    """Which line of a queue a task on the node uses."""
    return queue.name, "" if queue.shared else node


def line_plans(group: TaskGroup) -> tuple[LinePlan, ...]:
    """The lines of a group's queues, in the order of first use."""
    queues: dict[LineKey, Queue] = {}
    writers: Counter[LineKey] = Counter()
    readers: Counter[LineKey] = Counter()
    crowded: set[LineKey] = set()
    for task in group.tasks:
        keys = [line_key(one.queue, task.node) for one in task.write]
        writers.update(keys)
        if isinstance(task.read, ReadQueue):
            keys.append(line_key(task.read.queue, task.node))
            readers[keys[-1]] += 1
        for key, queue in zip(keys, _queues_of(task), strict=True):
            queues.setdefault(key, queue)
            if task.instances > 1 or queue.ordered or queue.shared:
                crowded.add(key)
    return tuple(
        LinePlan(
            key, one, writers[key], readers[key],
            is_sole=key not in crowded and writers[key] == readers[key] == 1,
        )
        for key, one in queues.items()
    )  # fmt: skip


def _queues_of(task: Task) -> list[Queue]:
    """Those it writes to, then the one it reads from."""
    found = [one.queue for one in task.write]
    return [*found, task.read.queue] if isinstance(task.read, ReadQueue) else found


def handing_over(task: Task, names: BlockNames) -> BlockNames:
    """What is known of the names of the task's body, those added that are handed over.

    They count as changed, so that no other name of the body shares memory with them.
    """
    given = handed_over(task, names)
    return replace(names, changed=names.changed | given) if given else names


def handed_over(task: Task, names: BlockNames) -> frozenset[str]:
    """The names whose values the receiver can have without a copy.

    A name that only the body knows has certainly got another value there before the body looks
    at it again: that nothing is read before it is made, the compiler has proven.
    """
    sent = Counter(name for one in task.write for name in one.names)
    if not sent:
        return frozenset()
    own = {Scope.INSTANCE} if task.instances > 1 else {Scope.INSTANCE, Scope.TASK}
    seen = _seen_beside(task)
    return frozenset(
        name for name, count in sent.items()
        if count == 1 and name not in seen and names.scope(name) in own
    )  # fmt: skip


def _seen_beside(task: Task) -> set[str]:
    """Names that anything but the body looks at."""
    seen = set(usage_of(one.value for one in task.outputs).used)
    for nets in (*task.setup, *task.instance_setup):
        seen |= usage(nets.init).used | usage(nets.exit).used
    for report in task.reports:
        seen |= usage(report.steps).used
    return seen


class QueueSource:
    """The end of a queue that a task reads from."""

    def __init__(self, read: ReadQueue, task: Task, frame: Frame) -> None:
        self._read = read
        self._task = task
        self._line = frame.run.lines[line_key(read.queue, task.node)]
        self._batch = read.queue.batch

    def begin(self, frame: Frame) -> None:
        """Nothing has to be got ready."""

    def read(self, frame: Frame) -> Numbered | None:
        """The next record, or so many as one; None when the queue is closed and empty.

        Raises:
            CancelledError: The run was cancelled.
            TaskFailedError: E221, records do not fit together.
        """
        if not self._batch:
            return self._line.take(frame.cancel)
        gathered = self._line.gather(self._batch, frame.cancel)
        if gathered is None:
            return None
        number, records = gathered
        try:
            return Record(number, joined(records, self._read))
        except TaskFailedError as error:
            place = Place(f"{self._task.path}/read", self._task.origin)
            raise explain_at(error, place, frame) from error

    def close(self) -> None:
        """One reader less."""
        self._line.leave_reader()


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """One ``write`` of a task.

    Attributes:
        parts: Level and name of each value, and whether it is handed over.
        by_instance: The number of a record is that of the instance, which sends only one.
    """

    write: WriteQueue
    task: Task
    parts: tuple[tuple[str, str, bool], ...]
    by_instance: bool

    def sink(self, frame: Frame) -> QueueSink:
        """The sink for one run of the task."""
        return QueueSink(self, frame)


def sink_plans(task: Task, names: BlockNames) -> tuple[SinkPlan, ...]:
    """The sinks of a task, in the order in which they are written."""
    given = handed_over(task, names)
    return tuple(
        SinkPlan(
            one, task,
            tuple((LEVELS[names.scope(name)], name, name in given) for name in one.names),
            task.read is None,
        )
        for one in task.write
    )  # fmt: skip


class QueueSink:
    """The end of a queue that a task writes to."""

    def __init__(self, plan: SinkPlan, frame: Frame) -> None:
        self._plan = plan
        self._parts = plan.parts
        self._by_instance = plan.by_instance
        self._line = frame.run.lines[line_key(plan.write.queue, plan.task.node)]
        self._ordered = plan.write.queue.ordered
        self._scope = frame.cancel

    def write(self, frame: Frame, number: int) -> bool:
        """Send the values; whether anybody may ever read them.

        Raises:
            CancelledError: The run was cancelled, perhaps while there was no room.
            JobrunError: A blob is not there, or is nothing that a blob can hold.
        """
        values = []
        try:
            for level, name, is_given in self._parts:
                space = getattr(frame, level)
                value = space[name]
                if is_given and type(value) is np.ndarray and value.base is None:
                    # Not even a later fault can make two tasks see one array.
                    del space[name]
                elif type(value) not in PLAIN_KINDS:
                    value = detach(value, name)
                values.append(value)
        except CancelledError:
            raise
        except Exception as error:
            raise explain_at(error, self._place(), frame) from error
        if self._by_instance:
            number = frame.instance
        return self._line.put(number, tuple(values), frame.cancel)

    def skip(self, number: int) -> None:
        """Nothing is sent for the record of that number; others may wait for it."""
        if self._ordered and not self._plan.by_instance:
            self._line.put(number, None, self._scope)

    def close(self) -> None:
        """One writer less."""
        self._line.leave_writer()

    def _place(self) -> Place:
        task = self._plan.task
        return Place(f"{task.path}/write.{self._plan.write.queue.name}", task.origin)


def joined(records: tuple[Values, ...], read: ReadQueue) -> Values:
    """Several records as one: each value joined along its first axis; scalars make a vector.

    Raises:
        TaskFailedError: E221, values of one name differ in dtype, or in a further axis.
    """
    columns = zip(*records, strict=True)
    return tuple(_column(read, name, one) for name, one in zip(read.names, columns, strict=True))


def _column(read: ReadQueue, name: str, values: tuple[Value, ...]) -> Value:
    arrays = [np.asarray(value) for value in values]
    # Texts of several lengths are still texts.
    kinds = {(one.dtype if one.dtype.kind != "U" else "text", one.ndim == 0, one.shape[1:])
             for one in arrays}  # fmt: skip
    if len(kinds) > 1 or arrays[0].dtype.hasobject:
        shown = sorted({describe(value) for value in values})
        raise TaskFailedError.of(
            "E221",
            f"records of queue '{read.queue.name}' cannot be joined: '{name}' is "
            f"{' and '.join(shown[:2])}",
            f"send '{name}' with one dtype and one shape behind the first axis, or take 'batch' "
            "from the queue",
        )
    return np.concatenate([np.atleast_1d(one) for one in arrays])
