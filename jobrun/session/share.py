"""What of a group runs on which node, and what nodes have to tell each other. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jobrun.graph.data import ReadQueue
from jobrun.graph.expr import OutputRead
from jobrun.graph.rewrite import parts_of
from jobrun.graph.types import OutputRef, TaskGroup
from jobrun.runtime.queues import LineKey, LinePlan, line_key, line_plans
from jobrun.session.beyond import TaskOnNode


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a group on one node.

    Attributes:
        group: Its tasks, set-up and reports there.
        reads: Outputs of tasks that something there reads.
        awaited: Tasks elsewhere that tasks there need.
        told: Tasks there that tasks elsewhere need, if only by way of others.
        lines: Queues that other nodes use too, and whether nobody else reads them.
    """

    node: str
    group: TaskGroup
    reads: frozenset[OutputRef]
    awaited: tuple[TaskOnNode, ...]
    told: tuple[str, ...]
    lines: tuple[tuple[LineKey, bool], ...]


@dataclass(frozen=True, slots=True)
class Shares:
    """A group, divided.

    Attributes:
        whole: The group.
        by_node: In the order of first use.
        followers: Of each task, by name and node, the other nodes that hear of its end.
        lines: Queues that several nodes use.
        outputs: Of all tasks, in their order.
    """

    whole: TaskGroup
    by_node: dict[str, Share]
    followers: dict[TaskOnNode, tuple[str, ...]]
    lines: tuple[LinePlan, ...]
    outputs: tuple[OutputRef, ...]


def shares_of(group: TaskGroup) -> Shares:
    """Divide a group whose needs are sound."""
    around = [one.node for one in group.setup] + [one.node for one in group.reports]
    nodes = tuple(dict.fromkeys((*around, *(one.node for one in group.tasks))))
    followers = _followers(group)
    lines = _lines_between(group)
    return Shares(
        group,
        {node: _share(group, node, followers, lines) for node in nodes},
        followers,
        tuple(plan for plan in line_plans(group) if plan.key in lines),
        tuple(OutputRef(t.name, t.node, one.name) for t in group.tasks for one in t.outputs),
    )


def _share(
    group: TaskGroup,
    node: str,
    followers: dict[TaskOnNode, tuple[str, ...]],
    lines: dict[LineKey, tuple[frozenset[str], frozenset[str]]],
) -> Share:
    part = replace(
        group,
        tasks=tuple(one for one in group.tasks if one.node == node),
        setup=tuple(one for one in group.setup if one.node == node),
        reports=tuple(one for one in group.reports if one.node == node),
        remote=(),
    )
    needed = {name for one in part.tasks for name in one.needs}
    return Share(
        node,
        part,
        frozenset(OutputRef(one.task, one.node, one.output) for one in parts_of(part, OutputRead)),
        tuple((one.name, one.node) for one in group.tasks
              if one.name in needed and one.node != node),
        tuple(name for (name, at), told in followers.items() if at == node and told),
        tuple((key, readers == {node}) for key, (users, readers) in lines.items()
              if node in users),
    )  # fmt: skip


def _followers(group: TaskGroup) -> dict[TaskOnNode, tuple[str, ...]]:
    """For each task the other nodes with a task that comes after it, directly or not."""
    places: dict[str, dict[str, None]] = {}
    after: dict[str, set[str]] = {}
    for task in group.tasks:
        places.setdefault(task.name, {})[task.node] = None
        for need in task.needs:
            after.setdefault(need, set()).add(task.name)
    later = {name: _reachable(name, after) for name in places}
    return {
        (task.name, task.node): tuple(
            dict.fromkeys(
                node
                for name in sorted(later[task.name])
                for node in places[name]
                if node != task.node
            )
        )
        for task in group.tasks
    }


def _reachable(name: str, after: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    left = [name]
    while left:
        for later in after.get(left.pop(), ()):
            if later not in found:
                found.add(later)
                left.append(later)
    return found


def _lines_between(group: TaskGroup) -> dict[LineKey, tuple[frozenset[str], frozenset[str]]]:
    """The lines that several nodes use: who uses them, and who reads them."""
    users: dict[LineKey, set[str]] = {}
    readers: dict[LineKey, set[str]] = {}
    for task in group.tasks:
        for one in task.write:
            users.setdefault(line_key(one.queue, task.node), set()).add(task.node)
        if isinstance(task.read, ReadQueue):
            key = line_key(task.read.queue, task.node)
            users.setdefault(key, set()).add(task.node)
            readers.setdefault(key, set()).add(task.node)
    return {
        key: (frozenset(nodes), frozenset(readers.get(key, ())))
        for key, nodes in users.items()
        if len(nodes) > 1
    }
