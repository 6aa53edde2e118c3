"""What every picture of a job shows: groups, labels, edges, levels. Draws nothing itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from jobrun.graph.notes import task_notes
from jobrun.graph.pipes import pipes, queue_notes
from jobrun.graph.query import tasks_by_name
from jobrun.graph.types import Job, RemoteNet, Task, TaskGroup

# Further lines of a task's label, by its path.
More = Mapping[str, Sequence[str]]
# Each declared task once, with its nodes.
Tasks = tuple[tuple[Task, tuple[str, ...]], ...]


def groups_of(job: Job) -> Iterator[tuple[TaskGroup, Tasks]]:
    """The groups that hold anything, in order."""
    for group in job.groups:
        if group.tasks or group.remote:
            yield group, tasks_by_name(group)


def needs_edges(tasks: Tasks) -> Iterator[tuple[int, int]]:
    """From each task that is needed to each that needs it, as positions in ``tasks``."""
    position = {task.name: index for index, (task, _) in enumerate(tasks)}
    for task, _ in tasks:
        for need in task.needs:
            if need in position:
                yield position[need], position[task.name]


def pipe_edges(group: TaskGroup, tasks: Tasks) -> Iterator[tuple[int, int, str]]:
    """From each task that writes to a queue to each that reads from it, with words about it."""
    position = {task.name: index for index, (task, _) in enumerate(tasks)}
    for pipe in pipes(group):
        words = f"{pipe.queue.name}: {', '.join(queue_notes(pipe.queue))}"
        for writer in pipe.writers:
            for reader in pipe.readers:
                yield position[writer], position[reader], words


def task_label(task: Task, nodes: tuple[str, ...], more: More) -> list[str]:
    """Name, then node and what is special, then what else is to be said."""
    notes = [f"on {_where(nodes)}"]
    return [task.name, ", ".join([*notes, *task_notes(task)]), *more.get(task.path, ())]


def remote_label(net: RemoteNet, nodes: tuple[str, ...]) -> list[str]:
    """Name, then where."""
    return [f"remote net {net.name}", f"on {_where(nodes)}"]


def levels(tasks: Tasks) -> dict[str, int]:
    """For each task the length of the longest chain of needs before it; 0 in a circle."""
    found = levels_of(len(tasks), needs_edges(tasks))
    return {task.name: level for (task, _), level in zip(tasks, found, strict=True)}


def levels_of(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """For each of ``count`` things the longest chain of edges before it; 0 in a circle."""
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


def _where(nodes: tuple[str, ...]) -> str:
    return nodes[0] if len(nodes) == 1 else f"{nodes[0]} … {nodes[-1]} ({len(nodes)} nodes)"
