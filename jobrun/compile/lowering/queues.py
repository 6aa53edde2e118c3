"""Lower ``queues`` of a spec, and the ``read`` and ``write`` of tasks that name queues.

What the tasks of a group must agree on is checked by ``analysis.queues``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from jobrun.compile.faults import Faults, SpecPosition
from jobrun.core.text.names import did_you_mean
from jobrun.graph.readers import Queue, ReadQueue, WriteQueue
from jobrun.graph.types import GROUPS, GroupName, TaskGroup
from jobrun.spec.models.job import JobSpec
from jobrun.spec.models.tasks import TaskSpec
from jobrun.spec.yaml.nodes import Path, SourceMap


class QueueTable(Struct, frozen=True):
    """The queues of a job.

    Attributes:
        queues: The queues by name.
        sent: For each group and queue the names that its first writing task sends.
        readers: The names of the readers.
    """

    queues: Mapping[str, Queue] = field(default_factory=dict)
    sent: Mapping[tuple[GroupName, str], tuple[str, ...]] = field(default_factory=dict)
    readers: tuple[str, ...] = ()

    def read(self, name: str, group: GroupName) -> ReadQueue | None:
        """Lower a task's ``read: NAME`` of a queue to ``ReadQueue``; None if no such queue."""
        queue = self.queues.get(name)
        return None if queue is None else ReadQueue(queue, self.sent.get((group, name), ()))

    def check_read(self, name: str, spec_position: SpecPosition, faults: Faults) -> None:
        """Check that a lowered ``read`` names a queue, or a reader, of the spec."""
        if name not in self.queues and name not in self.readers:
            known = {**dict.fromkeys(self.readers), **self.queues}
            message = f"unknown reader or queue '{name}'"
            faults.error("E192", message, did_you_mean(name, known), spec_position)

    def lower_writes(
        self, spec: TaskSpec, at: Path, path: str, source: SourceMap, faults: Faults
    ) -> tuple[tuple[WriteQueue, ...], tuple[SpecPosition, ...]]:
        """Lower what a task writes to queues, with spec positions; refuse unknown queues."""
        writes: list[WriteQueue] = []
        positions: list[SpecPosition] = []
        for name, names in spec.write.items():
            spec_position = SpecPosition(f"{path}/write.{name}", source.key((*at, "write", name)))
            if name in self.queues:
                check_names(name, names, spec_position, faults)
                writes.append(WriteQueue(self.queues[name], tuple(dict.fromkeys(names))))
                positions.append(spec_position)
            else:
                self._note_unknown(name, spec_position, faults)
        return tuple(writes), tuple(positions)

    def find_sent_positions(
        self, spec: TaskSpec, at: Path, path: str, source: SourceMap
    ) -> dict[tuple[str, str], SpecPosition]:
        """Map each pair (queue, blob) in a task's ``write`` to the blob's place in the spec."""
        return {
            (queue, name): SpecPosition(
                f"{path}/write.{queue}", source.at((*at, "write", queue, number))
            )
            for queue, names in spec.write.items()
            for number, name in reversed(tuple(enumerate(names)))
        }

    def _note_unknown(self, name: str, spec_position: SpecPosition, faults: Faults) -> None:
        if name in self.readers:
            message = f"'{name}' is a reader; only queues can be written to"
            mend = "write to a queue, or save the values with a 'save' step"
            faults.error("E192", message, mend, spec_position)
        else:
            mend = did_you_mean(name, self.queues)
            if not self.queues:
                mend = f"declare it at the top of the spec: queues: {{{name}: {{}}}}"
            faults.error("E192", f"unknown queue '{name}'", mend, spec_position)


def build_queue_table(spec: JobSpec, source: SourceMap, faults: Faults) -> QueueTable:
    """Build the table of all queues in a spec; refuse each queue named like a reader."""
    queues: dict[str, Queue] = {}
    for name, declared in spec.queues.items():
        origin = source.key(("queues", name))
        path = f"queues.{name}"
        queues[name] = Queue(
            name,
            declared.capacity,
            declared.shared,
            declared.ordered,
            declared.batch or 0,
            path,
            origin,
        )
        if name in spec.readers:
            message = (
                f"'{name}' is also a reader, at {source.key(('readers', name))}, so "
                f"'read' would be ambiguous"
            )
            faults.error("E192", message, "rename one of them", SpecPosition(path, origin))
    sent: dict[tuple[GroupName, str], tuple[str, ...]] = {}
    for group, task in _walk_tasks(spec):
        for name, names in task.write.items():
            sent.setdefault((group, name), tuple(dict.fromkeys(names)))
    return QueueTable(queues, sent, tuple(spec.readers))


def collect_queues(groups: Iterable[TaskGroup], faults: Faults) -> tuple[Queue, ...]:
    """Collect the queues that tasks name in ``read`` and ``write``; check settings."""
    queues: dict[str, Queue] = {}
    for task in (task for group in groups for task in group.tasks):
        spec_position = SpecPosition(task.path, task.origin)
        endpoints: list[WriteQueue | ReadQueue] = [*task.write]
        if isinstance(task.read, ReadQueue):
            endpoints.append(task.read)
        for endpoint in endpoints:
            queue = endpoint.queue
            if queue.name not in queues and (queue.capacity < 1 or queue.batch < 0):
                message = f"a capacity of {queue.capacity} and a batch of {queue.batch}"
                mend = "use a capacity of 1 or more, and 0 for no batch"
                faults.error("E123", f"queue '{queue.name}' has {message}", mend, spec_position)
            if queues.setdefault(queue.name, queue) != queue:
                message = f"there are two different queues '{queue.name}'"
                faults.error("E197", message, "rename one of them", spec_position)
            check_names(queue.name, endpoint.names, spec_position, faults)
    return tuple(queues.values())


def check_names(
    queue: str, names: tuple[str, ...], spec_position: SpecPosition, faults: Faults
) -> None:
    """Check that a ``write`` to a queue names blobs, and none of them twice."""
    if not names:
        mend = f"name the blobs to send, for example {queue}: [x]"
        faults.error("E193", f"a record of queue '{queue}' would be empty", mend, spec_position)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        faults.error(
            "E193", f"'{twice[0]}' would be sent twice in one record", "name it once", spec_position
        )


def _walk_tasks(spec: JobSpec) -> Iterator[tuple[GroupName, TaskSpec]]:
    for name in GROUPS:
        written = getattr(spec, name)
        for task in written if isinstance(written, tuple) else written.tasks:
            yield name, task
