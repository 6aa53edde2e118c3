"""Questions about a graph, answered from its values alone. Changes and executes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar, assert_never

from jobrun.core.errors import SpecError
from jobrun.core.names import did_you_mean
from jobrun.graph.expr import Expr, Hole, Text
from jobrun.graph.pulled import PulledBlob
from jobrun.graph.rewrite import rewritten
from jobrun.graph.steps import (
    AdoptState,
    Assert,
    Assign,
    Augment,
    CallPython,
    CopyState,
    Delete,
    Guard,
    If,
    ItemTarget,
    Load,
    LoadState,
    Log,
    Loop,
    Net,
    Op,
    Parallel,
    Perform,
    PublishCopy,
    Pull,
    Record,
    RunProgram,
    Save,
    SaveState,
    Step,
    Stop,
    UseNet,
    While,
)
from jobrun.graph.types import (
    Job,
    NodeReport,
    NodeSetup,
    RemoteNet,
    Report,
    SetupNets,
    Task,
    TaskGroup,
)

Remap = Callable[[str], str] | Mapping[str, str]
_Scoped = TypeVar("_Scoped", Task, NodeSetup, NodeReport)
_Around = TypeVar("_Around", NodeSetup, NodeReport, RemoteNet)


def blocks(step: Step) -> tuple[tuple[Step, ...], ...]:
    """The lists of steps directly inside a step; empty for one that holds none."""
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
    """Every step, outer before inner, in the order of the text."""
    for step in steps:
        yield step
        for block in blocks(step):
            yield from walk(block)


def ops(steps: tuple[Step, ...]) -> Iterator[Op]:
    """Every operator of the steps, in the order of the text."""
    for step in walk(steps):
        if isinstance(step, Net):
            yield from step.ops


def op_expressions(op: Op) -> tuple[Expr, ...]:
    """The expressions that an operator evaluates: indices of targets, then its value."""
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


def text_expressions(text: Text) -> tuple[Expr, ...]:
    """The expressions filled into a text."""
    return tuple(part.value for part in text.parts if isinstance(part, Hole))


def expressions(step: Step) -> tuple[Expr, ...]:  # noqa: C901 - one case per kind of a closed union
    """The expressions that a step evaluates itself, without those of steps inside it."""
    match step:
        case Net():
            return tuple(expr for op in step.ops for expr in op_expressions(op))
        case CallPython():
            return tuple(value for _, value in step.arguments)
        case RunProgram():
            return tuple(value for _, value in step.values)
        case Loop():
            return () if step.count is None else (step.count,)
        case While():
            return (step.condition,)
        case If():
            return tuple(condition for condition, _ in step.branches)
        case Stop():
            return () if step.condition is None else (step.condition,)
        case Log():
            return text_expressions(step.text)
        case Record():
            return tuple(value for _, value in step.values)
        case Assert():
            return (step.condition, *text_expressions(step.message))
        case (
            UseNet() | Guard() | Parallel() | Pull() | Load() | Save()
            | SaveState() | LoadState() | AdoptState() | CopyState() | PublishCopy()
        ):  # fmt: skip
            return ()
        case _:
            assert_never(step)


def used_nodes(group: TaskGroup) -> tuple[str, ...]:
    """The nodes of the group's tasks, in the order of first use."""
    return tuple(dict.fromkeys(task.node for task in group.tasks))


def remapped(group: TaskGroup, remap: Remap) -> TaskGroup:
    """The group on other nodes; tasks that land on one node stay apart.

    Set-up and reports that are alike and land on one node run once there; remote nets are kept
    for the node that theirs becomes.

    Which workspace holds a name that moves is left open, and so are the properties of the node
    of a remote net; completing the job derives them anew.

    Args:
        group: The tasks.
        remap: From a node's name to another; a mapping leaves nodes it has not where they are.

    Raises:
        SpecError: E195, the mapping names a node that the group does not use, or two tasks of
            one name would be on one node.

    >>> from jobrun.graph.types import Task, TaskGroup
    >>> group = TaskGroup("epoch", (Task("a", "n0", ()), Task("b", "n1", ())))
    >>> used_nodes(remapped(group, {"n1": "n0"}))
    ('n0',)
    """
    move = _mover(group, remap)
    group = rewritten(
        group, PulledBlob, lambda one: replace(one, nodes=tuple(map(move, one.nodes)))
    )
    tasks = tuple(_moved(task, move(task.node)) for task in group.tasks)
    taken: dict[str, Task] = {}
    for new, old in zip(tasks, group.tasks, strict=True):
        other = taken.setdefault(new.full_name, old)
        if other is not old:
            raise SpecError.of(
                "E195",
                f"task '{old.name}' would be on '{new.node}' twice, from '{other.node}' and "
                f"'{old.node}'",
                "leave one of the two nodes where it is",
                where=old.origin,
                path=old.path,
            )
    return replace(
        group,
        tasks=tasks,
        setup=_moved_setups(group, move),
        reports=_moved_reports(group, move),
        remote=_moved_nets(group, move),
    )


def tasks_by_node(group: TaskGroup, remap: Remap | None = None) -> dict[str, tuple[Task, ...]]:
    """The group's tasks by node, nodes in the order of first use, tasks in their own order.

    Args:
        group: The tasks.
        remap: As that of ``remapped``.

    Raises:
        SpecError: E195, as by ``remapped``.
    """
    found: dict[str, list[Task]] = {}
    for task in remapped(group, remap or {}).tasks:
        found.setdefault(task.node, []).append(task)
    return {node: tuple(tasks) for node, tasks in found.items()}


def tasks_by_name(group: TaskGroup) -> tuple[tuple[Task, tuple[str, ...]], ...]:
    """Each declared task once, as it is on its first node, with all its nodes."""
    found: dict[str, tuple[Task, list[str]]] = {}
    for task in group.tasks:
        found.setdefault(task.name, (task, []))[1].append(task.node)
    return tuple((task, tuple(nodes)) for task, nodes in found.values())


def setup_by_name(group: TaskGroup) -> tuple[tuple[SetupNets, tuple[str, ...]], ...]:
    """Each declared set-up around the group once, with all its nodes."""
    found: dict[str, tuple[SetupNets, list[str]]] = {}
    for around in group.setup:
        found.setdefault(around.nets.name, (around.nets, []))[1].append(around.node)
    return tuple((nets, tuple(nodes)) for nets, nodes in found.values())


def reports_by_path(group: TaskGroup) -> tuple[tuple[Report, tuple[str, ...]], ...]:
    """Each declared report beside the group once, with all its nodes."""
    found: dict[str, tuple[Report, list[str]]] = {}
    for beside in group.reports:
        found.setdefault(beside.report.path, (beside.report, []))[1].append(beside.node)
    return tuple((report, tuple(nodes)) for report, nodes in found.values())


def remote_by_path(group: TaskGroup) -> tuple[tuple[RemoteNet, tuple[str, ...]], ...]:
    """Each declared remote net once, with all its nodes."""
    found: dict[str, tuple[RemoteNet, list[str]]] = {}
    for net in group.remote:
        found.setdefault(net.path, (net, []))[1].append(net.node)
    return tuple((net, tuple(nodes)) for net, nodes in found.values())


def objects_of(job: Job) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Per node, the constants that are made anew at every start and loaded: objects of callables.

    Those that callables change; one that is only looked at is like any other constant.
    """
    lent: dict[str, set[str]] = {}
    for group in job.groups:
        for task in group.tasks:
            lent.setdefault(task.node, set()).update(task.objects)
    return tuple((node, tuple(sorted(names))) for node, names in lent.items() if names)


def _mover(group: TaskGroup, remap: Remap) -> Callable[[str], str]:
    if callable(remap):
        return remap
    table = dict(remap)
    known = (*used_nodes(group), *(net.node for net in group.remote))
    for node in table:
        if node not in known:
            message = f"the group has nothing on a node '{node}'"
            raise SpecError.of("E195", message, did_you_mean(node, known))
    return lambda node: table.get(node, node)


def _moved_setups(group: TaskGroup, move: Callable[[str], str]) -> tuple[NodeSetup, ...]:
    return _distinct(_moved(one, move(one.node)) for one in group.setup)


def _moved_reports(group: TaskGroup, move: Callable[[str], str]) -> tuple[NodeReport, ...]:
    return _distinct(_moved(one, move(one.node)) for one in group.reports)


def _moved_nets(group: TaskGroup, move: Callable[[str], str]) -> tuple[RemoteNet, ...]:
    return _distinct(
        net if move(net.node) == net.node else replace(net, node=move(net.node), props=())
        for net in group.remote
    )


def _moved(part: _Scoped, node: str) -> _Scoped:
    """On another node other names may be there, so which workspace holds what is open again."""
    return part if part.node == node else replace(part, node=node, scopes=())


def _distinct(parts: Iterable[_Around]) -> tuple[_Around, ...]:
    found: list[_Around] = []
    for one in parts:
        if one not in found:
            found.append(one)
    return tuple(found)
