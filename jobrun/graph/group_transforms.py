"""Transform a group of tasks: map it to other nodes, make it one task, or keep what resumes run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from typing import TypeVar

from msgspec.structs import replace

from jobrun.core.errors import SpecError
from jobrun.core.text.names import did_you_mean
from jobrun.graph.expressions import Const, OutputRead
from jobrun.graph.query import used_nodes
from jobrun.graph.steps import (
    Loop,
    Parallel,
    PulledBlob,
    Step,
)
from jobrun.graph.traversal import find_parts, rewrite_parts
from jobrun.graph.types import (
    NodeReport,
    NodeSetup,
    RemoteNet,
    Scope,
    Task,
    TaskGroup,
)

Remap = Callable[[str], str] | Mapping[str, str]
_Scoped = TypeVar("_Scoped", Task, NodeSetup, NodeReport)
_Part = TypeVar("_Part", NodeSetup, NodeReport, RemoteNet)


def to_task(group: TaskGroup, name: str = "grouped", node: str = "") -> Task:
    """Convert a whole group of tasks to a single task on one node that does the same work.

    Its body runs the tasks' bodies in parallel, in as many rounds as their needs require. All
    set-up, that of the node first, runs before the first round; exits run after the last, in
    reverse. Outputs are in the order of the tasks. Random streams are those of the places in the
    new task. An empty group gives an empty task.

    Args:
        group: A completed group: the scopes of its tasks must be known.
        name: The name of the new task.
        node: The node on which it runs; the group's only node if empty.

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
        message = f"the group runs on {len(nodes)} nodes, but a task runs on one"
        raise SpecError.of("E195", message, f"name the node, for example node='{nodes[0]}'")
    node = node or (nodes[0] if nodes else "local")
    _require_no_remote_nets(group, name)
    _require_mergeable(group)
    group = remap_nodes(group, lambda _: node)
    return Task(
        name,
        node,
        tuple(_build_round(tasks) for tasks in _split_rounds(group.tasks)),
        setup=(
            *(setup.nets for setup in group.setup),
            *(nets for task in group.tasks for nets in (*task.setup, *task.instance_setup)),
        ),
        reports=(
            *(report.report for report in group.reports),
            *(report for task in group.tasks for report in task.reports),
        ),
        outputs=tuple(output for task in group.tasks for output in task.outputs),
        hogwild=any(task.hogwild for task in group.tasks),
        rebuild=any(task.rebuild for task in group.tasks),
        path=f"{group.name}/{name}",
    )


def _split_rounds(tasks: tuple[Task, ...]) -> list[list[Task]]:
    """Split a group's tasks in rounds: each needs tasks of earlier rounds only."""
    rounds: list[list[Task]] = []
    unplaced = list(tasks)
    done: set[str] = set()
    while unplaced:
        names = {task.name for task in unplaced}
        round_ = [task for task in unplaced if not names.intersection(task.needs)]
        if not round_:
            cycle = ", ".join(sorted(names))
            message = f"circular dependency: {cycle}"
            raise SpecError.of("E173", message, "remove one of these needs")
        rounds.append(round_)
        done.update(task.name for task in round_)
        unplaced = [task for task in unplaced if task.name not in done]
    return rounds


def _build_round(tasks: list[Task]) -> Step:
    return Parallel(tuple((_wrap_body(task),) for task in tasks))


def _wrap_body(task: Task) -> Loop:
    """Wrap a task's steps in a one-pass loop, which its ``stop`` leaves in the merged task."""
    return Loop(Const(1), task.steps, task.path)


def _require_no_remote_nets(group: TaskGroup, name: str) -> None:
    if group.remote:
        net = group.remote[0]
        raise SpecError.of(
            "E194",
            f"the group has the remote net '{net.name}' on node '{net.node}', which the task "
            f"'{name}' cannot hold",
            "remove it first: replace(group, remote=())",
            where=net.origin,
            path=net.path,
        )


def _require_mergeable(group: TaskGroup) -> None:
    names = {task.name for task in group.tasks}
    for task in group.tasks:
        read = (
            output_read.task
            for output_read in find_parts(task, OutputRead)
            if output_read.task in names
        )
        inner = next(read, None)
        if task.instances > 1:
            _refuse(task, f"it has {task.instances} instances", "leave it as a separate task")
        if task.timeout_s or task.retry is not None or task.on_error != "fail":
            _refuse(task, "it has its own 'timeout', 'retry' or 'on_error'", "remove them")
        if task.read is not None or task.write:
            _refuse(task, "it reads or writes records", "leave it as a separate task")
        if inner is not None:
            _refuse(task, f"it reads an output of '{inner}'", "read a blob of the node instead")
    kinds = {task.rebuild for task in group.tasks}
    if len(kinds) > 1:
        _refuse(group.tasks[0], "only some tasks of the group have 'rebuild'", "split the group")
    _require_distinct_names(group.tasks)
    outputs = [(output.name, task) for task in group.tasks for output in task.outputs]
    for (first, _), (second, task) in combinations(outputs, 2):
        if first == second:
            _refuse(task, f"another task also has an output '{second}'", "rename one of them")


def _require_distinct_names(tasks: tuple[Task, ...]) -> None:
    local_names: dict[str, Task] = {}
    for task in tasks:
        for name, scope in task.scopes:
            if scope in (Scope.TASK, Scope.INSTANCE):
                other = local_names.setdefault(name, task)
                if other is not task:
                    message = f"'{other.name}' also has its own '{name}'"
                    _refuse(task, message, "rename one of the two blobs")


def _refuse(task: Task, why: str, mend: str) -> None:
    message = f"task '{task.name}' cannot become part of another: {why}"
    raise SpecError.of("E194", message, mend, where=task.origin, path=task.path)


def remap_nodes(group: TaskGroup, remap: Remap) -> TaskGroup:
    """Transform a group: move its tasks to other nodes; each stays a task of its own.

    Equal set-up and reports that are moved to one node run once there; remote nets follow their
    node.

    The workspaces of names that move, and the node properties of a remote net, are cleared;
    completing the job derives them again.

    Args:
        group: The tasks.
        remap: From a node's name to another; nodes that a mapping lacks stay where they are.

    Raises:
        SpecError: E195, the mapping names a node that the group does not use, or two tasks of
            one name would be on one node.

    >>> from jobrun.graph.types import Task, TaskGroup
    >>> group = TaskGroup("epoch", (Task("a", "n0", ()), Task("b", "n1", ())))
    >>> used_nodes(remap_nodes(group, {"n1": "n0"}))
    ('n0',)
    """
    move = _build_move(group, remap)
    group = rewrite_parts(
        group, PulledBlob, lambda pulled: replace(pulled, nodes=tuple(map(move, pulled.nodes)))
    )
    tasks = tuple(_move(task, move(task.node)) for task in group.tasks)
    taken: dict[str, Task] = {}
    for new, old in zip(tasks, group.tasks, strict=True):
        other = taken.setdefault(new.full_name, old)
        if other is not old:
            raise SpecError.of(
                "E195",
                f"task '{old.name}' would be on '{new.node}' twice, from '{other.node}' and "
                f"'{old.node}'",
                "map only one of the two nodes to it",
                where=old.origin,
                path=old.path,
            )
    return replace(
        group,
        tasks=tasks,
        setup=_move_setups(group, move),
        reports=_move_reports(group, move),
        remote=_move_nets(group, move),
    )


def rebuild_group(init: TaskGroup) -> TaskGroup:
    """Transform the group ``init`` for a resume: keep ``rebuild`` tasks and all that they need.

    Set-up and reports stay where a task stays.
    """
    wanted = {task.name for task in init.tasks if task.rebuild}
    needs = {task.name: task.needs for task in init.tasks}
    reached: set[str] = set()
    while wanted:
        name = wanted.pop()
        reached.add(name)
        wanted.update(need for need in needs.get(name, ()) if need not in reached)
    tasks = tuple(task for task in init.tasks if task.name in reached)
    nodes = {task.node for task in tasks}
    return replace(
        init,
        tasks=tasks,
        setup=tuple(setup for setup in init.setup if setup.node in nodes),
        reports=tuple(report for report in init.reports if report.node in nodes),
    )


def _build_move(group: TaskGroup, remap: Remap) -> Callable[[str], str]:
    if callable(remap):
        return remap
    table = dict(remap)
    known = (*used_nodes(group), *(net.node for net in group.remote))
    for node in table:
        if node not in known:
            message = f"the group does not use a node '{node}'"
            raise SpecError.of("E195", message, did_you_mean(node, known))
    return lambda node: table.get(node, node)


def _move_setups(group: TaskGroup, move: Callable[[str], str]) -> tuple[NodeSetup, ...]:
    return _remove_duplicates(_move(setup, move(setup.node)) for setup in group.setup)


def _move_reports(group: TaskGroup, move: Callable[[str], str]) -> tuple[NodeReport, ...]:
    return _remove_duplicates(_move(report, move(report.node)) for report in group.reports)


def _move_nets(group: TaskGroup, move: Callable[[str], str]) -> tuple[RemoteNet, ...]:
    return _remove_duplicates(
        net if move(net.node) == net.node else replace(net, node=move(net.node), props=())
        for net in group.remote
    )


def _move(part: _Scoped, node: str) -> _Scoped:
    """Move a task, set-up or report of a group to a node, without the scopes found for the old."""
    return part if part.node == node else replace(part, node=node, scopes=())


def _remove_duplicates(parts: Iterable[_Part]) -> tuple[_Part, ...]:
    unique: list[_Part] = []
    for part in parts:
        if part not in unique:
            unique.append(part)
    return tuple(unique)
