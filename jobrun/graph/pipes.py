"""How queues join the tasks of a group, wherever a job is shown. Answers; judges nothing."""

from __future__ import annotations

from dataclasses import dataclass

from jobrun.graph.data import Queue, ReadQueue
from jobrun.graph.query import tasks_by_name
from jobrun.graph.types import TaskGroup


@dataclass(frozen=True, slots=True)
class Pipe:
    """A queue in one group.

    Attributes:
        names: What its records hold.
        writers: Names of the tasks that write to it, in the order of the spec.
        readers: Names of those that read from it.
    """

    queue: Queue
    names: tuple[str, ...]
    writers: tuple[str, ...]
    readers: tuple[str, ...]


def pipes(group: TaskGroup) -> tuple[Pipe, ...]:
    """The queues that a group uses, in the order of first use."""
    queues: dict[str, tuple[Queue, tuple[str, ...]]] = {}
    writers: dict[str, list[str]] = {}
    readers: dict[str, list[str]] = {}
    for task, _ in tasks_by_name(group):
        for one in task.write:
            queues.setdefault(one.queue.name, (one.queue, one.names))
            writers.setdefault(one.queue.name, []).append(task.name)
        if isinstance(task.read, ReadQueue):
            queues.setdefault(task.read.queue.name, (task.read.queue, task.read.names))
            readers.setdefault(task.read.queue.name, []).append(task.name)
    return tuple(
        Pipe(queue, names, tuple(writers.get(name, ())), tuple(readers.get(name, ())))
        for name, (queue, names) in queues.items()
    )


def queue_notes(queue: Queue) -> list[str]:
    """What is to be known of a queue, in a few words."""
    notes = [f"room for {queue.capacity}"]
    notes += [word for word in ("ordered", "shared") if getattr(queue, word)]
    return notes + ([f"{queue.batch} at a time"] if queue.batch else [])


def pipe_text(pipe: Pipe) -> str:
    """``prep => batches (room for 100) => sgd``."""
    notes = ", ".join(queue_notes(pipe.queue))
    ends = ", ".join(pipe.writers), ", ".join(pipe.readers)
    return f"{ends[0]} => {pipe.queue.name} ({notes}) => {ends[1]}"
