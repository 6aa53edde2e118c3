"""What of a group runs on which node, and what nodes have to tell each other. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from jobrun.graph.data import ReadQueue
from jobrun.graph.expr import OutputRead
from jobrun.graph.rewrite import parts_of
from jobrun.graph.types import NodeReport, NodeSetup, OutputRef, Task, TaskGroup
from jobrun.runtime.queues import LineKey, LinePlan, line_key, line_plans

_Placed = TypeVar("_Placed", Task, NodeSetup, NodeReport)
# By the name of a task, all nodes that it is on.
Places = Mapping[str, Mapping[str, None]]


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a group on one node.

    Attributes:
        group: Its tasks, set-up and reports there.
        reads: Outputs of tasks that something there reads.
        awaited: Tasks that tasks there need, and that run elsewhere, if perhaps there too.
        told: Tasks there that tasks elsewhere need, if only by way of others.
        lines: Queues that other nodes use too, and whether nobody else reads them.
        places: The node in whose place a node is, for all that are not in their own.
    """

    node: str
    group: TaskGroup
    reads: frozenset[OutputRef]
    awaited: tuple[str, ...]
    told: tuple[str, ...]
    lines: tuple[tuple[LineKey, bool], ...]
    places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shares:
    """A group, divided.

    Attributes:
        whole: The group.
        by_node: In the order of first use.
        followers: Of each task, the nodes that hear of its end on other nodes.
        tellers: Of each task, the nodes whose end of it others hear of.
        lines: Queues that several nodes use.
        outputs: Of all tasks, in their order.
    """

    whole: TaskGroup
    by_node: dict[str, Share]
    followers: dict[str, tuple[str, ...]]
    tellers: dict[str, frozenset[str]]
    lines: tuple[LinePlan, ...]
    outputs: tuple[OutputRef, ...]


def shares_of(group: TaskGroup, at: Mapping[str, str] = MappingProxyType({})) -> Shares:
    """Divide a group whose needs are sound, in time that grows as the number of tasks does.

    Args:
        group: The group.
        at: Nodes that are in the place of another one. To the others such a place is one node: it
            has the name of that one.
    """
    around = [one.node for one in group.setup] + [one.node for one in group.reports]
    used_nodes = (*around, *(one.node for one in group.tasks))
    nodes = tuple(dict.fromkeys(at.get(one, one) for one in used_nodes))
    places: dict[str, dict[str, None]] = {}
    for task in group.tasks:
        places.setdefault(task.name, {})[at.get(task.node, task.node)] = None
    followers = _followers(group, places)
    tellers = {
        name: frozenset(node for node in places[name] if any(one != node for one in told))
        for name, told in followers.items()
    }
    lines = _lines_between(group, at)
    used: dict[str, list[tuple[LineKey, bool]]] = {}
    for key, (users, readers) in lines.items():
        for node in users:
            used.setdefault(node, []).append((key, readers == {node}))
    return Shares(
        group,
        {
            node: replace(
                _share(node, part, places, tellers, tuple(used.get(node, ()))), places=dict(at)
            )
            for node, part in _parts(group, nodes, at).items()
        },
        followers,
        tellers,
        tuple(plan for plan in line_plans(group) if plan.key in lines),
        tuple(OutputRef(t.name, t.node, one.name) for t in group.tasks for one in t.outputs),
    )


def _share(
    node: str,
    part: TaskGroup,
    places: Places,
    tellers: Mapping[str, frozenset[str]],
    lines: tuple[tuple[LineKey, bool], ...],
) -> Share:
    needed = dict.fromkeys(name for one in part.tasks for name in one.needs)
    return Share(
        node,
        part,
        frozenset(OutputRef(one.task, one.node, one.output) for one in parts_of(part, OutputRead)),
        tuple(name for name in needed if _is_elsewhere(places[name], node)),
        tuple(dict.fromkeys(one.name for one in part.tasks if node in tellers[one.name])),
        lines,
    )


def _parts(group: TaskGroup, nodes: Iterable[str], at: Mapping[str, str]) -> dict[str, TaskGroup]:
    """What of the group is on each node, or in its place."""
    tasks, setup = _by_node(group.tasks, at), _by_node(group.setup, at)
    reports = _by_node(group.reports, at)
    return {
        node: replace(
            group,
            tasks=tuple(tasks.get(node, ())),
            setup=tuple(setup.get(node, ())),
            reports=tuple(reports.get(node, ())),
            remote=(),
        )
        for node in nodes
    }


def _by_node(things: Iterable[_Placed], at: Mapping[str, str]) -> dict[str, list[_Placed]]:
    found: dict[str, list[_Placed]] = {}
    for one in things:
        found.setdefault(at.get(one.node, one.node), []).append(one)
    return found


def _is_elsewhere(own: Mapping[str, None], node: str) -> bool:
    """Whether a task with these places is also, or only, on other nodes than that one."""
    return len(own) > 1 or node not in own


def _followers(group: TaskGroup, places: Places) -> dict[str, tuple[str, ...]]:
    """For each task the nodes with a task that comes after it, directly or not.

    Those are left out on which alone it runs.
    """
    after: dict[str, set[str]] = {}
    for task in group.tasks:
        for need in task.needs:
            after.setdefault(need, set()).add(task.name)
    found = {}
    for name, own in places.items():
        later = dict.fromkeys(
            node for other in sorted(_reachable(name, after)) for node in places[other]
        )
        found[name] = tuple(node for node in later if _is_elsewhere(own, node))
    return found


def _reachable(name: str, after: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    left = [name]
    while left:
        for later in after.get(left.pop(), ()):
            if later not in found:
                found.add(later)
                left.append(later)
    return found


def _lines_between(
    group: TaskGroup, at: Mapping[str, str]
) -> dict[LineKey, tuple[frozenset[str], frozenset[str]]]:
    """The lines that several nodes use: who uses them, and who reads them."""
    users: dict[LineKey, set[str]] = {}
    readers: dict[LineKey, set[str]] = {}
    for task in group.tasks:
        place = at.get(task.node, task.node)
        for one in task.write:
            users.setdefault(line_key(one.queue, task.node), set()).add(place)
        if isinstance(task.read, ReadQueue):
            key = line_key(task.read.queue, task.node)
            users.setdefault(key, set()).add(place)
            readers.setdefault(key, set()).add(place)
    return {
        key: (frozenset(nodes), frozenset(readers.get(key, ())))
        for key, nodes in users.items()
        if len(nodes) > 1
    }
