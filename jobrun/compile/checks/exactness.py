"""Find the parts of a job because of which a resumed run may be inexact: differ in its bits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from jobrun.compile.analysis.queues import QueueEnds, find_queue_ends
from jobrun.compile.analysis.scopes import NodeView
from jobrun.compile.checks.visibility import strip_prefix
from jobrun.compile.job_draft.tasks_and_groups import GroupDraft, TaskDraft
from jobrun.graph.conditions import Probe, StopCondition, StopWhen
from jobrun.graph.expressions import Builtin, Call, Draw, Expr
from jobrun.graph.query import expressions, op_expressions, walk
from jobrun.graph.readers import ReadQueue, ReadRecords, readers_in, source_expressions
from jobrun.graph.steps import CallPython, Net, Perform, RunProgram, Step, Stop
from jobrun.graph.traversal import children, walk_expr
from jobrun.graph.types import Exactness, GroupName, Report, Scope
from jobrun.ops.access_finder import ACCESS_FINDER
from jobrun.ops.operator_table import find_operator

# Steps that say whether they are deterministic.
_DECLARING = (CallPython, RunProgram)


def find_inexactness(
    groups: Mapping[GroupName, GroupDraft],
    views: Mapping[GroupName, Mapping[str, NodeView]],
    stop: Iterable[StopCondition],
    *more: Probe,
) -> Exactness:
    """Collect why a resume may be inexact, not the same bit for bit: of groups, then of probes.

    Args:
        groups: All groups of the job.
        views: The same groups on their nodes.
        stop: The stop conditions.
        *more: Metrics and other conditions.
    """
    reasons = dict.fromkeys(
        reason for name, group in groups.items() for reason in _group_reasons(group, views[name])
    )
    conditions = (condition.probe for condition in stop if isinstance(condition, StopWhen))
    for probe in (*conditions, *more):
        reasons |= dict.fromkeys(_expression_reasons(probe.parts, probe.path))
    return Exactness(tuple(reasons))


def _group_reasons(group: GroupDraft, views: Mapping[str, NodeView]) -> Iterator[tuple[str, str]]:
    counting: dict[str, Mapping[str, int]] = {}
    for task in group.tasks:
        if task.records.is_loop:
            yield from _reader_reasons(task)
        if task.hogwild:
            yield task.path, "hogwild: the results of its races depend on timing"
        # Most tasks call no such operator. The functions of unreachable steps are not recorded.
        has_calls = bool(task.flow.problems) or any(
            map(_is_nondeterministic, task.flow.functions())
        )
        if has_calls or not task.has_operators_only:
            for steps in task.step_lists():
                yield from _step_reasons(steps, has_calls=has_calls)
        for output in task.outputs:
            yield from _expression_reasons((output.value,), f"{task.path}.{output.name}")
        view = views[task.nodes[0]]
        if task.reports:
            yield from _report_reasons(task, view)
        if task.flow.inner.atomic or task.flow.once.atomic:
            if view.node not in counting:
                counting[view.node] = _find_counting_tasks(view)
            yield from _counter_reasons(task, view, counting[view.node])
    yield from _record_reasons(group, views)
    seen: set[int] = set()
    for view in views.values():
        for nets in group.setups.get(view.node, ()):
            if id(nets) not in seen:
                seen.add(id(nets))
                for steps in (nets.init, nets.exit):
                    yield from _step_reasons(steps)
        for report in group.reports.get(view.node, ()):
            if id(report) not in seen:
                seen.add(id(report))
                yield from _step_reasons(report.steps)
                yield from _group_report_reasons(report, view)


def _reader_reasons(task: TaskDraft) -> Iterator[tuple[str, str]]:
    read = task.records.read
    for reader in readers_in(read.reader) if isinstance(read, ReadRecords) else ():
        if reader.time_limit_s:
            yield reader.path, "how far it gets before its timeout depends on timing"
        yield from _expression_reasons(source_expressions(reader), reader.path)


def _step_reasons(steps: tuple[Step, ...], *, has_calls: bool = True) -> Iterator[tuple[str, str]]:
    for step in walk(steps):
        if isinstance(step, _DECLARING) and not step.deterministic:
            yield step.path, "the step is marked deterministic: false"
        if has_calls:
            yield from _expression_reasons(expressions(step), step.path)


def _expression_reasons(exprs: Iterable[Expr], path: str) -> Iterator[tuple[str, str]]:
    for expr in exprs:
        for part in walk_expr(expr):
            if isinstance(part, Call) and _is_nondeterministic(part.function):
                yield path, f"the operator '{part.function}' is not deterministic"


def _report_reasons(task: TaskDraft, view: NodeView) -> Iterator[tuple[str, str]]:
    """Yield why a task is not exact: a timed report writes a blob that other steps use."""
    flow = task.flow
    used = {*flow.inner.names(), *flow.once.names(), *flow.outputs}
    for name, spec_position in {**flow.reporting.atomic, **flow.reporting.writes}.items():
        if view.shared_scope(name) is not None or name in used:
            yield spec_position.path, f"a timed report writes '{strip_prefix(name)}'"


def _find_counting_tasks(view: NodeView) -> dict[str, int]:
    """Map each counter blob to the tasks (a bit set) that count with it, to check exactness."""
    counting: dict[str, int] = {}
    for position, task in view.tasks.items():
        for name in {**task.flow.inner.atomic, **task.flow.once.atomic}:
            counting[name] = counting.get(name, 0) | 1 << position
    return counting


def _counter_reasons(
    task: TaskDraft, view: NodeView, counting: Mapping[str, int]
) -> Iterator[tuple[str, str]]:
    """Yield where concurrent tasks use a counter's value, so that a resume is not exact.

    The final value of the counter does not depend on it.
    """
    counters = {
        name
        for name in {**task.flow.inner.atomic, **task.flow.once.atomic}
        if _is_counted_concurrently(task, view, name, counting)
    }
    if not counters:
        return
    for steps in task.step_lists():
        for step in walk(steps):
            for expr, path in _used_expressions(step):
                for part in walk_expr(expr):
                    if isinstance(part, Call) and counters.intersection(
                        ACCESS_FINDER.counted(part)
                    ):
                        name = strip_prefix(ACCESS_FINDER.counted(part)[0])
                        yield path, f"which thread gets which value of '{name}' depends on timing"


def _is_counted_concurrently(
    task: TaskDraft, view: NodeView, name: str, counting: Mapping[str, int]
) -> bool:
    if task.instances > 1 and view.scope(task, name) is not Scope.INSTANCE:
        return name in task.flow.inner.atomic
    if view.shared_scope(name) is None:
        return False
    return bool(view.group.order.select_unordered(counting[name], task.position))


def _used_expressions(step: Step) -> Iterator[tuple[Expr, str]]:
    """Yield a step's expressions without dropped results, which make no resume inexact."""
    if not isinstance(step, Net):
        for expr in expressions(step):
            yield expr, step.path
        return
    for op in step.ops:
        # The value of a call for its effect is dropped; the values of its arguments are used.
        exprs = children(op.value) if isinstance(op, Perform) else op_expressions(op)
        for expr in exprs:
            yield expr, op.path


def _group_report_reasons(report: Report, view: NodeView) -> Iterator[tuple[str, str]]:
    uses = view.report_uses(report)
    for name, spec_position in {**uses.atomic, **uses.writes}.items():
        if view.shared_scope(name) is not None:
            yield spec_position.path, f"a timed report writes '{strip_prefix(name)}'"


@cache
def _is_nondeterministic(operator: str) -> bool:
    definition = find_operator(operator)
    return definition is not None and not definition.deterministic


Reasons = Iterator[tuple[str, str]]


def _record_reasons(group: GroupDraft, views: Mapping[str, NodeView]) -> Reasons:
    """Yield why a job is inexact: a resumed run may give a record to another task.

    Args:
        group: The group.
        views: The group on each of its nodes.
    """
    for queue_ends in find_queue_ends(group).values():
        yield from _writer_reasons(group, queue_ends)
        yield from _queue_reader_reasons(queue_ends)
    for task in group.tasks:
        if _shares_records(task):
            yield from _instance_reasons(task, views[task.nodes[0]])


def _writer_reasons(group: GroupDraft, queue_ends: QueueEnds) -> Reasons:
    """Yield why a queue is inexact: its order is not fixed, and several tasks write it."""
    queue = queue_ends.queue
    if queue.ordered:
        return
    tasks = [task for task, _, _ in queue_ends.writers]
    before = group.order.is_before
    alone = all(
        before(first.position, second.position) or before(second.position, first.position)
        for number, second in enumerate(tasks)
        for first in tasks[:number]
    )
    if alone and all(_count_threads(task, queue_ends) == 1 for task in tasks):
        return
    names = ", ".join(_task_text(task) for task in tasks)
    yield (
        queue.path,
        (f"the order of the records of {names} in queue '{queue.name}' depends on timing"),
    )


def _queue_reader_reasons(queue_ends: QueueEnds) -> Reasons:
    """Yield why a resumed run may read other records from a queue, and so is not exact."""
    queue = queue_ends.queue
    if len(queue_ends.readers) > 1 or any(
        queue.shared and len(t.nodes) > 1 for t, _ in queue_ends.readers
    ):
        task, spec_position = queue_ends.readers[-1]
        yield (
            spec_position.path,
            f"which records task '{task.name}' gets from queue '{queue.name}' depends on timing",
        )
    varies = "depends on timing"
    for task, _ in queue_ends.readers:
        for step in walk(task.steps):
            if isinstance(step, Stop) and step.target == task.path:
                yield (
                    step.path,
                    f"how much of queue '{queue.name}' has been written by then {varies}",
                )


def _instance_reasons(task: TaskDraft, view: NodeView) -> Reasons:
    """Yield why ``instances`` make a task inexact: timing decides which gets a record."""
    gets = "which instance gets which record depends on timing"
    for name, spec_position in task.flow.carried.items():
        if view.scope(task, name) is Scope.INSTANCE:
            yield (
                spec_position.path,
                f"{gets}, and '{strip_prefix(name)}' is what the last one wrote",
            )
    for step, reason in _find_distinguishing_steps(task):
        yield step.path, f"{gets}, and {reason}"
    if task.outputs:
        yield task.path, f"{gets}, and each has its own outputs"
    for setup in task.instance_setup:
        if setup.exit:
            yield f"{setup.name}.exit", f"{gets}, and this reads what each of them wrote"
    for step in walk(task.steps):
        if isinstance(step, Stop) and step.target == task.path:
            yield step.path, f"{gets}, and the other instances continue"


def _find_distinguishing_steps(task: TaskDraft) -> Iterator[tuple[Step, str]]:
    """Yield steps that make a task's instances differ, so that a resumed run is not exact."""
    for step in walk(task.steps):
        if _reads_builtin(step, "instance"):
            yield step, "this step reads the number of the instance"
    for setup in task.instance_setup:
        for step in walk(setup.init):
            if _reads_builtin(step, "instance") or any(
                isinstance(part, Draw) for expr in expressions(step) for part in walk_expr(expr)
            ):
                yield step, "this set-up makes the instances differ"


def _reads_builtin(step: Step, builtin: str) -> bool:
    return any(
        isinstance(part, Builtin) and part.name == builtin
        for expr in expressions(step)
        for part in walk_expr(expr)
    )


def _shares_records(task: TaskDraft) -> bool:
    """Return whether a task's instances compete for records, and so are not exact."""
    read = task.records.read
    if task.instances <= 1 or read is None:
        return False
    return isinstance(read, ReadQueue) or (
        isinstance(read, ReadRecords) and read.reader.shard != "instance"
    )


def _count_threads(task: TaskDraft, queue_ends: QueueEnds) -> int:
    """Count the threads of a task that write to one queue; with two, its order is inexact."""
    return task.instances * (len(task.nodes) if queue_ends.queue.shared else 1)


def _task_text(task: TaskDraft) -> str:
    count = task.instances
    return f"the {count} instances of '{task.name}'" if count > 1 else f"'{task.name}'"
