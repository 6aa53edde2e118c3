"""Query a graph: list its steps, operators, nodes and names; find parts by name or node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar, assert_never

from jobrun.core.errors import SpecError
from jobrun.core.origin import Origin
from jobrun.core.text.names import did_you_mean
from jobrun.graph.effects.effect import Effect
from jobrun.graph.expressions import Expr, OutputRead
from jobrun.graph.readers import CallSource, FileSource, Reader
from jobrun.graph.steps import (
    Assign,
    Augment,
    CallPython,
    DataFile,
    Delete,
    Guard,
    If,
    ItemTarget,
    Load,
    Loop,
    Net,
    Op,
    Parallel,
    Perform,
    PulledBlob,
    Step,
    Stop,
    UseNet,
    While,
)
from jobrun.graph.traversal import find_parts, rewrite_parts
from jobrun.graph.types import (
    Job,
    NodeReport,
    NodeSetup,
    OutputRef,
    RemoteNet,
    Report,
    SetupNets,
    Task,
    TaskGroup,
)

Remap = Callable[[str], str] | Mapping[str, str]
_Scoped = TypeVar("_Scoped", Task, NodeSetup, NodeReport)
_Part = TypeVar("_Part", NodeSetup, NodeReport, RemoteNet)


def blocks(step: Step) -> tuple[tuple[Step, ...], ...]:
    """List the blocks directly inside a step of the graph: loop bodies, branches."""
    match step:
        case UseNet() | Loop() | While() | Guard():
            return (step.steps,)
        case If():
            return (*(then for _, then in step.branches), step.otherwise)
        case Parallel():
            return step.branches
        case _:
            return ()


def walk(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Walk through the steps of a graph: yield each, and then the steps inside it."""
    for step in steps:
        yield step
        for block in blocks(step):
            yield from walk(block)


def ops(steps: tuple[Step, ...]) -> Iterator[Op]:
    """List every operator in the nets among some steps of a graph, in the order of the text."""
    for step in walk(steps):
        if isinstance(step, Net):
            yield from step.ops


def makers(tasks: Iterable[Task]) -> dict[str, tuple[str, Origin]]:
    """Map each blob that the tasks of a graph make to the first step that binds it.

    Of steps whose own text names the blob: assignments and calls.
    """
    found: dict[str, tuple[str, Origin]] = {}
    for task in tasks:
        for step in walk(task.steps):
            if isinstance(step, Net):
                for op in step.ops:
                    if isinstance(op, Assign):
                        for target in op.targets:
                            found.setdefault(target.name, (op.path, op.origin))
            elif isinstance(step, CallPython):
                for name in step.outputs:
                    found.setdefault(name, (step.path, step.origin))
    return found


def op_expressions(op: Op) -> tuple[Expr, ...]:
    """List the expressions of one operator in the graph: target indices, then value."""
    match op:
        case Assign(targets=targets, value=value):
            items = tuple(target.index for target in targets if isinstance(target, ItemTarget))
            return (*items, value)
        case Augment(target=ItemTarget(index=index), value=value):
            return (index, value)
        case Augment(value=value) | Perform(value=value):
            return (value,)
        case Delete():
            return ()
        case _:
            assert_never(op)


def expressions(step: Step) -> tuple[Expr, ...]:
    """List the expressions of a step in the graph, without those of steps inside it."""
    match step:
        case Effect():
            return step.expressions()
        case Net():
            return tuple(expr for op in step.ops for expr in op_expressions(op))
        case Loop():
            return () if step.count is None else (step.count,)
        case While():
            return (step.condition,)
        case If():
            return tuple(condition for condition, _ in step.branches)
        case Stop():
            return () if step.condition is None else (step.condition,)
        case UseNet() | Guard() | Parallel():
            return ()
        case _:
            assert_never(step)


def used_nodes(group: TaskGroup) -> tuple[str, ...]:
    """List the nodes that tasks of a group in the graph use, in the order of first use."""
    return tuple(dict.fromkeys(task.node for task in group.tasks))


def remap_nodes(group: TaskGroup, remap: Remap) -> TaskGroup:
    """Move the tasks of a group in the graph to other nodes; those on one node remain separate.

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
        group, PulledBlob, lambda one: replace(one, nodes=tuple(map(move, one.nodes)))
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


def tasks_by_node(group: TaskGroup, remap: Remap | None = None) -> dict[str, tuple[Task, ...]]:
    """List the tasks of a group in the graph by node, in the order of first use.

    Args:
        group: The tasks.
        remap: As in ``remap_nodes``.

    Raises:
        SpecError: E195, as in ``remap_nodes``.
    """
    found: dict[str, list[Task]] = {}
    for task in remap_nodes(group, remap or {}).tasks:
        found.setdefault(task.node, []).append(task)
    return {node: tuple(tasks) for node, tasks in found.items()}


def tasks_by_name(group: TaskGroup) -> tuple[tuple[Task, tuple[str, ...]], ...]:
    """List each declared task of a group by its name once, with all its nodes."""
    found: dict[str, tuple[Task, list[str]]] = {}
    for task in group.tasks:
        found.setdefault(task.name, (task, []))[1].append(task.node)
    return tuple((task, tuple(nodes)) for task, nodes in found.values())


def setup_by_name(group: TaskGroup) -> tuple[tuple[SetupNets, tuple[str, ...]], ...]:
    """List each set-up of a group by its name once, with all its nodes."""
    found: dict[str, tuple[SetupNets, list[str]]] = {}
    for around in group.setup:
        found.setdefault(around.nets.name, (around.nets, []))[1].append(around.node)
    return tuple((nets, tuple(nodes)) for nets, nodes in found.values())


def reports_by_path(group: TaskGroup) -> tuple[tuple[Report, tuple[str, ...]], ...]:
    """List each report (periodic steps) of a group by its path once, with all its nodes."""
    found: dict[str, tuple[Report, list[str]]] = {}
    for beside in group.reports:
        found.setdefault(beside.report.path, (beside.report, []))[1].append(beside.node)
    return tuple((report, tuple(nodes)) for report, nodes in found.values())


def remote_by_path(group: TaskGroup) -> tuple[tuple[RemoteNet, tuple[str, ...]], ...]:
    """List each remote net of a group by its path once, with all its nodes."""
    found: dict[str, tuple[RemoteNet, list[str]]] = {}
    for net in group.remote:
        found.setdefault(net.path, (net, []))[1].append(net.node)
    return tuple((net, tuple(nodes)) for net, nodes in found.values())


def find_objects(job: Job) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Query, per node of a graph, the constants that are objects changed by callables.

    They are made again at every start, and their saved state is loaded. An object that callables
    only read is like any other constant.
    """
    lent: dict[str, set[str]] = {}
    for group in job.groups:
        for task in group.tasks:
            lent.setdefault(task.node, set()).update(task.objects)
    return tuple((node, tuple(sorted(names))) for node, names in lent.items() if names)


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
    return _remove_duplicates(_move(one, move(one.node)) for one in group.setup)


def _move_reports(group: TaskGroup, move: Callable[[str], str]) -> tuple[NodeReport, ...]:
    return _remove_duplicates(_move(one, move(one.node)) for one in group.reports)


def _move_nets(group: TaskGroup, move: Callable[[str], str]) -> tuple[RemoteNet, ...]:
    return _remove_duplicates(
        net if move(net.node) == net.node else replace(net, node=move(net.node), props=())
        for net in group.remote
    )


def _move(part: _Scoped, node: str) -> _Scoped:
    """Move a part of a graph to another node; its scopes become unknown."""
    return part if part.node == node else replace(part, node=node, scopes=())


def _remove_duplicates(parts: Iterable[_Part]) -> tuple[_Part, ...]:
    found: list[_Part] = []
    for one in parts:
        if one not in found:
            found.append(one)
    return tuple(found)


def kept_names(job: Job) -> dict[str, tuple[str, ...]]:
    """List the names of state and constants that each node of a job keeps between epochs."""
    kept: dict[str, set[str]] = {node.name: set() for node in job.cluster}
    for node, names in (*job.state, *job.constants):
        kept[node].update(names)
    return {node: tuple(sorted(names)) for node, names in kept.items()}


def rebuild_group(init: TaskGroup) -> TaskGroup:
    """Select from the init group what runs at every start: ``rebuild`` tasks and their needs.

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


def outputs_read_later(job: Job) -> frozenset[OutputRef]:
    """List the outputs of a job's tasks that are read after their group has ended.

    They outlive their group, so they are part of what a checkpoint stores.
    """
    looks = (job.stop, job.fail_if, job.metrics, job.expect)
    after_init = frozenset(_reads((job.epoch, job.download, job.exit, looks)))
    after_epoch = frozenset(_reads((job.download, job.exit, looks)))
    by_init = {task.name for task in job.init.tasks}
    by_epoch = {task.name for task in job.epoch.tasks}
    return frozenset(
        {ref for ref in after_init if ref.task in by_init}
        | {ref for ref in after_epoch if ref.task in by_epoch}
    )


def group_outputs(group: TaskGroup) -> frozenset[OutputRef]:
    """List the outputs of all tasks of a group in the graph."""
    return frozenset(
        OutputRef(task.name, task.node, output.name)
        for task in group.tasks
        for output in task.outputs
    )


def iter_steps(job: Job) -> Iterator[Step]:
    """List every step of a job, set-up and reports included, outer before inner ones.

    Those of remote nets run elsewhere, if at all. What a reader reads or calls is yielded as
    the step that would read or call the same.
    """
    groups = tuple(replace(group, remote=()) for group in job.groups)
    kinds: Any = Step
    yield from find_parts(groups, kinds)
    for reader in dict.fromkeys(find_parts(groups, Reader)):
        match reader.source:
            case FileSource(path=path, folder=folder):
                files = (
                    DataFile(one.name, path, member, folder)
                    for one in reader.fields
                    for member in one.members
                )
                yield Load(tuple(files), reader.path, reader.origin)
            case CallSource(target=target, arguments=arguments):
                names = tuple(one.name for one in reader.fields)
                yield CallPython(
                    target, arguments, (), names, path=reader.path, origin=reader.origin
                )
            case _:
                pass


def has_callables(job: Job) -> bool:
    """Return whether any step in the graph of a job calls Python code of the user."""
    return any(isinstance(step, CallPython) for step in iter_steps(job))


def _reads(thing: Any) -> Iterator[OutputRef]:
    for read in find_parts(thing, OutputRead):
        yield OutputRef(read.task, read.node, read.output)
