"""Infer dtypes and shapes of the fields of records, which come from readers and queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from graphlib import CycleError
from itertools import combinations
from types import MappingProxyType

from msgspec import Struct, field

from jobrun.compile.faults import Faults, SpecPosition
from jobrun.compile.job_draft.task_order import sort_topologically
from jobrun.compile.types.expressions import infer_expression
from jobrun.graph.readers import (
    BlobSource,
    CallSource,
    CounterSource,
    Field,
    FileSource,
    Queue,
    Reader,
    ReadQueue,
    ZipSource,
)
from jobrun.graph.types import GroupName, Task
from jobrun.ops.abstract_values import UNKNOWN, Known, join, shape_text, without_value
from jobrun.ops.dtype_promotion import dtype_name, kind_of

Names = Mapping[str, Known]
# The types that each writer sends to a queue, by the writer's full name.
Sent = dict[str, tuple[Task, Names]]
# Queues that all nodes of a group share.
Shared = dict[tuple[GroupName, str], Sent]

# Path and member of a data file → dtype and shape from its header, or None.
Headers = Callable[[str, str], tuple[str, tuple[int, ...]] | None]


class QueueTypes(Struct):
    """The types of the records in a job's queues.

    A writer is walked through before a reader on its own node. What comes from other nodes over a
    shared queue is known after a first walk through all nodes.

    Attributes:
        faults: Collects writers of one queue whose records have different types.
        before: What shared queues received in the walk before.
        shared: What they receive in this walk.
    """

    faults: Faults
    before: Shared = field(default_factory=dict)
    shared: Shared = field(default_factory=dict)

    def on_node(self, group: GroupName, tasks: tuple[Task, ...]) -> NodeQueues:
        """Return a group's queues on one node, before their records' types are inferred.

        Args:
            group: The name of the group.
            tasks: Its tasks on the node.
        """
        return NodeQueues(self, group, _find_writers(tasks))


class NodeQueues(Struct):
    """The types of records that a group's tasks on one node send, as inferred in one walk."""

    _job: QueueTypes
    _group: GroupName
    _writers: Mapping[str, Sequence[Task]]
    _sent: dict[str, Sent] = field(default_factory=dict)

    def send(self, task: Task, names: Names) -> None:
        """Add the types of records that a task sends to the types known for a queue."""
        for write in task.write:
            queue = write.queue
            record = {name: without_value(names.get(name, UNKNOWN)) for name in write.names}
            if queue.shared:
                sent = self._job.shared.setdefault((self._group, queue.name), {})
            else:
                sent = self._sent.setdefault(queue.name, {})
            sent[task.full_name] = (task, record)

    def read(self, read: ReadQueue) -> dict[str, Known]:
        """Infer the types of the names that a task gets from a record of a queue."""
        queue = read.queue
        if queue.shared:
            # The previous pass went through all nodes, so it has seen all writers.
            sent = self._job.before.get((self._group, queue.name), {})
        else:
            sent = self._sent.get(queue.name, {})
            # All writers come before a reader, unless the queues form a cycle.
            sent = sent if len(sent) == len(self._writers.get(queue.name, ())) else {}
        for name in read.names:
            _check_same_type(queue, name, sent, self._job.faults)
        return {
            name: _join_record(queue, [record[name] for _, record in sent.values()])
            for name in read.names
        }


def _find_writers(tasks: Iterable[Task]) -> dict[str, list[Task]]:
    """Map each queue to the tasks that write it, which determine its records' types."""
    writers: dict[str, list[Task]] = {}
    for task in tasks:
        for queue in dict.fromkeys(write.queue.name for write in task.write):
            writers.setdefault(queue, []).append(task)
    return writers


def sort_tasks(tasks: tuple[Task, ...]) -> list[Task]:
    """Sort tasks so that writers of a queue precede its readers, to infer types of records.

    Ties are in the order of the spec. If the queues form a cycle, they are ignored.
    """
    by_name = {task.name: task for task in tasks}
    needed = [tuple(by_name[name] for name in task.needs if name in by_name) for task in tasks]
    writers = _find_writers(tasks)
    fed = [
        tuple(writers.get(task.read.queue.name, ())) if isinstance(task.read, ReadQueue) else ()
        for task in tasks
    ]
    try:
        return _sort_topologically(
            tasks, [(*required, *other) for required, other in zip(needed, fed, strict=True)]
        )
    except CycleError:
        return _sort_topologically(tasks, needed)


def _sort_topologically(tasks: tuple[Task, ...], before: Sequence[tuple[Task, ...]]) -> list[Task]:
    positions = {id(task): position for position, task in enumerate(tasks)}
    earlier = [tuple([positions[id(task)] for task in needs]) for needs in before]
    order, in_cycles = sort_topologically(earlier)
    if in_cycles:
        raise CycleError
    # The length of the longest chain of needs that ends at each task.
    depths = [0] * len(tasks)
    for position in order:
        depths[position] = max([1 + depths[need] for need in earlier[position]], default=0)
    return [tasks[position] for position in sorted(range(len(tasks)), key=depths.__getitem__)]


def _join_record(queue: Queue, sent: list[Known]) -> Known:
    if not sent:
        return UNKNOWN
    known, *others = sent
    for other in others:
        known = join(known, other)
    if not queue.batch:
        return known
    # A batch is concatenated along the first axis; scalars make a vector.
    if not kind_of(known.dtype) or known.shape is None:
        return UNKNOWN
    return Known(known.dtype, (None, *known.shape[1:]))


def _check_same_type(queue: Queue, name: str, sent: Sent, faults: Faults) -> None:
    # Compare distinct types, not writers: there may be thousands of writers.
    by_type: dict[object, list[tuple[Task, Known]]] = {}
    for task, record in sent.values():
        by_type.setdefault(_compared_part(queue, record[name]), []).append((task, record[name]))
    for ((task, first_type), *_), others in combinations(by_type.values(), 2):
        if not _are_incompatible(queue, first_type, others[0][1]):
            continue
        for other, another in others:
            message = (
                f"queue '{queue.name}' gets '{name}' as {_type_text(another)} here, and as "
                f"{_type_text(first_type)} from task '{task.name}' at {task.origin}"
            )
            mend = "send the same dtype and number of axes from both; astype converts"
            spec_position = SpecPosition(f"{other.path}/write.{queue.name}", other.origin)
            faults.error("E294", message, mend, spec_position)


def _compared_part(queue: Queue, known: Known) -> object:
    """Return what all records of a queue must share in their types: dtype, rank, row shape."""
    if known.shape is None:
        return known.dtype, None
    return known.dtype, known.shape[1:] if queue.batch else None, len(known.shape)


def _are_incompatible(queue: Queue, first: Known, second: Known) -> bool:
    """Return whether two types of records cannot be in one queue."""
    if first.dtype is not None and second.dtype is not None and first.dtype != second.dtype:
        return True
    if first.shape is None or second.shape is None:
        return False
    if len(first.shape) != len(second.shape):
        return True
    behind = zip(first.shape[1:], second.shape[1:], strict=True)
    return queue.batch > 0 and any(None not in pair and pair[0] != pair[1] for pair in behind)


def _type_text(known: Known) -> str:
    shape = f" of shape {shape_text(known.shape)}" if known.shape else ""
    return f"{known.dtype or 'an array'}{shape}"


def infer_record(
    reader: Reader,
    names: Mapping[str, Known],
    headers: Headers,
    outputs: Mapping[str, Known] = MappingProxyType({}),
) -> dict[str, Known]:
    """Infer dtype and shape of each field of a record that a reader gives.

    Args:
        reader: The reader.
        names: What is known of blobs when the task starts.
        headers: Returns dtype and shape of a data file's member.
        outputs: What is known of outputs, under ``output_key``.
    """
    if isinstance(reader.source, ZipSource):
        inner = {
            name: known
            for part in reader.source.readers
            for name, known in infer_record(part, names, headers, outputs).items()
        }
        return {field.name: inner[field.member] for field in reader.fields}
    source = reader.source
    values = dict(source.values) if isinstance(source, BlobSource) else {}
    columns = {
        member: without_value(infer_expression(value, names, outside=outputs))
        for member, value in values.items()
    }
    return {
        field.name: _infer_field(reader, field, _infer_column(reader, field, columns, headers))
        for field in reader.fields
    }


def _infer_column(
    reader: Reader, field: Field, columns: Mapping[str, Known], headers: Headers
) -> Known:
    match reader.source:
        case FileSource(path=path):
            text = "".join(part for part in path.parts if isinstance(part, str))
            header = headers(text, field.member) if len(path.parts) == 1 else None
            return Known(dtype_name(header[0]), header[1]) if header else UNKNOWN
        case BlobSource():
            return columns[field.member]
        case CounterSource():
            return Known("int64", (None,), weak=not reader.batch)
        case CallSource() | ZipSource():
            return UNKNOWN


def _infer_field(reader: Reader, field: Field, column: Known) -> Known:
    """Infer dtype and shape of a record's field from its column in the reader's source."""
    if not column.shape:
        return Known(column.dtype)
    if field.lengths is not None:
        return Known(column.dtype, (None, *column.shape[1:]))
    rows = () if not reader.batch else (reader.batch if reader.drop_last else None,)
    return Known(column.dtype, (*rows, *column.shape[1:]), weak=column.weak)
