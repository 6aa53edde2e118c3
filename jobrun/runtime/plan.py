"""A group of tasks, made ready to run any number of times. Runs nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobrun.blobs.values import Value
from jobrun.graph.query import walk
from jobrun.graph.steps import CallPython
from jobrun.graph.types import NodeReport, NodeSetup, OutputRef, SetupNets, Task, TaskGroup
from jobrun.runtime.actions import Actions
from jobrun.runtime.alias import is_fresh
from jobrun.runtime.codegen import Block, compile_block, compile_expression
from jobrun.runtime.lapping import Metering
from jobrun.runtime.opaque import opaque_names
from jobrun.runtime.queues import LinePlan, handing_over, line_plans
from jobrun.runtime.records import RecordPlan, record_block
from jobrun.runtime.streams import record_plan
from jobrun.runtime.usage import BlockNames, GroupUsage, Steps
from jobrun.runtime.watch import ends_apart


@dataclass(frozen=True, slots=True)
class SetupPlan:
    """Blocks around a scope."""

    init: Block
    exit: Block


@dataclass(frozen=True, slots=True)
class ReportPlan:
    """A block that runs at an interval."""

    interval_s: float
    block: Block


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """One output: where its value comes from, and whether it can be taken without a copy."""

    name: str
    ref: OutputRef
    value: Callable[[Any], Value]
    is_fresh: bool


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """A task's blocks.

    Attributes:
        may_block: It may not return to a step boundary for an unknown time.
        records: How it reads and writes records; None for a task that does neither.
        ends_apart: It can end by itself; see ``watch``.
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
    ends_apart: bool = False
    is_bare: bool = False


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What runs around and beside all tasks of a group on one node."""

    node: str
    setup: tuple[SetupPlan, ...] = ()
    reports: tuple[ReportPlan, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A group; ``nodes`` are those it uses, in the order of first use.

    Attributes:
        changed: Per node, the names of shared blobs that may be changed in place.
        lines: What is made for its queues at each run.
        opaque: Per node, those of ``changed`` that code may change which cannot be seen into.
        is_alone: It is one bare task that ends soon once it is asked to, and nothing else: it
            needs no thread of its own, and nobody to wait for it.
    """

    group: TaskGroup
    tasks: tuple[TaskPlan, ...]
    nodes: tuple[NodePlan, ...]
    changed: Mapping[str, frozenset[str]]
    lines: tuple[LinePlan, ...] = ()
    opaque: Mapping[str, frozenset[str]] = field(default_factory=dict)
    is_alone: bool = False


def plan_group(group: TaskGroup, meter: Metering | None = None) -> GroupPlan:
    """Make all code of a group; measured by ``meter``, if there is one."""
    known = GroupUsage(group, meter)
    places: dict[str, None] = {}
    nodes = [one.node for one in group.setup] + [one.node for one in group.reports]
    for node in (*nodes, *(task.node for task in group.tasks)):
        places.setdefault(node)
    tasks = tuple(_task_plan(task, known) for task in group.tasks)
    around = tuple(_node_plan(node, group, known) for node in places)
    lines = line_plans(group)
    return GroupPlan(
        group,
        tasks,
        around,
        {node: known.changed(node) for node in places},
        lines,
        {node: opaque_names(group, node) for node in places},
        not lines and _is_alone(tasks, around),
    )


def _is_alone(tasks: tuple[TaskPlan, ...], around: tuple[NodePlan, ...]) -> bool:
    if len(tasks) != 1 or any(one.setup or one.reports for one in around):
        return False
    (one,) = tasks
    return one.is_bare and not (one.may_block or one.ends_apart or one.task.needs)


def _task_plan(task: Task, known: GroupUsage) -> TaskPlan:
    reports = tuple(report.steps for report in task.reports)
    names = handing_over(task, known.task_block(task, task.steps, beside=reports))
    records = record_plan(task, names)
    return TaskPlan(
        task,
        tuple(_setup_plan(task, one, known) for one in task.setup),
        tuple(_setup_plan(task, one, known) for one in task.instance_setup),
        _block(task.steps, record_block(task), names),
        tuple(
            ReportPlan(one.interval_s, _block(one.steps, one.path, _beside(task, one.steps, known)))
            for one in task.reports
        ),
        tuple(_output_plan(task, index, names) for index in range(len(task.outputs))),
        records is not None
        or any(isinstance(step, CallPython) for steps in _all(task) for step in walk(steps)),
        records,
        ends_apart(task),
        not (task.setup or task.instance_setup or task.reports or records is not None)
        and task.instances <= 1,
    )


def _setup_plan(task: Task, nets: SetupNets, known: GroupUsage) -> SetupPlan:
    return SetupPlan(
        _block(nets.init, f"{nets.name}.init", known.task_block(task, nets.init)),
        _block(nets.exit, f"{nets.name}.exit", known.task_block(task, nets.exit), in_exit=True),
    )


def _beside(task: Task, steps: Steps, known: GroupUsage) -> BlockNames:
    """A report runs beside the body and the task's other reports."""
    others = [one.steps for one in task.reports if one.steps is not steps]
    return known.task_block(task, steps, beside=(task.steps, *others))


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
        tuple(_node_setup(one, known) for one in group.setup if one.node == node),
        tuple(_node_report(one, known) for one in group.reports if one.node == node),
    )


def _node_setup(setup: NodeSetup, known: GroupUsage) -> SetupPlan:
    nets, node = setup.nets, setup.node
    init = known.node_block(node, nets.init, setup.scopes)
    leave = known.node_block(node, nets.exit, setup.scopes)
    return SetupPlan(
        _block(nets.init, f"{nets.name}.init", init),
        _block(nets.exit, f"{nets.name}.exit", leave, in_exit=True),
    )


def _node_report(report: NodeReport, known: GroupUsage) -> ReportPlan:
    steps = report.report.steps
    names = known.node_block(report.node, steps, report.scopes)
    return ReportPlan(report.report.interval_s, _block(steps, report.report.path, names))


def _block(steps: Steps, path: str, names: BlockNames, *, in_exit: bool = False) -> Block:
    return compile_block(steps, path, names, Actions(names, in_exit=in_exit), in_exit=in_exit)


def _all(task: Task) -> list[Steps]:
    around = [part for one in task.setup + task.instance_setup for part in (one.init, one.exit)]
    return [*around, task.steps, *(report.steps for report in task.reports)]
