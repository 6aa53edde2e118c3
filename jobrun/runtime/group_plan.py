"""Compile all blocks of a task group into a plan that runs any number of times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from jobrun.graph.concurrent_calls import find_early_imports
from jobrun.graph.query import walk
from jobrun.graph.readers import ReadQueue, ReadRecords, record_fields, record_path
from jobrun.graph.steps import CallPython
from jobrun.graph.types import (
    NodeReport,
    NodeSetup,
    OutputRef,
    Report,
    SetupNets,
    Task,
    TaskGroup,
)
from jobrun.runtime.codegen.alias_analysis import is_fresh
from jobrun.runtime.codegen.compiler import Block, compile_block, compile_expression
from jobrun.runtime.codegen.line_table import StepLocation
from jobrun.runtime.codegen.liveness import (
    BlockNames,
    GroupUsage,
    Steps,
    add_moved_names,
    collect_usage,
    find_moved_names,
    find_opaque_names,
)
from jobrun.runtime.codegen.meter_protocol import Instrumenter
from jobrun.runtime.codegen.record_statements import RecordAccess, SentRecord
from jobrun.runtime.codegen.statements import FLAG
from jobrun.runtime.context.frame import Frame
from jobrun.runtime.records.queue_endpoints import (
    QueuePlan,
    QueueSink,
    QueueSource,
    plan_queues,
)
from jobrun.runtime.records.record_loop import (
    RecordPlan,
    RecordSource,
    Streams,
)
from jobrun.runtime.steps.dispatch import Actions
from jobrun.runtime.task_limits import has_own_scope
from jobrun.values.blob_kinds import Value


class SetupPlan(Struct, frozen=True):
    """The compiled blocks before and after a scope."""

    init: Block
    exit: Block


class ReportPlan(Struct, frozen=True):
    """The compiled block of a report, which runs at an interval."""

    interval_s: float
    block: Block


class OutputPlan(Struct, frozen=True):
    """The plan of one output: where its value comes from, and whether it needs no copy."""

    name: str
    ref: OutputRef
    value: Callable[[Any], Value]
    is_fresh: bool


class TaskPlan(Struct, frozen=True):
    """The compiled blocks of a task.

    Attributes:
        may_block: It may not return to a step boundary for an unknown time.
        records: How it reads and writes records; None for a task that does neither.
        has_own_scope: It can end by itself; see ``task_limits``.
        is_bare: There is nothing to it but one body and outputs.
    """

    task: Task
    setup: tuple[SetupPlan, ...]
    instance_setup: tuple[SetupPlan, ...]
    body: Block
    reports: tuple[ReportPlan, ...]
    outputs: tuple[OutputPlan, ...]
    may_block: bool
    records: RecordPlan | None = None
    has_own_scope: bool = False
    is_bare: bool = False


class NodePlan(Struct, frozen=True):
    """The compiled blocks around and beside all tasks of a group on one node."""

    node: str
    setup: tuple[SetupPlan, ...] = ()
    reports: tuple[ReportPlan, ...] = ()


class GroupPlan(Struct, frozen=True):
    """A compiled group; ``nodes`` are those it uses, in the order of first use.

    Attributes:
        changed: Per node, the names of shared blobs that may be changed in place.
        queues: What is made for its queues at each run.
        opaque: Per node, those of ``changed`` that code may change which cannot be seen into.
        is_alone: It is one bare task that ends soon once it is asked to, and nothing else: it
            needs no thread of its own, and no thread that waits for it.
        early_imports: Targets and folders of callables whose modules are imported before its tasks.
    """

    group: TaskGroup
    tasks: tuple[TaskPlan, ...]
    nodes: tuple[NodePlan, ...]
    changed: Mapping[str, frozenset[str]]
    queues: tuple[QueuePlan, ...] = ()
    opaque: Mapping[str, frozenset[str]] = field(default_factory=dict)
    is_alone: bool = False
    early_imports: tuple[tuple[str, str], ...] = ()


def plan_group(group: TaskGroup, meter: Instrumenter | None = None) -> GroupPlan:
    """Plan a task group's runs: compile its steps to Python, with timers if given a ``meter``."""
    known = GroupUsage(group, meter)
    node_names: dict[str, None] = {}
    nodes = [part.node for part in group.setup] + [part.node for part in group.reports]
    for node in (*nodes, *(task.node for task in group.tasks)):
        node_names.setdefault(node)
    tasks = tuple(_task_plan(task, known) for task in group.tasks)
    node_plans = tuple(_node_plan(node, group, known) for node in node_names)
    queues = plan_queues(group)
    opaque = find_opaque_names(group)
    return GroupPlan(
        group,
        tasks,
        node_plans,
        {node: known.changed(node) for node in node_names},
        queues,
        {node: opaque.get(node, frozenset()) for node in node_names},
        not queues and _is_alone(tasks, node_plans),
        find_early_imports(group),
    )


def _is_alone(tasks: tuple[TaskPlan, ...], node_plans: tuple[NodePlan, ...]) -> bool:
    if len(tasks) != 1 or any(node_plan.setup or node_plan.reports for node_plan in node_plans):
        return False
    (task_plan,) = tasks
    return task_plan.is_bare and not (
        task_plan.may_block or task_plan.has_own_scope or task_plan.task.needs
    )


def _task_plan(task: Task, known: GroupUsage) -> TaskPlan:
    reports = tuple(report.steps for report in task.reports)
    names = add_moved_names(task, known.task_block(task, task.steps, concurrent=reports))
    records = plan_records(task, names)
    return TaskPlan(
        task,
        tuple(_setup_plan(task, setup, known) for setup in task.setup),
        tuple(_setup_plan(task, setup, known) for setup in task.instance_setup),
        _block(task.steps, body_path(task), names, records=_record_access(task, names)),
        tuple(
            _report_plan(report, _concurrent_names(task, report.steps, known), _all(task))
            for report in task.reports
        ),
        tuple(_output_plan(task, index, names) for index in range(len(task.outputs))),
        records is not None
        or any(isinstance(step, CallPython) for steps in _all(task) for step in walk(steps)),
        records,
        has_own_scope(task),
        not (task.setup or task.instance_setup or task.reports or records is not None)
        and task.instances <= 1,
    )


def body_path(task: Task) -> str:
    """Return the path of a task's body in the group plan: ``TASK/record`` if the task reads.

    It is what ``stop`` ends.
    """
    return task.path if task.read is None else record_path(task.path)


def _setup_plan(task: Task, nets: SetupNets, known: GroupUsage) -> SetupPlan:
    return SetupPlan(
        _block(nets.init, f"{nets.name}.init", known.task_block(task, nets.init)),
        _block(nets.exit, f"{nets.name}.exit", known.task_block(task, nets.exit), in_exit=True),
    )


def _concurrent_names(task: Task, steps: Steps, known: GroupUsage) -> BlockNames:
    """Plan how a report's steps share blobs with a task's steps that run at the same time."""
    others = [report.steps for report in task.reports if report.steps is not steps]
    return known.task_block(task, steps, concurrent=(task.steps, *others))


def _output_plan(task: Task, index: int, names: BlockNames) -> OutputPlan:
    output = task.outputs[index]
    return OutputPlan(
        output.name,
        OutputRef(task.name, task.node, output.name),
        compile_expression(output.value, names),
        is_fresh(output.value),
    )


def _node_plan(node: str, group: TaskGroup, known: GroupUsage) -> NodePlan:
    return NodePlan(
        node,
        tuple(_node_setup(setup, known) for setup in group.setup if setup.node == node),
        tuple(_node_report(report, known) for report in group.reports if report.node == node),
    )


def _node_setup(setup: NodeSetup, known: GroupUsage) -> SetupPlan:
    nets = setup.nets
    init, leave = known.node_block(setup, nets.init), known.node_block(setup, nets.exit)
    return SetupPlan(
        _block(nets.init, f"{nets.name}.init", init),
        _block(nets.exit, f"{nets.name}.exit", leave, in_exit=True),
    )


def _node_report(report: NodeReport, known: GroupUsage) -> ReportPlan:
    steps = report.report.steps
    names = known.node_block(report, steps)
    return _report_plan(report.report, names, [steps])


def _report_plan(report: Report, names: BlockNames, concurrent: list[Steps]) -> ReportPlan:
    """Plan one of a group's reports: compile the steps that run at an interval.

    There ``failed`` says whether the body failed, unless a blob has that name.
    """
    is_blob = names.is_outer(FLAG) or any(
        FLAG in collect_usage(steps).rebound for steps in concurrent
    )
    return ReportPlan(
        report.interval_s, _block(report.steps, report.path, names, in_exit=not is_blob)
    )


def _block(
    steps: Steps,
    path: str,
    names: BlockNames,
    *,
    in_exit: bool = False,
    records: RecordAccess | None = None,
) -> Block:
    actions = Actions(names, in_exit=in_exit)
    return compile_block(steps, path, names, actions, in_exit=in_exit, records=records)


def _all(task: Task) -> list[Steps]:
    setup_steps = [
        part for setup in task.setup + task.instance_setup for part in (setup.init, setup.exit)
    ]
    return [*setup_steps, task.steps, *(report.steps for report in task.reports)]


def plan_records(task: Task, names: BlockNames) -> RecordPlan | None:
    """Plan how a task of the group reads and writes records; None if it does neither."""
    if task.read is None and not task.write:
        return None
    reader = None
    if isinstance(task.read, ReadRecords):
        # The readers of all kinds of files, for jobs that read some.
        from jobrun.runtime.records.task_reader import ReaderPlan  # noqa: PLC0415

        reader = ReaderPlan(task.read, task.instances, names)
    queue = task.read if isinstance(task.read, ReadQueue) else None

    def streams(frame: Frame) -> Streams:
        source: RecordSource | None = None
        if queue is not None:
            source = QueueSource(queue, task, frame)
        elif reader is not None:
            source = reader.source(frame)
        return Streams(source, tuple(QueueSink(write, task, frame) for write in task.write))

    return RecordPlan(streams, shares_records(task), task.path)


def _record_access(task: Task, names: BlockNames) -> RecordAccess | None:
    """Plan which blobs a task's records bind and send; None if it has no reader and no queue.

    Args:
        task: The task.
        names: What is known of the names of its body.
    """
    if task.read is None and not task.write:
        return None
    moved = find_moved_names(task, names)
    sent = tuple(
        SentRecord(
            write.names,
            moved & frozenset(write.names),
            StepLocation(f"{task.path}/write.{write.queue.name}", task.origin),
        )
        for write in task.write
    )
    return RecordAccess(
        record_fields(task.read), sent, StepLocation(f"{task.path}/read", task.origin)
    )


def shares_records(task: Task) -> bool:
    """Return whether the parallel copies of a planned task share one stream of records."""
    if task.instances <= 1:
        return False
    return not (isinstance(task.read, ReadRecords) and task.read.reader.shard == "instance")
