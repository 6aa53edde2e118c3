"""Connect tasks with queues: read records into a task's workspaces, and write them out.

What is sent has no owner but the receiver: a value is moved where no other step can read its
name before that is bound to another one, and copied everywhere else.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from jobrun.core.errors import TaskFailedError
from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.readers import Queue, ReadQueue, WriteQueue
from jobrun.graph.types import Scope, Task, TaskGroup
from jobrun.runtime.codegen.line_table import StepLocation
from jobrun.runtime.codegen.liveness import BlockNames, collect_expression_usage, collect_usage
from jobrun.runtime.context.bounded_queue import (
    BoundedQueue,
    FifoQueue,
    OrderedQueue,
    RecordQueue,
    SpscQueue,
    Values,
)
from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.context.frame import LEVELS, Frame, GroupRun, Waited
from jobrun.runtime.records.record_loop import Record, Records, Write
from jobrun.runtime.step_errors import explain_at
from jobrun.values.blob_kinds import PLAIN_KINDS, Value, describe
from jobrun.values.container_flattening import is_tree
from jobrun.values.copies import detach

_ARRAY = np.ndarray
# Queue and node; no node for a queue that all nodes share.
QueueKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """A queue on one node, or on all: how many tasks write to it and read from it.

    Attributes:
        is_sole: One thread of one node writes to it, and one of the same node reads from it.
    """

    key: QueueKey
    queue: Queue
    writers: int
    readers: int
    is_spsc: bool = False

    def open(self) -> BoundedQueue:
        """Create a planned queue between tasks: ordered, for one task at each end, or for any."""
        queue = self.queue
        if self.is_spsc:
            return SpscQueue(queue.capacity)
        kind = OrderedQueue if queue.ordered else FifoQueue
        return kind(queue.capacity, self.writers, self.readers)


def queue_key(queue: Queue, node: str) -> QueueKey:
    """Return the key in the run's queues under which a task on a node finds its queue."""
    return queue.name, "" if queue.shared else node


def plan_queues(group: TaskGroup) -> tuple[QueuePlan, ...]:
    """Count, for each queue of a group, the tasks at its writing and at its reading end."""
    queues: dict[QueueKey, Queue] = {}
    writers: Counter[QueueKey] = Counter()
    readers: Counter[QueueKey] = Counter()
    crowded: set[QueueKey] = set()
    for task in group.tasks:
        keys = [queue_key(one.queue, task.node) for one in task.write]
        writers.update(keys)
        if isinstance(task.read, ReadQueue):
            keys.append(queue_key(task.read.queue, task.node))
            readers[keys[-1]] += 1
        for key, queue in zip(keys, _queues_of(task), strict=True):
            queues.setdefault(key, queue)
            if task.instances > 1 or queue.ordered or queue.shared:
                crowded.add(key)
    return tuple(
        QueuePlan(
            key,
            one,
            writers[key],
            readers[key],
            is_spsc=key not in crowded and writers[key] == readers[key] == 1,
        )
        for key, one in queues.items()
    )


def _queues_of(task: Task) -> list[Queue]:
    """List the queues that a task is connected with: those it writes, then the one it reads."""
    found = [one.queue for one in task.write]
    return [*found, task.read.queue] if isinstance(task.read, ReadQueue) else found


def add_moved_names(task: Task, names: BlockNames) -> BlockNames:
    """Add names whose values a queue's writing endpoint moves to those that a body changes.

    They count as changed, so that no other name of the body shares memory with them.
    """
    given = find_moved_names(task, names)
    return replace(names, changed=names.changed | given) if given else names


def find_moved_names(task: Task, names: BlockNames) -> frozenset[str]:
    """Find the names that a task can write to a queue by moving, as nothing else reads the values.

    A name that only the body knows has certainly got another value there before the body looks
    at it again: that nothing is read before it is made, the compiler has proven.
    """
    sent = Counter(name for one in task.write for name in one.names)
    if not sent:
        return frozenset()
    own = {Scope.INSTANCE} if task.instances > 1 else {Scope.INSTANCE, Scope.TASK}
    seen = _seen_beside(task)
    return frozenset(
        name
        for name, count in sent.items()
        if count == 1 and name not in seen and names.scope(name) in own
    )


def _seen_beside(task: Task) -> set[str]:
    """Collect the names that other blocks of a task read, so that its queues must get copies."""
    seen = set(collect_expression_usage(one.value for one in task.outputs).used)
    for nets in (*task.setup, *task.instance_setup):
        seen |= collect_usage(nets.init).used | collect_usage(nets.exit).used
    for report in task.reports:
        seen |= collect_usage(report.steps).used
    return seen


class QueueSource:
    """The end of a queue that a task reads from."""

    def __init__(self, read: ReadQueue, task: Task, frame: Frame) -> None:
        self._read = read
        self._task = task
        self._run = frame.run
        self._queue = frame.run.queues[queue_key(read.queue, task.node)]
        self._batch = read.queue.batch

    def begin(self, frame: Frame) -> None:
        """Do nothing to begin, as a queue's reading end needs no preparation."""

    def connect(self, frame: Frame) -> Records:
        """Iterate over records, or batches of them, at the reading end of a queue.

        It raises TaskFailedError, E221, where records do not fit together.
        """
        return self._batches(frame) if self._batch else self._queue.records(frame.cancel)

    def _batches(self, frame: Frame) -> Records:
        """Iterate over batches at a queue's reading end, each made of several records."""
        while (gathered := self._queue.gather(self._batch, frame.cancel)) is not None:
            number, records = gathered
            try:
                joined = join_records(records, self._read)
            except TaskFailedError as error:
                place = StepLocation(f"{self._task.path}/read", self._task.origin)
                raise explain_at(error, place, frame) from error
            yield Record(number, joined)

    def close(self) -> None:
        """Close a task's reading endpoint of a queue, and note how long it waited there."""
        self._queue.leave_reader()
        _note_wait(self._run, self._task, self._read.queue, self._queue)


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
        """Create the end of the queue that a task writes to in one run."""
        return QueueSink(self, frame)


def plan_sinks(task: Task, names: BlockNames) -> tuple[SinkPlan, ...]:
    """Plan the queue endpoints through which a task writes its records, in their order."""
    given = find_moved_names(task, names)
    return tuple(
        SinkPlan(
            one,
            task,
            tuple((LEVELS[names.scope(name)], name, name in given) for name in one.names),
            task.read is None,
        )
        for one in task.write
    )


class QueueSink:
    """The end of a queue that a task writes to."""

    def __init__(self, plan: SinkPlan, frame: Frame) -> None:
        self._plan = plan
        self._queue = frame.run.queues[queue_key(plan.write.queue, plan.task.node)]
        self._ordered = plan.write.queue.ordered
        self._scope = frame.cancel
        self._run = frame.run

    def connect(self, frame: Frame) -> Write:
        """Return the function that writes a task's values to the queue.

        It raises JobrunError where a blob is not there, or is nothing that a blob can hold.
        """
        plan, put = self._plan, self._queue.writer(frame.cancel)
        parts = [(getattr(frame, level), name, is_given) for level, name, is_given in plan.parts]
        instance = frame.instance if plan.by_instance else None

        def write(number: int) -> bool:
            values: Values = ()
            try:
                for space, name, is_given in parts:
                    value = space[name]
                    kind = type(value)
                    if kind is _ARRAY and is_given and value.base is None:
                        # Not even a later fault can make two tasks see one array.
                        del space[name]
                    elif kind not in PLAIN_KINDS:
                        value = detach(value, name)
                    values += (value,)
            except CancelledError:
                raise
            except Exception as error:
                raise explain_at(error, self._place(), frame) from error
            return put(number if instance is None else instance, values)

        return write

    def skip(self, number: int) -> None:
        """Skip a record at the writing end of a queue, so that its number is not waited for."""
        if self._ordered and not self._plan.by_instance:
            self._queue.put(number, None, self._scope)

    def close(self) -> None:
        """Close a task's writing endpoint of a queue, and note how long it waited there."""
        self._queue.leave_writer()
        _note_wait(self._run, self._plan.task, self._plan.write.queue, self._queue)

    def _place(self) -> StepLocation:
        task = self._plan.task
        return StepLocation(f"{task.path}/write.{self._plan.write.queue.name}", task.origin)


def _note_wait(run: GroupRun, task: Task, queue: Queue, line: RecordQueue) -> None:
    """Note how long a task has waited at its end of a queue, when it closes that end."""
    waited: Waited = "nodes" if queue.shared else "queue"
    run.note_wait(task.name, task.node, waited, line.take_waited_s())


def join_records(records: tuple[Values, ...], read: ReadQueue) -> Values:
    """Join records taken at the reading end of a queue to a batch, field by field.

    Raises:
        TaskFailedError: E221, values of one name differ in dtype, or in a further axis.
    """
    columns = zip(*records, strict=True)
    return tuple(_column(read, name, one) for name, one in zip(read.names, columns, strict=True))


def _column(read: ReadQueue, name: str, values: tuple[Value, ...]) -> Value:
    for value in values:
        if is_tree(value):
            raise TaskFailedError.of(
                "E221",
                f"records of queue '{read.queue.name}' cannot be joined: '{name}' is "
                f"{describe(value)}",
                f"send an array: {name} = array({name}); or take 'batch' from the queue",
            )
    arrays = [np.asarray(value) for value in values]
    # Texts of several lengths are still texts.
    kinds = {
        (one.dtype if one.dtype.kind != "U" else "text", one.ndim == 0, one.shape[1:])
        for one in arrays
    }
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
