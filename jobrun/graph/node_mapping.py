"""Map the tasks of a group in the graph to other nodes, and list them by node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from jobrun.core.errors import SpecError
from jobrun.core.text.names import did_you_mean
from jobrun.graph.query import used_nodes
from jobrun.graph.steps import (
    PulledBlob,
)
from jobrun.graph.traversal import rewrite_parts
from jobrun.graph.types import (
    NodeReport,
    NodeSetup,
    RemoteNet,
    Task,
    TaskGroup,
)

Remap = Callable[[str], str] | Mapping[str, str]
_Scoped = TypeVar("_Scoped", Task, NodeSetup, NodeReport)
_Part = TypeVar("_Part", NodeSetup, NodeReport, RemoteNet)


def remap_nodes(group: TaskGroup, remap: Remap) -> TaskGroup:
    """Apply a mapping of nodes to a group: its tasks move; those on one node remain separate.

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
    """Group tasks by node, after a mapping of nodes if one is given, in order of first use.

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
    """Map a task, set-up or report to another node; its scopes become unknown."""
    return part if part.node == node else replace(part, node=node, scopes=())


def _remove_duplicates(parts: Iterable[_Part]) -> tuple[_Part, ...]:
    found: list[_Part] = []
    for one in parts:
        if one not in found:
            found.append(one)
    return tuple(found)
