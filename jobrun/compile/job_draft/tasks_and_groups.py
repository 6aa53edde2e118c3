"""Define drafts of tasks, groups and the job, which lowering makes and analysis reads.

With a task goes what its steps read and write: names, and records of readers and queues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Literal

from msgspec import Struct, field

from jobrun.compile.faults import SpecPosition
from jobrun.compile.job_draft.definite_assignment import (
    FAILED,
    FlowAnalysis,
    FlowProblem,
    NameUses,
    RepeatedFlow,
    Status,
    Summary,
)
from jobrun.compile.job_draft.task_order import TaskOrder
from jobrun.core.errors import Origin
from jobrun.graph.effects import NOWHERE
from jobrun.graph.readers import (
    Reader,
    ReadQueue,
    ReadRecords,
    WriteQueue,
    record_fields,
    source_expressions,
)
from jobrun.graph.steps import Net, Step
from jobrun.graph.types import (
    GroupName,
    Job,
    Output,
    RemoteNet,
    Report,
    Retry,
    SetupNets,
    step_lists_around,
)
from jobrun.ops.access_finder import ACCESS_FINDER

Workspace = Literal["private", "global"]
# Shared by all tasks without set-up, reports or outputs; never changed.
_NO_USES = NameUses()
_NO_PLACE = SpecPosition("", NOWHERE)


class TaskFlow(Struct):
    """The effect of a drafted task on names, the same on every node.

    Attributes:
        total: The whole task, set-up and exit included, reports and outputs not.
        reports: What its reports need when the body starts, and where.
        outputs: What its outputs need when the task has ended.
        exit_needs: What the exit of its own set-up needs from instances.
        once: Touches of the set-up, which runs once.
        inner: Touches of the body and the set-up of instances, which run in every instance.
        reporting: Touches of reports.
        problems: What is wrong on any node.
        carried: Names that the steps leave for the next record.
    """

    total: Summary
    reports: dict[str, SpecPosition]
    outputs: dict[str, SpecPosition]
    exit_needs: dict[str, SpecPosition]
    once: NameUses
    inner: NameUses
    reporting: NameUses
    problems: list[FlowProblem]
    carried: dict[str, SpecPosition] = field(default_factory=dict)

    @property
    def has_body_only(self) -> bool:
        """Return whether a task uses names in its steps only, not in its set-up or reports."""
        return self.once is _NO_USES and self.reporting is _NO_USES

    def written_names(self) -> set[str]:
        """Return all names that a task writes: in its steps, set-up and reports."""
        return {*self.once.writes, *self.inner.writes, *self.reporting.writes}

    def names(self) -> set[str]:
        """Return every name that a task reads or writes: in its steps, set-up and reports."""
        once, inner, reporting = self.once, self.inner, self.reporting
        if self.has_body_only:
            return {*inner.reads, *inner.writes, *inner.atomic, *self.outputs}
        return {
            *inner.reads,
            *inner.writes,
            *inner.atomic,
            *once.reads,
            *once.writes,
            *once.atomic,
            *reporting.reads,
            *reporting.writes,
            *reporting.atomic,
            *self.outputs,
        }

    def lent(self) -> set[str]:
        """Return the names of blobs that a task passes to Python callables."""
        return {*self.once.lent, *self.inner.lent, *self.reporting.lent}

    def functions(self) -> set[str]:
        """Return the operators that the reachable steps of a task call."""
        return {*self.once.functions, *self.inner.functions, *self.reporting.functions}

    def is_only(self, kind: Literal["called", "lent"], name: str) -> bool:
        """Return whether only callables, not other steps of a task, make or change a blob."""
        called = is_lent = False
        for uses in (self.once, self.inner, self.reporting):
            if name in uses.firm or name in uses.atomic:
                return False
            called = called or name in uses.called
            is_lent = is_lent or name in uses.lent
        return called if kind == "called" else is_lent and not called


class Records(Struct, frozen=True):
    """The records for which a task's steps run, and those that each run sends.

    Attributes:
        read: The source of the records; None: the steps run once, or it is not known.
        read_at: The position of ``read``.
        write: What is sent, in the order of sending.
        write_at: The position of each.
        sent_at: The positions of the names in each, by queue and name, where known.
        is_loop: The steps run once for each record.
    """

    read: ReadRecords | ReadQueue | None = None
    read_at: SpecPosition = _NO_PLACE
    write: tuple[WriteQueue, ...] = ()
    write_at: tuple[SpecPosition, ...] = ()
    sent_at: Mapping[tuple[str, str], SpecPosition] = field(default_factory=dict)
    is_loop: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """Return the names of the fields of each record that a task reads."""
        return record_fields(self.read)

    @property
    def are_unknown(self) -> bool:
        """Return whether a task reads records of unknown fields, from an invalid reader."""
        return self.is_loop and not self.fields

    def sent(self) -> Iterator[tuple[str, SpecPosition]]:
        """Yield the name of each blob that a task sends to queues, with its position."""
        for sent, spec_position in zip(self.write, self.write_at, strict=True):
            for name in sent.names:
                yield name, self.sent_at.get((sent.queue.name, name), spec_position)

    def names(self) -> set[str]:
        """Return the names of all fields of the records read, and of all blobs sent."""
        return {*self.fields, *(name for write in self.write for name in write.names)}


NO_RECORDS = Records()


class TaskDraft(Struct, frozen=True, eq=False, dict=True):
    """The draft of a task as declared, before there is one task for each of its nodes.

    Attributes:
        spec_position: The position of the task.
        find_needs: Finds the position of its needs for a message; the task's if it has none.
        position: Its number in the group.
        nodes: The nodes on which it runs; empty after a fault.
        is_global: The names that it makes outlive the group.
        node_setup: Set-up of nets, which runs around the group on the task's nodes.
        on_error: ``warn``: the group continues after a failure of the task.
        repeated: What its flow follows from, if other tasks have the same steps but for names.
    """

    name: str
    spec_position: SpecPosition
    find_needs: Callable[[], SpecPosition]
    group: GroupName
    position: int
    nodes: tuple[str, ...]
    is_global: bool
    steps: tuple[Step, ...]
    needs: tuple[str, ...] = ()
    instances: int = 1
    hogwild: bool = False
    rebuild: bool = False
    on_error: Literal["fail", "warn"] = "fail"
    timeout_s: float = 0.0
    retry: Retry | None = None
    setup: tuple[SetupNets, ...] = ()
    instance_setup: tuple[SetupNets, ...] = ()
    node_setup: tuple[SetupNets, ...] = ()
    reports: tuple[Report, ...] = ()
    outputs: tuple[Output, ...] = ()
    records: Records = NO_RECORDS
    repeated: RepeatedFlow | None = None

    @property
    def path(self) -> str:
        """Return the path of the task, such as ``epoch/lloyd``."""
        return self.spec_position.path

    @property
    def has_operators_only(self) -> bool:
        """Return whether all steps of a task are operators, without set-up and reports."""
        others = self.setup or self.instance_setup or self.reports
        return not others and {Net}.issuperset(map(type, self.steps))

    def step_lists(self) -> tuple[tuple[Step, ...], ...]:
        """Return all lists of steps of a task's draft: its own, of set-up and of reports."""
        setups = (*self.setup, *self.instance_setup)
        return (self.steps, *step_lists_around(setups, self.reports))

    def find_write_position(self, name: str) -> SpecPosition:
        """Return the position in the spec where a task first writes a name; else its own."""
        for uses in (self.flow.once, self.flow.inner, self.flow.reporting):
            spec_position = uses.writes.get(name) or uses.atomic.get(name)
            if spec_position is not None:
                return spec_position
        return self.spec_position

    @cached_property
    def flow(self) -> TaskFlow:
        """Return which names a task reads and writes, analysed once for all its nodes."""
        return _analyse_flow(self)


class GroupDraft(Struct, frozen=True, dict=True):
    """The draft of a group as declared, before its tasks are put on nodes.

    Attributes:
        tasks: In the order of their declaration.
        order: The order that their needs define, by position.
        setups: For each node, the set-up around its tasks.
        reports: For each node, the reports beside its tasks.
        remote: Nets that the session keeps and runs on request.
        origin: Where the group is declared.
    """

    name: GroupName
    workspace: Workspace
    tasks: tuple[TaskDraft, ...] = ()
    order: TaskOrder = field(default_factory=lambda: TaskOrder(()))
    setups: Mapping[str, tuple[SetupNets, ...]] = field(default_factory=dict)
    reports: Mapping[str, tuple[Report, ...]] = field(default_factory=dict)
    remote: tuple[RemoteNet, ...] = ()
    origin: Origin = NOWHERE

    def nodes(self) -> tuple[str, ...]:
        """List the nodes of a group's tasks, in the order of first use."""
        return tuple(dict.fromkeys(node for task in self.tasks for node in task.nodes))


Groups = Mapping[GroupName, GroupDraft]


class JobDraft(Struct, frozen=True, dict=True):
    """The draft of a job, from a spec or built in Python: lowered and not yet analysed.

    Attributes:
        job: All that needs no analysis: settings, nodes, queues; conditions and metrics whose
            blobs have no nodes yet. Its groups, state and exactness are not looked at.
        groups: All four groups.
        params: The params by name, with secret values.
        saved_nodes: The nodes to checkpoint; None for all that hold state.
        saved_nodes_at: The position of ``checkpoint.nodes``.
        every_at: The position of ``checkpoint.every``.
        stop_is_whole: No stop condition was left out because of a fault.
    """

    job: Job
    groups: Groups
    params: Mapping[str, object] = field(default_factory=dict)
    saved_nodes: tuple[str, ...] | None = None
    saved_nodes_at: Origin = NOWHERE
    every_at: Origin = NOWHERE
    stop_is_whole: bool = True


def walk_readers(groups: Groups) -> Iterator[tuple[Reader, TaskDraft]]:
    """Walk through the tasks of groups; yield each reader with the task that reads it."""
    for group in groups.values():
        for task in group.tasks:
            if isinstance(task.records.read, ReadRecords):
                yield task.records.read.reader, task


def _analyse_flow(task: TaskDraft) -> TaskFlow:
    others = task.setup or task.instance_setup or task.reports or task.outputs
    if not others and not isinstance(task.records.read, ReadRecords):
        # Most tasks of a large job have only a body, so this case comes first.
        repeated = task.repeated if task.records is NO_RECORDS else None
        if repeated is not None and (known := repeated.find()):
            return TaskFlow(known[0], {}, {}, {}, _NO_USES, known[1], _NO_USES, [])
        analysis = FlowAnalysis()
        body = _summarise_body(analysis, task)
        if repeated is not None and not analysis.problems:
            repeated.learn(body, analysis.uses)
        return TaskFlow(
            body, {}, {}, {}, _NO_USES, analysis.uses, _NO_USES, analysis.problems, analysis.carried
        )
    once, inner, reporting = FlowAnalysis(), FlowAnalysis(), FlowAnalysis()
    inits = once.setups(task.setup, "init")
    instance = inner.setups(task.instance_setup, "init")
    begun = _summarise_source(task, once)
    at_start = Summary()
    at_start.then(inits, [])
    at_start.then(instance, [])
    instance.then(_summarise_body(inner, task), inner.problems)
    instance.then(inner.setups(task.instance_setup, "exit"), inner.problems)
    exits = once.setups(task.setup, "exit")
    total = Summary()
    problems: list[FlowProblem] = []
    for part in (inits, begun, instance, exits):
        total.then(part, problems)
    exit_needs = {
        name: spec_position
        for name, spec_position in exits.needs.items()
        if name in instance.end and name not in inits.end
    }
    needs = Summary(end=dict(at_start.end))
    if FAILED not in {**once.uses.writes, **inner.uses.writes}:
        # Without a blob of that name, ``failed`` is the flag that the last report reads.
        needs.end[FAILED] = Status.SET
    for report in task.reports:
        needs.then(Summary(reporting.block(report.steps, report.path).needs), problems)
    at_end = Summary(end=dict(total.end))
    for output in task.outputs:
        access = ACCESS_FINDER.of_expr(output.value)
        spec_position = SpecPosition(f"{task.path}.{output.name}", task.spec_position.origin)
        once.uses.outputs |= {(read.task, read.output): spec_position for read in access.outputs}
        at_end.read(access.reads, spec_position, problems)
    problems = [*once.problems, *inner.problems, *reporting.problems, *problems]
    return TaskFlow(
        total,
        needs.needs,
        at_end.needs,
        exit_needs,
        once.uses,
        inner.uses,
        reporting.uses,
        problems,
        inner.carried,
    )


def _summarise_body(finder: FlowAnalysis, task: TaskDraft) -> Summary:
    """Summarise which names the steps and records of a task need, assign and delete."""
    records = task.records
    fields = dict.fromkeys(records.fields, records.read_at) if records.is_loop else None
    return finder.body(task.steps, task.path, fields, records.sent())


def _summarise_source(task: TaskDraft, once: FlowAnalysis) -> Summary:
    """Summarise which blobs the reader of a task reads when the task starts."""
    summary = Summary()
    read = task.records.read
    if isinstance(read, ReadRecords):
        access = ACCESS_FINDER.of_expr(*source_expressions(read.reader))
        once.uses.note(access, task.records.read_at)
        summary.read((*access.reads, *access.atomic), task.records.read_at, once.problems)
    return summary
