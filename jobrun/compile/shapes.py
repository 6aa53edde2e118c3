"""Dtypes and shapes of blobs before anything runs, as far as the spec and file headers tell.

An abstract interpreter: it walks init's tasks in their order, epochs until nothing changes,
then download and exit, and follows what is ``Known`` of each blob. What cannot be computed,
whatever the values are, it notes with its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from jobrun.compile.faults import Faults
from jobrun.compile.record_shapes import Headers, record_shapes
from jobrun.compile.sent_shapes import NodeQueues, SentShapes, Shared, in_order
from jobrun.compile.shape_eval import blob_key, output_key
from jobrun.compile.shape_judge import Judge
from jobrun.compile.shape_probes import judge_probes
from jobrun.compile.shape_steps import Names, Walk, merged
from jobrun.core.errors import Fault
from jobrun.graph.data import ReadQueue, ReadRecords
from jobrun.graph.query import ops
from jobrun.graph.steps import Assign, Augment, NameTarget, Step
from jobrun.graph.types import GroupName, Job, Scope, Task, TaskGroup
from jobrun.ops.known import UNKNOWN, Known, join, without_value

__all__ = ["Headers", "Types", "job_types", "no_headers", "state_shapes"]

_WIDENING_PASSES = 4
# How often what comes from other nodes is looked at again: pipelines through that many nodes.
_ROUNDS = 4
_Owned = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Types:
    """What is known of a job's blobs.

    Attributes:
        owned: (node, blob) → what is known of it at an epoch boundary, for each blob of the
            job's state and constants.
        made: (task's path, blob) → what is known of each value that the task binds it to.
        faults: What cannot be computed: errors, and warnings where a condition decides.
    """

    owned: Mapping[tuple[str, str], Known] = field(default_factory=dict)
    made: Mapping[tuple[str, str], Known] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()


def no_headers(path: str, member: str) -> None:
    """Looks no file up: what compiling alone may know."""
    del path, member


def state_shapes(job: Job, headers: Headers) -> Mapping[tuple[str, str], Known]:
    """What is known of every state and constant blob at an epoch boundary.

    Args:
        job: The checked job.
        headers: Looks a data file's member up: path as written, member.

    Returns:
        (node, blob) → what is known of it, for each blob of ``job.state`` and ``job.constants``.
    """
    return job_types(job, headers).owned


def job_types(job: Job, headers: Headers = no_headers) -> Types:
    """What is known of a job's blobs, and what of it cannot be.

    Nodes with the same tasks are looked at once.

    Args:
        job: The checked job.
        headers: Looks a data file's member up: path as written, member.
    """
    walk = _JobWalk(job, headers, {})
    types = walk.types()
    for _ in range(_ROUNDS if walk.shared else 0):
        # Now it is known what comes from other nodes.
        before, walk = walk.shared, _JobWalk(job, headers, walk.shared)
        types = walk.types()
        if walk.shared == before:
            break
    return types


class _JobWalk:
    """Goes through the groups of a job on each of its nodes."""

    def __init__(self, job: Job, headers: Headers, shared: Shared) -> None:
        self._job = job
        self._headers = headers
        self._judge = Judge(Faults())
        self._sent = SentShapes(self._judge.faults, shared)
        self._made: dict[tuple[str, str], Known] = {}
        self._outputs: Names = {}
        self._groups = {group.name: _by_node(group) for group in job.groups}
        self._state, self._constants = dict(job.state), dict(job.constants)

    @property
    def shared(self) -> Shared:
        """What the queues got that nodes share."""
        return self._sent.shared

    def types(self) -> Types:
        """Look at all nodes."""
        owned: dict[tuple[str, str], Known] = {}
        seen: dict[object, Names] = {}
        for node in self._job.cluster:
            alike = self._likeness(node.name)
            if alike not in seen:
                seen[alike] = self._node(node.name)
            names = seen[alike]
            owned |= {
                (node.name, name): names.get(name, UNKNOWN) for name in self._owned(node.name)
            }
        seen_from_outside = {blob_key(*place): known for place, known in owned.items()}
        judge_probes(self._job, {**self._outputs, **seen_from_outside}, self._judge)
        return Types(owned, self._made, self._judge.faults.all())

    def _likeness(self, node: str) -> object:
        """Equal for nodes on which the same happens."""
        tasks = tuple(
            (name, tuple(task.path for task in by_node.get(node, ())))
            for name, by_node in self._groups.items()
        )
        around = tuple(
            (group.name, setup.nets.name) for group in self._job.groups
            for setup in group.setup if setup.node == node
        )  # fmt: skip
        return (tasks, around, self._owned(node))

    def _owned(self, node: str) -> tuple[str, ...]:
        return (*self._state.get(node, ()), *self._constants.get(node, ()))

    def _node(self, node: str) -> Names:
        """What is known of the node's blobs at an epoch boundary."""
        names = self._boundary(node, self._group("init", node, {}))
        for _ in range(_WIDENING_PASSES):
            after = self._boundary(node, self._group("epoch", node, names))
            joined = {name: join(names[name], after.get(name, UNKNOWN)) for name in names}
            if joined == names:
                break
            names = joined
        else:
            after = self._boundary(node, self._group("epoch", node, names))
            names = {
                name: known if after.get(name) == known else UNKNOWN
                for name, known in names.items()
            }
        self._group("exit", node, self._group("download", node, names))
        return names

    def _boundary(self, node: str, names: Names) -> Names:
        """What an epoch starts with; numbers may be others after a resume."""
        return {name: without_value(names.get(name, UNKNOWN)) for name in self._owned(node)}

    def _group(self, name: GroupName, node: str, start: Names) -> Names:
        group: TaskGroup = getattr(self._job, name)
        tasks = self._groups[name].get(node, ())
        volatile = _volatile(group, node, tasks)
        around = [setup.nets for setup in group.setup if setup.node == node]
        names = dict(start)
        for nets in around:
            names = self._steps(nets.init, names, volatile)
        queues = self._sent.on_node(name, tasks)
        for task in in_order(tasks):
            self._task(task, names, volatile, queues)
        for nets in reversed(around):
            names = self._steps(nets.exit, names, volatile)
        kept = {name for task in tasks for name, scope in task.scopes if scope is Scope.NODE}
        return {name: known for name, known in names.items() if name in kept or name in start}

    def _steps(self, steps: tuple[Step, ...], names: Names, volatile: frozenset[str]) -> Names:
        walk = Walk(names, self._judge, self._headers, volatile)
        walk.block("", steps)
        return walk.names

    def _task(self, task: Task, names: Names, volatile: frozenset[str], queues: NodeQueues) -> None:
        scopes = dict(task.scopes)
        shared = {name for name, scope in scopes.items() if scope in (Scope.NODE, Scope.GROUP)}
        inner = {name: known for name, known in names.items()
                 if name in shared or name not in scopes}  # fmt: skip
        own = frozenset(_bound_names(report.steps for report in task.reports))

        def bound(name: str, known: Known) -> None:
            key = (task.path, name)
            self._made[key] = join(self._made[key], known) if key in self._made else known

        walk = Walk(self._outputs | inner, self._judge, self._headers, volatile | own, bound)
        around = (*task.setup, *task.instance_setup)
        for nets in around:
            walk.block("", nets.init)
        self._body(task, walk, queues)
        self._note_outputs(task, walk)
        for nets in reversed(around):
            walk.block("", nets.exit)
        for report in task.reports:
            Walk(dict(walk.names), self._judge, self._headers, own).block("", report.steps)
        for name in shared:
            if name in walk.names:
                names[name] = walk.names[name]
            else:
                names.pop(name, None)

    def _body(self, task: Task, walk: Walk, queues: NodeQueues) -> None:
        """Once, or once for each record."""
        match task.read:
            case ReadRecords(reader=reader):
                fields = record_shapes(reader, walk.names, self._headers)
            case ReadQueue():
                fields = queues.read(task.read)
            case None:
                walk.block(task.path, task.steps)
                queues.send(task, walk.names)
                return
        sent: Names | None = None

        def one_record() -> bool:
            nonlocal sent
            for name, known in fields.items():
                walk.bind(name, known)
            falls = walk.block(task.path, task.steps)
            sent = walk.names if sent is None else merged([sent, walk.names])
            return falls

        walk.repeated(task.path, one_record)
        queues.send(task, sent or {})

    def _note_outputs(self, task: Task, walk: Walk) -> None:
        for output in task.outputs:
            known = without_value(walk.output(output.value, task))
            key = output_key(task.node, task.name, output.name)
            if task.instances > 1:
                known = UNKNOWN
            self._outputs[key] = join(self._outputs[key], known) if key in self._outputs else known


def _by_node(group: TaskGroup) -> dict[str, tuple[Task, ...]]:
    found: dict[str, list[Task]] = {}
    for task in group.tasks:
        found.setdefault(task.node, []).append(task)
    return {node: tuple(tasks) for node, tasks in found.items()}


def _volatile(group: TaskGroup, node: str, tasks: tuple[Task, ...]) -> frozenset[str]:
    """Names that may get another value at any time: those of reports, and of hogwild tasks."""
    reports = [one.report.steps for one in group.reports if one.node == node]
    reports += [report.steps for task in tasks for report in task.reports]
    return frozenset(
        (*_bound_names(reports), *_bound_names(task.steps for task in tasks if task.hogwild))
    )


def _bound_names(bodies: Iterator[tuple[Step, ...]] | list[tuple[Step, ...]]) -> Iterator[str]:
    for steps in bodies:
        for op in ops(steps):
            match op:
                case Assign(targets=targets):
                    yield from (one.name for one in targets if isinstance(one, NameTarget))
                case Augment(target=NameTarget(name=name)):
                    yield name
                case _:
                    continue
