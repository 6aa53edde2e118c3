"""Connect tasks with queues: read records into a task's workspaces, and write them out."""

from __future__ import annotations

from collections import Counter

import numpy as np
from msgspec import Struct

from jobrun.core.errors import TaskFailedError
from jobrun.graph.readers import Queue, ReadQueue, WriteQueue
from jobrun.graph.types import Task, TaskGroup
from jobrun.runtime.context.bounded_queue import (
    BoundedQueue,
    FifoQueue,
    OrderedQueue,
    Put,
    RecordQueue,
    Records,
    SpscQueue,
    Values,
)
from jobrun.runtime.context.frame import Frame
from jobrun.runtime.context.group_run_state import GroupRun, Waited
from jobrun.values.blob_kinds import Value, describe
from jobrun.values.container_flattening import is_tree

# Queue and node; no node for a queue that all nodes share.
QueueKey = tuple[str, str]


class QueuePlan(Struct, frozen=True):
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
        """Create the queue between tasks' endpoints: ordered, unordered or one to one."""
        queue = self.queue
        if self.is_spsc:
            return SpscQueue(queue.capacity)
        kind = OrderedQueue if queue.ordered else FifoQueue
        return kind(queue.capacity, self.writers, self.readers)


def queue_key(queue: Queue, node: str) -> QueueKey:
    """Return the key (queue name, node) by which a task's endpoint finds its queue in a dict."""
    return queue.name, "" if queue.shared else node


def plan_queues(group: TaskGroup) -> tuple[QueuePlan, ...]:
    """Count, for each queue of a group, the tasks at its writing and at its reading end."""
    queues: dict[QueueKey, Queue] = {}
    writers: Counter[QueueKey] = Counter()
    readers: Counter[QueueKey] = Counter()
    crowded: set[QueueKey] = set()
    for task in group.tasks:
        keys = [queue_key(write.queue, task.node) for write in task.write]
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
            queue,
            writers[key],
            readers[key],
            is_spsc=key not in crowded and writers[key] == readers[key] == 1,
        )
        for key, queue in queues.items()
    )


def _queues_of(task: Task) -> list[Queue]:
    """List the queues that a task's endpoints write to, then the one that its endpoint reads."""
    written = [write.queue for write in task.write]
    return [*written, task.read.queue] if isinstance(task.read, ReadQueue) else written


class QueueSource:
    """The end of a queue that a task reads from."""

    def __init__(self, read: ReadQueue, task: Task, frame: Frame) -> None:
        self._read = read
        self._task = task
        self._run = frame.run
        self._queue = frame.run.queues[queue_key(read.queue, task.node)]
        self._batch = read.queue.batch

    def begin(self, frame: Frame) -> None:
        """Begin reading at a queue's end: do nothing, as a queue needs no preparation."""

    def connect(self, frame: Frame) -> Records:
        """Iterate over records, or batches of them, at the reading end of a queue.

        It raises TaskFailedError, E221, where records do not fit together.
        """
        return self._batches(frame) if self._batch else self._queue.records(frame.cancel)

    def _batches(self, frame: Frame) -> Records:
        """Iterate over batches at a queue's reading end, each made of several records."""
        while (gathered := self._queue.gather(self._batch, frame.cancel)) is not None:
            number, records = gathered
            yield number, join_records(records, self._read)

    def close(self) -> None:
        """Close a task's reading endpoint of a queue, and record how long it waited there."""
        self._queue.leave_reader()
        _note_wait(self._run, self._task, self._read.queue, self._queue)


class QueueSink:
    """The end of a queue that a task writes to."""

    def __init__(self, write: WriteQueue, task: Task, frame: Frame) -> None:
        self._write = write
        self._task = task
        self._queue = frame.run.queues[queue_key(write.queue, task.node)]
        # A task without a source sends one record per instance, with the instance's number.
        self._may_skip = write.queue.ordered and task.read is not None
        self._scope = frame.cancel
        self._run = frame.run

    def connect(self, frame: Frame) -> Put:
        """Return the function that puts a task's numbered records into the queue.

        Its arguments are the number of the record that was read, in a task that reads none that of
        the instance, and the values, which are the receiver's afterwards. It may block, and returns
        False when no reader is left: the task ends.
        """
        return self._queue.writer(frame.cancel)

    def skip(self, number: int) -> None:
        """Skip a record's number at a queue's writing end, so that no reader waits for it."""
        if self._may_skip:
            self._queue.put(number, None, self._scope)

    def close(self) -> None:
        """Close a task's writing endpoint of a queue, and record how long it waited there."""
        self._queue.leave_writer()
        _note_wait(self._run, self._task, self._write.queue, self._queue)


def _note_wait(run: GroupRun, task: Task, queue: Queue, line: RecordQueue) -> None:
    """Record, as a task closes its endpoint of a queue, how long it has waited there."""
    waited: Waited = "nodes" if queue.shared else "queue"
    run.note_wait(task.name, task.node, waited, line.take_waited_s())


def join_records(records: tuple[Values, ...], read: ReadQueue) -> Values:
    """Join records taken at the reading end of a queue to a batch, field by field.

    Raises:
        TaskFailedError: E221, values of one name differ in dtype, or in a further axis.
    """
    columns = zip(*records, strict=True)
    return tuple(
        _column(read, name, values) for name, values in zip(read.names, columns, strict=True)
    )


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
    # Texts of different lengths have different dtypes, but can be joined.
    kinds = {
        (array.dtype if array.dtype.kind != "U" else "text", array.ndim == 0, array.shape[1:])
        for array in arrays
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
    return np.concatenate([np.atleast_1d(array) for array in arrays])
