"""Dtypes and shapes of what queues' records hold: of what their writers have when they send."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import combinations

from jobrun.compile.faults import Faults, Place
from jobrun.graph.data import Queue, ReadQueue
from jobrun.graph.types import GroupName, Task
from jobrun.ops.arguments import shape_text
from jobrun.ops.known import UNKNOWN, Known, join, kind_of, without_value

Names = Mapping[str, Known]
# What each writer of a queue sends, by its full name.
Sent = dict[str, tuple[Task, Names]]
# Queues that all nodes of a group share.
Shared = dict[tuple[GroupName, str], Sent]


@dataclass(slots=True)
class SentShapes:
    """What is known of the records of a job's queues.

    A writer is looked at before a reader on its own node. What comes from other nodes over a
    shared queue is known when all nodes have been looked at once; so is who reads it then.

    Attributes:
        faults: Takes note of writers that no reader can take for each other.
        before: What shared queues got when all nodes were looked at before.
        shared: What they get this time.
    """

    faults: Faults
    before: Shared = field(default_factory=dict)
    shared: Shared = field(default_factory=dict)

    def on_node(self, group: GroupName, tasks: tuple[Task, ...]) -> NodeQueues:
        """The queues of a group on one node, empty.

        Args:
            group: Its name.
            tasks: All that it has on the node.
        """
        return NodeQueues(self, group, tasks)


@dataclass(slots=True)
class NodeQueues:
    """What is sent in one walk through a group's tasks on one node."""

    _job: SentShapes
    _group: GroupName
    _tasks: tuple[Task, ...]
    _sent: dict[str, Sent] = field(default_factory=dict)

    def send(self, task: Task, names: Names) -> None:
        """A task has these values when it sends."""
        for line in task.write:
            queue = line.queue
            record = {name: without_value(names.get(name, UNKNOWN)) for name in line.names}
            if queue.shared:
                sent = self._job.shared.setdefault((self._group, queue.name), {})
            else:
                sent = self._sent.setdefault(queue.name, {})
            sent[task.full_name] = (task, record)

    def read(self, read: ReadQueue) -> dict[str, Known]:
        """What is known of a record: of each name that it binds."""
        queue = read.queue
        if queue.shared:
            # The round before was through all nodes, so all that write are in it.
            sent = self._job.before.get((self._group, queue.name), {})
        else:
            sent = self._sent.get(queue.name, {})
            writers = {one.full_name for one in writing(self._tasks, queue.name)}
            sent = sent if writers == sent.keys() else {}
        for name in read.names:
            _compare(queue, name, sent, self._job.faults)
        return {name: _record(queue, [record[name] for _, record in sent.values()])
                for name in read.names}  # fmt: skip


def writing(tasks: Iterable[Task], queue: str) -> Iterator[Task]:
    """The tasks that write to a queue."""
    return (one for one in tasks if any(line.queue.name == queue for line in one.write))


def in_order(tasks: tuple[Task, ...]) -> list[Task]:
    """Tasks after those they need, and after those that write what they read.

    Else in the order of the spec; in a circle of queues it is as if there were none.
    """
    needed = [tuple(other for other in tasks if other.name in one.needs) for one in tasks]
    fed = [
        tuple(writing(tasks, one.read.queue.name)) if isinstance(one.read, ReadQueue) else ()
        for one in tasks
    ]
    try:
        return _sorted(tasks, [(*one, *other) for one, other in zip(needed, fed, strict=True)])
    except CycleError:
        return _sorted(tasks, needed)


def _sorted(tasks: tuple[Task, ...], before: Sequence[tuple[Task, ...]]) -> list[Task]:
    positions = {id(task): position for position, task in enumerate(tasks)}
    sorter = TopologicalSorter(
        {at: [positions[id(one)] for one in earlier] for at, earlier in enumerate(before)}
    )
    sorter.prepare()
    ordered: list[Task] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        ordered += [tasks[position] for position in ready]
        sorter.done(*ready)
    return ordered


def _record(queue: Queue, sent: list[Known]) -> Known:
    if not sent:
        return UNKNOWN
    known, *others = sent
    for one in others:
        known = join(known, one)
    if not queue.batch:
        return known
    # Joined along the first axis; single numbers make a vector.
    if not kind_of(known.dtype) or known.shape is None:
        return UNKNOWN
    return Known(known.dtype, (None, *known.shape[1:]))


def _compare(queue: Queue, name: str, sent: Sent, faults: Faults) -> None:
    for (task, one), (other, another) in combinations(sent.values(), 2):
        if _differ(queue, one[name], another[name]):
            message = (
                f"queue '{queue.name}' gets '{name}' as {_shown(another[name])} here, and as "
                f"{_shown(one[name])} from task '{task.name}' at {task.origin}"
            )
            mend = "send one dtype, with as many axes, from both: astype converts"
            place = Place(f"{other.path}/write.{queue.name}", other.origin)
            faults.error("E294", message, mend, place)


def _differ(queue: Queue, one: Known, other: Known) -> bool:
    """Whether no reader could take one for the other; lengths may be others in each record."""
    if one.dtype is not None and other.dtype is not None and one.dtype != other.dtype:
        return True
    if one.shape is None or other.shape is None:
        return False
    if len(one.shape) != len(other.shape):
        return True
    behind = zip(one.shape[1:], other.shape[1:], strict=True)
    return queue.batch > 0 and any(None not in pair and pair[0] != pair[1] for pair in behind)


def _shown(known: Known) -> str:
    shape = f" of shape {shape_text(known.shape)}" if known.shape else ""
    return f"{known.dtype or 'an array'}{shape}"
