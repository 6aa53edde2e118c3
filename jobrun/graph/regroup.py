"""A group as one task. Pure: any number of times, in any order."""

from __future__ import annotations

from itertools import combinations

from jobrun.core.errors import SpecError
from jobrun.graph.expr import Const, OutputRead
from jobrun.graph.query import remapped, used_nodes
from jobrun.graph.rewrite import parts_of
from jobrun.graph.steps import Loop, Parallel, Step
from jobrun.graph.types import Scope, Task, TaskGroup


def to_task(group: TaskGroup, name: str = "grouped", node: str = "") -> Task:
    """The whole group as one task on one node.

    Its body runs the tasks' bodies at the same time, in as many turns as their needs ask for.
    All set-up, that of the node first, runs before the first turn; exits run after the last,
    reversed. Outputs stand in the order of the tasks. Random streams are those of the places in
    the new task. An empty group gives an empty task.

    Args:
        group: A completed group: it must be known which names each task has for itself.
        name: Of the new task.
        node: Where it runs; the group's only node if empty.

    Raises:
        SpecError: E194, the tasks cannot be one; E195, the group is on several nodes and none
            is named.

    >>> from jobrun.graph.types import Task, TaskGroup
    >>> both = to_task(TaskGroup("epoch", (Task("a", "n0", ()), Task("b", "n0", ()))))
    >>> both.full_name, len(both.steps)
    ('n0/grouped', 1)
    """
    nodes = used_nodes(group)
    if len(nodes) > 1 and not node:
        message = f"the group is on {len(nodes)} nodes, and one task is on one"
        raise SpecError.of("E195", message, f"name the node, for example node='{nodes[0]}'")
    node = node or (nodes[0] if nodes else "local")
    _check_local(group, name)
    _check_mergeable(group)
    group = remapped(group, lambda _: node)
    return Task(
        name,
        node,
        tuple(_turn(tasks) for tasks in _turns(group.tasks)),
        setup=(
            *(one.nets for one in group.setup),
            *(nets for task in group.tasks for nets in (*task.setup, *task.instance_setup)),
        ),
        reports=(
            *(one.report for one in group.reports),
            *(report for task in group.tasks for report in task.reports),
        ),
        outputs=tuple(output for task in group.tasks for output in task.outputs),
        hogwild=any(task.hogwild for task in group.tasks),
        rebuild=any(task.rebuild for task in group.tasks),
        path=f"{group.name}/{name}",
    )


def _turns(tasks: tuple[Task, ...]) -> list[list[Task]]:
    """Tasks in turns, each of which needs only what is in earlier ones."""
    turns: list[list[Task]] = []
    left = list(tasks)
    done: set[str] = set()
    while left:
        names = {task.name for task in left}
        turn = [task for task in left if not names.intersection(task.needs)]
        if not turn:
            circle = ", ".join(sorted(names))
            message = f"these tasks wait for each other: {circle}"
            raise SpecError.of("E173", message, "take one need away")
        turns.append(turn)
        done.update(task.name for task in turn)
        left = [task for task in left if task.name not in done]
    return turns


def _turn(tasks: list[Task]) -> Step:
    return Parallel(tuple((_block(task),) for task in tasks))


def _block(task: Task) -> Loop:
    """The body as a block of one pass under its old path, which its stops may name."""
    return Loop(Const(1), task.steps, task.path)


def _check_local(group: TaskGroup, name: str) -> None:
    if group.remote:
        net = group.remote[0]
        raise SpecError.of(
            "E194",
            f"the group keeps the remote net '{net.name}' for node '{net.node}', and the task "
            f"'{name}' has no place for it",
            "take it out first: replace(group, remote=())",
            where=net.origin,
            path=net.path,
        )


def _check_mergeable(group: TaskGroup) -> None:
    names = {task.name for task in group.tasks}
    for task in group.tasks:
        read = (one.task for one in parts_of(task, OutputRead) if one.task in names)
        inner = next(read, None)
        if task.instances > 1:
            _refuse(task, f"it has {task.instances} instances", "leave it as it is")
        if task.timeout_s or task.retry is not None or task.on_error != "fail":
            _refuse(task, "it has a timeout, a retry or an 'on_error' of its own", "take them out")
        if task.read is not None or task.write:
            _refuse(task, "it reads or writes records", "leave it as it is")
        if inner is not None:
            _refuse(task, f"it reads an output of '{inner}'", "hand over a blob of the node")
    kinds = {task.rebuild for task in group.tasks}
    if len(kinds) > 1:
        _refuse(group.tasks[0], "some of the group are rebuilt, and others not", "split the group")
    _check_names(group.tasks)
    outputs = [(output.name, task) for task in group.tasks for output in task.outputs]
    for (one, _), (two, task) in combinations(outputs, 2):
        if one == two:
            _refuse(task, f"another task has an output '{two}', too", "rename one of them")


def _check_names(tasks: tuple[Task, ...]) -> None:
    own: dict[str, Task] = {}
    for task in tasks:
        for name, scope in task.scopes:
            if scope in (Scope.TASK, Scope.INSTANCE):
                other = own.setdefault(name, task)
                if other is not task:
                    message = f"'{other.name}' has a '{name}' of its own, too"
                    _refuse(task, message, "give one of the two blobs another name")


def _refuse(task: Task, why: str, mend: str) -> None:
    message = f"task '{task.name}' cannot become part of another: {why}"
    raise SpecError.of("E194", message, mend, where=task.origin, path=task.path)
