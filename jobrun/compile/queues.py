"""What ``queues``, ``read`` and ``write`` of a spec mean where they mean queues, task by task.

What the tasks of a group must agree on is looked at by ``pipelines``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from jobrun.compile.faults import Faults, Place
from jobrun.core.names import did_you_mean
from jobrun.graph.data import Queue, ReadQueue, WriteQueue
from jobrun.graph.types import GROUPS, GroupName, TaskGroup
from jobrun.spec.models import GroupSpec, JobSpec, TaskSpec
from jobrun.spec.source import Path, SourceMap


@dataclass(frozen=True, slots=True)
class QueueTable:
    """The queues of a job.

    Attributes:
        queues: By name.
        sent: For each group and queue the names that its first writing task sends.
        readers: The names of the readers, which are no queues.
    """

    queues: Mapping[str, Queue] = field(default_factory=dict)
    sent: Mapping[tuple[GroupName, str], tuple[str, ...]] = field(default_factory=dict)
    readers: tuple[str, ...] = ()

    def read(self, name: str, group: GroupName) -> ReadQueue | None:
        """What reading from a queue means; None when there is no queue of that name."""
        queue = self.queues.get(name)
        return None if queue is None else ReadQueue(queue, self.sent.get((group, name), ()))

    def check_read(self, name: str, place: Place, faults: Faults) -> None:
        """Note a name that stands for nothing."""
        if name not in self.queues and name not in self.readers:
            known = {**dict.fromkeys(self.readers), **self.queues}
            faults.error("E192", f"there is no reader or queue '{name}'",
                         did_you_mean(name, known), place)  # fmt: skip

    def written(
        self, spec: TaskSpec, at: Path, path: str, source: SourceMap, faults: Faults
    ) -> tuple[tuple[WriteQueue, ...], tuple[Place, ...]]:
        """What a task sends, and where that stands; notes what cannot be sent."""
        found: list[WriteQueue] = []
        places: list[Place] = []
        for name, names in spec.write.items():
            place = Place(f"{path}/write.{name}", source.key((*at, "write", name)))
            if name in self.queues:
                check_names(name, names, place, faults)
                found.append(WriteQueue(self.queues[name], tuple(dict.fromkeys(names))))
                places.append(place)
            else:
                self._not_found(name, place, faults)
        return tuple(found), tuple(places)

    def sent_places(
        self, spec: TaskSpec, at: Path, path: str, source: SourceMap
    ) -> dict[tuple[str, str], Place]:
        """Where each name that a task sends stands, by queue and name."""
        return {
            (queue, name): Place(f"{path}/write.{queue}", source.at((*at, "write", queue, number)))
            for queue, names in spec.write.items()
            for number, name in reversed(tuple(enumerate(names)))
        }

    def _not_found(self, name: str, place: Place, faults: Faults) -> None:
        if name in self.readers:
            faults.error("E192", f"'{name}' is a reader, and records are written to queues",
                         "write to a queue, or save what is computed in a step", place)  # fmt: skip
        else:
            mend = did_you_mean(name, self.queues)
            if not self.queues:
                mend = f"declare it at the top of the spec: queues: {{{name}: {{}}}}"
            faults.error("E192", f"there is no queue '{name}'", mend, place)


def queue_table(spec: JobSpec, source: SourceMap, faults: Faults) -> QueueTable:
    """The queues of a spec; notes those that have the name of a reader."""
    queues: dict[str, Queue] = {}
    for name, one in spec.queues.items():
        origin = source.key(("queues", name))
        path = f"queues.{name}"
        queues[name] = Queue(
            name, one.capacity, one.shared, one.ordered, one.batch or 0, path, origin
        )
        if name in spec.readers:
            faults.error(
                "E192", f"'{name}' is a reader too, at {source.key(('readers', name))}, so "
                "'read' could mean either", "give one of them another name", Place(path, origin),
            )  # fmt: skip
    sent: dict[tuple[GroupName, str], tuple[str, ...]] = {}
    for group, task in _tasks(spec):
        for name, names in task.write.items():
            sent.setdefault((group, name), tuple(dict.fromkeys(names)))
    return QueueTable(queues, sent, tuple(spec.readers))


def vet_queues(groups: Iterable[TaskGroup], faults: Faults) -> tuple[Queue, ...]:
    """The queues at which tasks built by hand have an end; notes those that cannot be meant."""
    found: dict[str, Queue] = {}
    for task in (task for group in groups for task in group.tasks):
        place = Place(task.path, task.origin)
        ends: list[WriteQueue | ReadQueue] = [*task.write]
        if isinstance(task.read, ReadQueue):
            ends.append(task.read)
        for one in ends:
            queue = one.queue
            if queue.name not in found and (queue.capacity < 1 or queue.batch < 0):
                message = f"a capacity of {queue.capacity} and a batch of {queue.batch}"
                mend = "give room for 1 record or more, and 0 for no batch"
                faults.error("E123", f"queue '{queue.name}' has {message}", mend, place)
            if found.setdefault(queue.name, queue) != queue:
                faults.error("E197", f"there are two queues '{queue.name}' that differ",
                             "give one of them another name", place)  # fmt: skip
            check_names(queue.name, one.names, place, faults)
    return tuple(found.values())


def check_names(queue: str, names: tuple[str, ...], place: Place, faults: Faults) -> None:
    """Note a record of nothing, and one that has a blob twice."""
    if not names:
        faults.error("E193", f"a record of queue '{queue}' would hold nothing",
                     f"name the blobs to send, for example {queue}: [x]", place)  # fmt: skip
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        faults.error("E193", f"'{twice[0]}' would be sent twice in one record",
                     "the reader gets it by its name, so name it once", place)  # fmt: skip


def _tasks(spec: JobSpec) -> Iterator[tuple[GroupName, TaskSpec]]:
    for name in GROUPS:
        written = getattr(spec, name)
        for task in written.tasks if isinstance(written, GroupSpec) else written:
            yield name, task
