"""Why a resumed run may differ from an unbroken one, place by place. Reports; refuses nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from jobrun.compile.context import FINDER
from jobrun.compile.groups import GroupDraft
from jobrun.compile.scopes import NodeView
from jobrun.compile.tasks import Draft
from jobrun.compile.timing import of_records
from jobrun.compile.visible import shown
from jobrun.graph.conditions import Exactness
from jobrun.graph.data import ReadRecords, readers_in
from jobrun.graph.expr import Call, Expr
from jobrun.graph.query import expressions, op_expressions, walk
from jobrun.graph.steps import CallPython, Net, Perform, RunProgram, Step
from jobrun.graph.types import GroupName, Report, Scope, SetupNets
from jobrun.graph.walk import children, walk_expr
from jobrun.ops.plugins import find_operator


def exactness(
    groups: Mapping[GroupName, GroupDraft], views: Mapping[GroupName, Mapping[str, NodeView]]
) -> Exactness:
    """All reasons, each once, in the order of the spec."""
    reasons: dict[tuple[str, str], None] = {}
    for name, group in groups.items():
        for reason in _of_group(group, views[name]):
            reasons.setdefault(reason)
    return Exactness(tuple(reasons))


def _of_group(group: GroupDraft, views: Mapping[str, NodeView]) -> Iterator[tuple[str, str]]:
    for task in group.tasks:
        yield from _of_reader(task)
        if task.spec.hogwild:
            yield task.path, "hogwild: what its races give depends on timing"
        for steps in _all_steps(task):
            yield from _of_steps(steps)
        view = views[task.nodes[0]]
        yield from _of_reports(task, view)
        yield from _of_counts(task, view)
    yield from of_records(group, views)
    seen: set[int] = set()
    for view in views.values():
        for nets in group.setups.get(view.node, []):
            if id(nets) not in seen:
                seen.add(id(nets))
                yield from _of_setup(nets)
        for report in group.reports.get(view.node, []):
            if id(report) not in seen:
                seen.add(id(report))
                yield from _of_steps(report.steps)
                yield from _of_group_report(report, view)


def _of_reader(task: Draft) -> Iterator[tuple[str, str]]:
    read = task.records.read
    for reader in readers_in(read.reader) if isinstance(read, ReadRecords) else ():
        if reader.time_limit_s:
            yield reader.path, "how far it is when its time is over depends on timing"


def _all_steps(task: Draft) -> Iterator[tuple[Step, ...]]:
    yield task.steps
    for setup in (*task.setup, *task.instance_setup):
        yield setup.init
        yield setup.exit
    for report in task.reports:
        yield report.steps


def _of_setup(nets: SetupNets) -> Iterator[tuple[str, str]]:
    yield from _of_steps(nets.init)
    yield from _of_steps(nets.exit)


def _of_steps(steps: tuple[Step, ...]) -> Iterator[tuple[str, str]]:
    for step in walk(steps):
        if isinstance(step, CallPython | RunProgram) and not step.deterministic:
            yield step.path, "the step is marked deterministic: false"
        for expr in expressions(step):
            for part in walk_expr(expr):
                if isinstance(part, Call) and _is_unsteady(part.function):
                    yield step.path, f"the operator '{part.function}' is not deterministic"


def _of_reports(task: Draft, view: NodeView) -> Iterator[tuple[str, str]]:
    """A report that writes what anything but reports reads: how often it ran then counts."""
    flow = task.flow
    used = {*flow.inner.names(), *flow.once.names(), *flow.outputs}
    for name, place in {**flow.reporting.atomic, **flow.reporting.writes}.items():
        if view.shared_scope(name) is not None or name in used:
            yield place.path, f"a timed report writes '{shown(name)}'"


def _of_counts(task: Draft, view: NodeView) -> Iterator[tuple[str, str]]:
    """A counter's old value that is used: which thread gets which one depends on timing.

    What the counter holds in the end does not.
    """
    counters = {
        name for name in {**task.flow.inner.atomic, **task.flow.once.atomic}
        if _is_counted_beside(task, view, name)
    }  # fmt: skip
    if not counters:
        return
    for steps in _all_steps(task):
        for step in walk(steps):
            for expr, path in _used_expressions(step):
                for part in walk_expr(expr):
                    if isinstance(part, Call) and counters.intersection(FINDER.counted(part)):
                        name = shown(FINDER.counted(part)[0])
                        yield path, f"which thread gets which value of '{name}' depends on timing"


def _is_counted_beside(task: Draft, view: NodeView, name: str) -> bool:
    if task.spec.instances > 1 and view.scope(task, name) is not Scope.INSTANCE:
        return name in task.flow.inner.atomic
    if view.shared_scope(name) is None:
        return False
    order = view.group.order
    position = task.position
    return any(
        name in {**other.flow.inner.atomic, **other.flow.once.atomic}
        and not order.is_before(place, position)
        and not order.is_before(position, place)
        for place, other in view.tasks.items()
        if other is not task
    )


def _used_expressions(step: Step) -> Iterator[tuple[Expr, str]]:
    """The expressions of a step whose value goes anywhere, with the path."""
    if not isinstance(step, Net):
        for expr in expressions(step):
            yield expr, step.path
        return
    for op in step.ops:
        # The value of a call for its effect is dropped; those of its arguments are not.
        exprs = children(op.value) if isinstance(op, Perform) else op_expressions(op)
        for expr in exprs:
            yield expr, op.path


def _of_group_report(report: Report, view: NodeView) -> Iterator[tuple[str, str]]:
    ledger = view.report_ledger(report)
    for name, place in {**ledger.atomic, **ledger.writes}.items():
        if view.shared_scope(name) is not None:
            yield place.path, f"a timed report writes '{shown(name)}'"


@cache
def _is_unsteady(operator: str) -> bool:
    definition = find_operator(operator)
    return definition is not None and not definition.deterministic
