"""Where a pipeline's result depends on which thread was faster, place by place. Refuses nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jobrun.compile.groups import GroupDraft
from jobrun.compile.pipelines import Ends, ends_of
from jobrun.compile.scopes import NodeView
from jobrun.compile.tasks import Draft
from jobrun.compile.visible import shown
from jobrun.graph.data import ReadQueue, ReadRecords
from jobrun.graph.expr import Builtin, Draw
from jobrun.graph.query import expressions, walk
from jobrun.graph.steps import Step, Stop
from jobrun.graph.types import Scope
from jobrun.graph.walk import walk_expr

Reasons = Iterator[tuple[str, str]]


def of_records(group: GroupDraft, views: Mapping[str, NodeView]) -> Reasons:
    """Why records may come to other tasks, or in another order, in another run.

    Args:
        group: The group.
        views: The group on each of its nodes.
    """
    for ends in ends_of(group).values():
        yield from _of_writers(group, ends)
        yield from _of_readers(ends)
    for task in group.tasks:
        if _shares_records(task):
            yield from _of_instances(task, views[task.nodes[0]])


def _of_writers(group: GroupDraft, ends: Ends) -> Reasons:
    """Records of several writers come in any order, unless one ends before the next starts."""
    queue = ends.queue
    if queue.ordered:
        return
    tasks = [task for task, _, _ in ends.writers]
    before = group.order.is_before
    alone = all(
        before(one.position, two.position) or before(two.position, one.position)
        for number, two in enumerate(tasks) for one in tasks[:number]
    )  # fmt: skip
    if alone and all(_hands(task, ends) == 1 for task in tasks):
        return
    names = ", ".join(_counted(task) for task in tasks)
    yield (
        queue.path,
        (f"in which order the records of {names} come into queue '{queue.name}' depends on timing"),
    )


def _of_readers(ends: Ends) -> Reasons:
    """Several tasks, or one on several nodes, that take from one queue; and whoever ends early."""
    queue = ends.queue
    if len(ends.readers) > 1 or any(queue.shared and len(t.nodes) > 1 for t, _ in ends.readers):
        task, place = ends.readers[-1]
        yield place.path, f"what task '{task.name}' gets of queue '{queue.name}' depends on timing"
    varies = "depends on timing"
    for task, _ in ends.readers:
        for step in walk(task.steps):
            if isinstance(step, Stop) and step.target == task.path:
                yield step.path, f"how far the writers of queue '{queue.name}' are by then {varies}"


def _of_instances(task: Draft, view: NodeView) -> Reasons:
    """Whatever would be different if another instance had taken the record."""
    gets = "which instance gets which record depends on timing"
    for name, place in task.flow.carried.items():
        if view.scope(task, name) is Scope.INSTANCE:
            yield place.path, f"{gets}, and '{shown(name)}' is what the last one left"
    for step, reason in _of_own_steps(task):
        yield step.path, f"{gets}, and {reason}"
    if task.outputs:
        yield task.path, f"{gets}, and each has outputs of its own"
    for setup in task.instance_setup:
        if setup.exit:
            yield f"{setup.name}.exit", f"{gets}, and this looks at what each of them has left"
    for step in walk(task.steps):
        if isinstance(step, Stop) and step.target == task.path:
            yield step.path, f"{gets}, and the other instances go on"


def _of_own_steps(task: Draft) -> Iterator[tuple[Step, str]]:
    """Steps by which instances differ from each other."""
    for step in walk(task.steps):
        if _reads(step, "instance"):
            yield step, "this asks which one it is"
    for setup in task.instance_setup:
        for step in walk(setup.init):
            if _reads(step, "instance") or any(
                isinstance(part, Draw) for expr in expressions(step) for part in walk_expr(expr)
            ):
                yield step, "this makes them differ"


def _reads(step: Step, builtin: str) -> bool:
    return any(
        isinstance(part, Builtin) and part.name == builtin
        for expr in expressions(step) for part in walk_expr(expr)
    )  # fmt: skip


def _shares_records(task: Draft) -> bool:
    """Whether the task's instances take their records from one source."""
    read = task.records.read
    if task.spec.instances <= 1 or read is None:
        return False
    return isinstance(read, ReadQueue) or (
        isinstance(read, ReadRecords) and read.reader.shard != "instance"
    )


def _hands(task: Draft, ends: Ends) -> int:
    """How many threads of the task write to one line of the queue."""
    return task.spec.instances * (len(task.nodes) if ends.queue.shared else 1)


def _counted(task: Draft) -> str:
    count = task.spec.instances
    return f"the {count} instances of '{task.name}'" if count > 1 else f"'{task.name}'"
