"""Collect what every drawing of a job shows: groups, labels of boxes, edges, and levels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from jobrun.graph.query import tasks_by_name
from jobrun.graph.text.notes import find_queue_links, queue_notes, task_notes
from jobrun.graph.types import Job, RemoteNet, Task, TaskGroup

# Further lines of a task's label, by its path.
ExtraLines = Mapping[str, Sequence[str]]
# Each declared task once, with its nodes.
Tasks = tuple[tuple[Task, tuple[str, ...]], ...]


def groups_of(job: Job) -> Iterator[tuple[TaskGroup, Tasks]]:
    """Yield in order the groups that drawings of a job show: those with tasks or remote nets."""
    for group in job.groups:
        if group.tasks or group.remote:
            yield group, tasks_by_name(group)


def needs_edges(tasks: Tasks) -> Iterator[tuple[int, int]]:
    """Yield the edges in the outline of a drawing, from needed tasks to those that need them."""
    position = {task.name: index for index, (task, _) in enumerate(tasks)}
    for task, _ in tasks:
        for need in task.needs:
            if need in position:
                yield position[need], position[task.name]


def queue_edges(group: TaskGroup, tasks: Tasks) -> Iterator[tuple[int, int, str]]:
    """Yield the edges from each queue's writers to its readers, for the outline of a drawing."""
    position = {task.name: index for index, (task, _) in enumerate(tasks)}
    for link in find_queue_links(group):
        words = f"{link.queue.name}: {', '.join(queue_notes(link.queue))}"
        for writer in link.writers:
            for reader in link.readers:
                yield position[writer], position[reader], words


def task_label(task: Task, nodes: tuple[str, ...], more: ExtraLines) -> list[str]:
    """Return the label of a task in the outline of a drawing: name, then node and options."""
    notes = [f"on {_node_text(nodes)}"]
    return [task.name, ", ".join([*notes, *task_notes(task)]), *more.get(task.path, ())]


def remote_label(net: RemoteNet, nodes: tuple[str, ...]) -> list[str]:
    """Return the label of a remote net in the outline of a drawing: its name, then its nodes."""
    return [f"remote net {net.name}", f"on {_node_text(nodes)}"]


def levels(tasks: Tasks) -> dict[str, int]:
    """Compute each task's level in the outline of a drawing: its longest chain of needs."""
    found = compute_levels(len(tasks), needs_edges(tasks))
    return {task.name: level for (task, _), level in zip(tasks, found, strict=True)}


def compute_levels(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """Compute the level of each box in the outline of a drawing: the longest path to it."""
    level = [0] * count
    followers: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for first, second in edges:
        followers[first].append(second)
        waiting[second] += 1
    ready = [at for at in range(count) if waiting[at] == 0]
    for at in ready:  # grows while it is read
        for follower in followers[at]:
            level[follower] = max(level[follower], level[at] + 1)
            waiting[follower] -= 1
            if waiting[follower] == 0:
                ready.append(follower)
    return level


def _node_text(nodes: tuple[str, ...]) -> str:
    return nodes[0] if len(nodes) == 1 else f"{nodes[0]} … {nodes[-1]} ({len(nodes)} nodes)"
