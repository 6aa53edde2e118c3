"""Infer dtypes and shapes of all blobs of a job, by a walk through its groups on each node.

An abstract interpreter: it walks through init's tasks in order, through epochs until nothing
changes, then through download and exit, and follows what is ``Known`` of each blob. What cannot
be computed, whatever the values are, is noted with its position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct, field

from jobrun.compile.faults import Faults
from jobrun.compile.types.arithmetic import require_truth_value
from jobrun.compile.types.expressions import (
    RuleCache,
    TypeFaults,
    blob_key,
    infer_expression,
    output_key,
)
from jobrun.compile.types.records_and_queues import (
    Headers,
    NodeQueues,
    QueueTypes,
    Shared,
    infer_record,
    sort_tasks,
)
from jobrun.compile.types.steps import Names, StepInference
from jobrun.core.errors import Fault
from jobrun.core.interpreter import collector_paused
from jobrun.graph.conditions import Probe, StopWhen
from jobrun.graph.query import ops
from jobrun.graph.readers import ReadQueue, ReadRecords
from jobrun.graph.steps import Assign, Augment, NameTarget, Step
from jobrun.graph.types import GroupName, Job, Scope, Task, TaskGroup
from jobrun.ops.abstract_values import (
    KINDS,
    NONE,
    TEXT,
    UNKNOWN,
    Known,
    MisfitError,
    items_in,
    join,
    shape_text,
    without_value,
)
from jobrun.ops.dtype_promotion import kind_of

__all__ = ["Headers", "Types", "infer_job_types", "no_headers"]

_WIDENING_PASSES = 4
# Passes over the job: types travel through shared queues between at most this many nodes.
_ROUNDS = 4
_Owned = tuple[tuple[str, tuple[str, ...]], ...]


class Types(Struct, frozen=True):
    """The inferred types of a job's blobs, and the faults found by inference.

    Attributes:
        owned: (node, blob) → what is known of it at an epoch boundary, for each blob of the
            job's state and constants.
        task_blobs: (task's path, blob) → what is known of the values that the task binds it to.
        faults: What cannot be computed: errors; warnings if it depends on an unknown condition.
    """

    owned: Mapping[tuple[str, str], Known] = field(default_factory=dict)
    task_blobs: Mapping[tuple[str, str], Known] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()


def no_headers(path: str, member: str) -> None:
    """Return None as a data file's type, to infer a job's types without reading files."""
    del path, member


@collector_paused()
def infer_job_types(job: Job, headers: Headers = no_headers) -> Types:
    """Infer dtypes and shapes of all blobs of a job; add faults for what cannot be computed.

    Of nodes with the same tasks one is walked through.

    Args:
        job: The checked job.
        headers: Returns dtype and shape of a data file's member; called with path and member.
    """
    walk = _JobInference(job, headers, {})
    types = walk.types()
    for _ in range(_ROUNDS if walk.shared else 0):
        # The types that come from other nodes are known now.
        before, walk = walk.shared, _JobInference(job, headers, walk.shared)
        types = walk.types()
        if walk.shared == before:
            break
    return types


class _JobInference:
    """One walk through the groups of a job on each of its nodes."""

    def __init__(self, job: Job, headers: Headers, shared: Shared) -> None:
        self._job = job
        self._headers = headers
        self._faults = TypeFaults(Faults())
        self._sent = QueueTypes(self._faults.faults, shared)
        self._task_blobs: dict[tuple[str, str], Known] = {}
        self._cache = RuleCache()
        self._outputs: Names = {}
        self._groups = {group.name: _by_node(group) for group in job.groups}
        self._state, self._constants = dict(job.state), dict(job.constants)

    @property
    def shared(self) -> Shared:
        """Return the types of records in shared queues, inferred in this walk of the job."""
        return self._sent.shared

    def types(self) -> Types:
        """Infer the types of all nodes' blobs by a walk through the job."""
        owned: dict[tuple[str, str], Known] = {}
        seen: dict[object, Names] = {}
        for node in self._job.cluster:
            alike = self._equivalence_key(node.name)
            if alike not in seen:
                seen[alike] = self._node(node.name)
            names = seen[alike]
            owned |= {
                (node.name, name): names.get(name, UNKNOWN) for name in self._owned(node.name)
            }
        seen_from_outside = {
            blob_key(*owner_and_name): known for owner_and_name, known in owned.items()
        }
        check_probes(self._job, {**self._outputs, **seen_from_outside}, self._faults)
        return Types(owned, self._task_blobs, self._faults.faults.all())

    def _equivalence_key(self, node: str) -> object:
        """Return a key that nodes with equal tasks share; their types are inferred once."""
        tasks = tuple(
            (name, tuple(task.path for task in by_node.get(node, ())))
            for name, by_node in self._groups.items()
        )
        setups = tuple(
            (group.name, setup.nets.name)
            for group in self._job.groups
            for setup in group.setup
            if setup.node == node
        )
        return (tasks, setups, self._owned(node))

    def _owned(self, node: str) -> tuple[str, ...]:
        return (*self._state.get(node, ()), *self._constants.get(node, ()))

    def _node(self, node: str) -> Names:
        """Infer the types of one node's blobs by a walk through the groups of the job."""
        names = self._at_epoch_boundary(node, self._group("init", node, {}))
        for _ in range(_WIDENING_PASSES):
            after = self._at_epoch_boundary(node, self._group("epoch", node, names))
            joined = {name: join(names[name], after.get(name, UNKNOWN)) for name in names}
            if joined == names:
                break
            names = joined
        else:
            after = self._at_epoch_boundary(node, self._group("epoch", node, names))
            names = {
                name: known if after.get(name) == known else UNKNOWN
                for name, known in names.items()
            }
        self._group("exit", node, self._group("download", node, names))
        return names

    def _at_epoch_boundary(self, node: str, names: Names) -> Names:
        """Infer the types with which each epoch of a job begins, without constant values."""
        bare = self._cache.without_value
        return {name: bare(names.get(name, UNKNOWN)) for name in self._owned(node)}

    def _group(self, name: GroupName, node: str, start: Names) -> Names:
        group: TaskGroup = getattr(self._job, name)
        tasks = self._groups[name].get(node, ())
        volatile = _volatile(group, node, tasks)
        setups = [setup.nets for setup in group.setup if setup.node == node]
        names = dict(start)
        for nets in setups:
            names = self._steps(nets.init, names, volatile)
        queues = self._sent.on_node(name, tasks)
        for task in sort_tasks(tasks):
            self._task(task, names, volatile, queues)
        for nets in reversed(setups):
            names = self._steps(nets.exit, names, volatile)
        persistent = {name for task in tasks for name, scope in task.scopes if scope is Scope.NODE}
        return {name: known for name, known in names.items() if name in persistent or name in start}

    def _steps(self, steps: tuple[Step, ...], names: Names, volatile: frozenset[str]) -> Names:
        walk = self._walk(names, volatile)
        walk.block("", steps)
        return walk.names

    def _walk(
        self,
        names: Names,
        volatile: frozenset[str],
        bound: Callable[[str, Known], None] = lambda _name, _known: None,
    ) -> StepInference:
        """Create the ``StepInference`` that infers types through a list of a job's steps."""
        return StepInference(
            names, self._faults, self._headers, volatile, bound, self._outputs, self._cache
        )

    def _task(self, task: Task, names: Names, volatile: frozenset[str], queues: NodeQueues) -> None:
        shared = [name for name, scope in task.scopes if scope in (Scope.NODE, Scope.GROUP)]
        # Only names that the task uses: a large job may have as many names as tasks.
        inner = {name: names[name] for name in shared if name in names}
        reporting = [report.steps for report in task.reports]
        reported_names = frozenset(_bound_names(reporting) if reporting else ())
        touched = volatile.intersection([name for name, _ in task.scopes]) if volatile else volatile

        blob_types, path = self._task_blobs, task.path

        def bound(name: str, known: Known) -> None:
            before = blob_types.setdefault((path, name), known)
            if before is not known:
                blob_types[path, name] = join(before, known)

        setups = (*task.setup, *task.instance_setup)
        walk = self._walk(inner, touched | reported_names, bound)
        for nets in setups:
            walk.block("", nets.init)
        self._body(task, walk, queues)
        self._note_outputs(task, walk)
        for nets in reversed(setups):
            walk.block("", nets.exit)
        for report in task.reports:
            report_walk = self._walk(dict(walk.names), reported_names)
            report_walk.block("", report.steps)
        for name in shared:
            if name in walk.names:
                names[name] = walk.names[name]
            else:
                names.pop(name, None)

    def _body(self, task: Task, walk: StepInference, queues: NodeQueues) -> None:
        """Infer what one task adds to a job's types: the types that its steps give to blobs."""
        match task.read:
            case ReadRecords(reader=reader):
                fields = infer_record(reader, walk.names, self._headers, self._outputs)
            case ReadQueue():
                fields = queues.read(task.read)
            case None:
                walk.block(task.path, task.steps)
                queues.send(task, walk.names)
                return
        sending = {name for write in task.write for name in write.names}
        sent: Names = {}

        def one_record() -> bool:
            for name, known in fields.items():
                walk.bind(name, known)
            falls = walk.block(task.path, task.steps)
            for name in sending & walk.names.keys():
                known = walk.names[name]
                sent[name] = join(sent[name], known) if name in sent else known
            return falls

        walk.repeat(task.path, one_record)
        queues.send(task, sent)

    def _note_outputs(self, task: Task, walk: StepInference) -> None:
        for output in task.outputs:
            known = without_value(walk.output(output.value, task))
            key = output_key(task.node, task.name, output.name)
            if task.instances > 1:
                known = UNKNOWN
            self._outputs[key] = join(self._outputs[key], known) if key in self._outputs else known


def _by_node(group: TaskGroup) -> dict[str, tuple[Task, ...]]:
    by_node: dict[str, list[Task]] = {}
    for task in group.tasks:
        by_node.setdefault(task.node, []).append(task)
    return {node: tuple(tasks) for node, tasks in by_node.items()}


def _volatile(group: TaskGroup, node: str, tasks: tuple[Task, ...]) -> frozenset[str]:
    """Return the job's blobs that get no type: reports or ``hogwild`` tasks may write them."""
    reports = [report.report.steps for report in group.reports if report.node == node]
    reports += [report.steps for task in tasks for report in task.reports]
    return frozenset(
        (*_bound_names(reports), *_bound_names(task.steps for task in tasks if task.hogwild))
    )


def _bound_names(bodies: Iterator[tuple[Step, ...]] | list[tuple[Step, ...]]) -> Iterator[str]:
    for steps in bodies:
        for op in ops(steps):
            match op:
                case Assign(targets=targets):
                    yield from (bound.name for bound in targets if isinstance(bound, NameTarget))
                case Augment(target=NameTarget(name=name)):
                    yield name
                case _:
                    continue


def check_probes(job: Job, names: Mapping[str, Known], faults: TypeFaults) -> None:
    """Check that the inferred types of conditions and metrics are permitted for them.

    ``expect`` is left out: the tasks of exit may change what it reads.

    Args:
        job: The checked job.
        names: What is known of blobs and outputs when the runner reads them, under
            ``blob_key`` and ``output_key``.
        faults: Collects what is wrong.
    """
    conditions = [condition.probe for condition in job.stop if isinstance(condition, StopWhen)]
    for probe in (*conditions, *job.fail_if):
        _check_probe(probe, names, faults, f"'{probe.text}'", is_condition=True)
    for name, probe in job.metrics:
        _check_probe(probe, names, faults, f"metric '{name}'", is_condition=False)


def _check_probe(
    probe: Probe,
    names: Mapping[str, Known],
    faults: TypeFaults,
    subject: str,
    *,
    is_condition: bool,
) -> None:
    for part in probe.parts:
        known = infer_expression(
            part, {}, lambda misfit: faults.add_misfit(misfit, probe.path, probe.origin), names
        )
        try:
            if probe.reduce in ("any", "all"):
                require_truth_value(known)
            elif is_condition:
                _require_bool(known)
            else:
                _require_scalar(known)
        except MisfitError as error:
            faults.add(error, f"{subject}: ", probe)
            # One fault is enough: the same is wrong on all nodes.
            return


def _require_bool(known: Known) -> None:
    mend = "write a comparison; any(…) and all(…) reduce an array of bools"
    if known.sequence or known.shape:
        shown = f"a {known.sequence}" if known.sequence else _array_text(known)
        raise MisfitError(KINDS, f"a condition must be true or false, but this is {shown}", mend)
    if known.dtype in (TEXT, NONE) or kind_of(known.dtype) not in ("", "b"):
        message = f"a condition must be true or false, but this is {known.dtype}"
        raise MisfitError(KINDS, message, mend)


def _require_scalar(known: Known) -> None:
    mend = "reduce it, for example with mean(…) or max(…)"
    if known.sequence:
        message = f"a metric must be one number, but this is a {known.sequence}"
        raise MisfitError(KINDS, message, mend)
    if known.shape is not None and items_in(known.shape) not in (1, None):
        raise MisfitError(
            KINDS, f"a metric must be one number, but this is {_array_text(known)}", mend
        )
    if known.dtype == NONE or kind_of(known.dtype) == "c":
        message = f"a metric must be one real number, but this is {known.dtype}"
        raise MisfitError(KINDS, message, "take abs(x), real(x) or imag(x)")


def _array_text(known: Known) -> str:
    return f"an array of shape {shape_text(known.shape or ())}"
