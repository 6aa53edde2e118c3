"""Partition a task group over nodes, and list what each node's part needs from the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from jobrun.graph.expressions import OutputRead
from jobrun.graph.readers import ReadQueue
from jobrun.graph.traversal import find_parts
from jobrun.graph.types import NodeReport, NodeSetup, OutputRef, Task, TaskGroup
from jobrun.runtime.records.queue_endpoints import QueueKey, QueuePlan, plan_queues, queue_key

_Placed = TypeVar("_Placed", Task, NodeSetup, NodeReport)
# By the name of a task, all nodes that it is on.
TaskNodes = Mapping[str, Mapping[str, None]]


class Partition(Struct, frozen=True):
    """The part of a group on one node.

    Attributes:
        group: Its tasks, set-up and reports there.
        reads: Outputs of tasks that something there reads.
        awaited: Tasks that tasks there need, and that run elsewhere, if perhaps there too.
        needed_elsewhere: Tasks there that tasks elsewhere need, if only by way of others.
        queues: Queues that other nodes use too, and whether no other node reads them.
        placement: By node, the node whose process it shares, for those without their own.
    """

    node: str
    group: TaskGroup
    reads: frozenset[OutputRef]
    awaited: tuple[str, ...]
    needed_elsewhere: tuple[str, ...]
    queues: tuple[tuple[QueueKey, bool], ...]
    placement: Mapping[str, str] = field(default_factory=dict)


class PartitionedGroup(Struct, frozen=True):
    """A task group with its partition for each node.

    Attributes:
        group: The group.
        by_node: In the order of first use.
        followers: Of each task, the nodes that are notified of its end on other nodes.
        awaited_nodes: Of each task, the nodes whose end of it is sent to others.
        queues: Queues that several nodes use.
        outputs: Of all tasks, in their order.
    """

    group: TaskGroup
    by_node: dict[str, Partition]
    followers: dict[str, tuple[str, ...]]
    awaited_nodes: dict[str, frozenset[str]]
    queues: tuple[QueuePlan, ...]
    outputs: tuple[OutputRef, ...]


def partition_group(
    group: TaskGroup, at: Mapping[str, str] = MappingProxyType({})
) -> PartitionedGroup:
    """Partition a group, whose needs are valid, by nodes, in time linear in its tasks.

    Args:
        group: The group.
        at: By node, the node whose process it shares. To the others such a process is one node,
            with the name of the node that owns it.
    """
    setup_nodes = [entry.node for entry in group.setup] + [entry.node for entry in group.reports]
    used_nodes = (*setup_nodes, *(task.node for task in group.tasks))
    nodes = tuple(dict.fromkeys(at.get(node, node) for node in used_nodes))
    places: dict[str, dict[str, None]] = {}
    for task in group.tasks:
        places.setdefault(task.name, {})[at.get(task.node, task.node)] = None
    followers = _find_followers(group, places)
    awaited_nodes = {
        name: frozenset(node for node in places[name] if any(other != node for other in later))
        for name, later in followers.items()
    }
    lines = _find_shared_queues(group, at)
    used: dict[str, list[tuple[QueueKey, bool]]] = {}
    for key, (users, readers) in lines.items():
        for node in users:
            used.setdefault(node, []).append((key, readers == {node}))
    return PartitionedGroup(
        group,
        {
            node: replace(
                _build_partition(node, part, places, awaited_nodes, tuple(used.get(node, ()))),
                placement=dict(at),
            )
            for node, part in _split_by_node(group, nodes, at).items()
        },
        followers,
        awaited_nodes,
        tuple(plan for plan in plan_queues(group) if plan.key in lines),
        tuple(OutputRef(t.name, t.node, output.name) for t in group.tasks for output in t.outputs),
    )


def _build_partition(
    node: str,
    part: TaskGroup,
    places: TaskNodes,
    awaited_nodes: Mapping[str, frozenset[str]],
    queues: tuple[tuple[QueueKey, bool], ...],
) -> Partition:
    needed = dict.fromkeys(name for task in part.tasks for name in task.needs)
    return Partition(
        node,
        part,
        frozenset(
            OutputRef(read.task, read.node, read.output) for read in find_parts(part, OutputRead)
        ),
        tuple(name for name in needed if _is_elsewhere(places[name], node)),
        tuple(dict.fromkeys(task.name for task in part.tasks if node in awaited_nodes[task.name])),
        queues,
    )


def _split_by_node(
    group: TaskGroup, nodes: Iterable[str], at: Mapping[str, str]
) -> dict[str, TaskGroup]:
    """Split a group's tasks, set-up and reports into one smaller group for each process."""
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


def _by_node(entries: Iterable[_Placed], at: Mapping[str, str]) -> dict[str, list[_Placed]]:
    grouped: dict[str, list[_Placed]] = {}
    for entry in entries:
        grouped.setdefault(at.get(entry.node, entry.node), []).append(entry)
    return grouped


def _is_elsewhere(task_nodes: Mapping[str, None], node: str) -> bool:
    """Return whether a partitioned group's task runs on at least one node besides ``node``."""
    return len(task_nodes) > 1 or node not in task_nodes


def _find_followers(group: TaskGroup, places: TaskNodes) -> dict[str, tuple[str, ...]]:
    """Map each task of a partitioned group to the other nodes that have tasks depending on it.

    Those are left out on which alone it runs.
    """
    after: dict[str, set[str]] = {}
    for task in group.tasks:
        for need in task.needs:
            after.setdefault(need, set()).add(task.name)
    followers = {}
    for name, task_nodes in places.items():
        later = dict.fromkeys(
            node for other in sorted(_find_reachable(name, after)) for node in places[other]
        )
        followers[name] = tuple(node for node in later if _is_elsewhere(task_nodes, node))
    return followers


def _find_reachable(name: str, after: dict[str, set[str]]) -> set[str]:
    reachable: set[str] = set()
    pending = [name]
    while pending:
        for later in after.get(pending.pop(), ()):
            if later not in reachable:
                reachable.add(later)
                pending.append(later)
    return reachable


def _find_shared_queues(
    group: TaskGroup, at: Mapping[str, str]
) -> dict[QueueKey, tuple[frozenset[str], frozenset[str]]]:
    """Map each queue shared by several nodes of a partitioned group to its writers and readers."""
    users: dict[QueueKey, set[str]] = {}
    readers: dict[QueueKey, set[str]] = {}
    for task in group.tasks:
        worker = at.get(task.node, task.node)
        for target in task.write:
            users.setdefault(queue_key(target.queue, task.node), set()).add(worker)
        if isinstance(task.read, ReadQueue):
            key = queue_key(task.read.queue, task.node)
            users.setdefault(key, set()).add(worker)
            readers.setdefault(key, set()).add(worker)
    return {
        key: (frozenset(nodes), frozenset(readers.get(key, ())))
        for key, nodes in users.items()
        if len(nodes) > 1
    }
