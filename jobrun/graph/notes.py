"""What is special about a task or a node, in a few words, wherever a job is shown."""

from __future__ import annotations

from collections.abc import Iterator

from jobrun.graph.data import ReadQueue, ReadRecords
from jobrun.graph.types import Node, Task


def task_notes(task: Task) -> list[str]:
    """What differs from a plain task, needs and place left out."""
    return [*work_notes(task), *limit_notes(task)]


def work_notes(task: Task) -> list[str]:
    """Those that say what the task does: others would give other results."""
    notes = [f"{task.instances} instances"] if task.instances > 1 else []
    notes += [word for word in ("rebuild", "hogwild") if getattr(task, word)]
    notes += [f"reads {name}" for name in [read_name(task)] if name]
    written = [f"{', '.join(one.names)} to {one.queue.name}" for one in task.write]
    return notes + ([f"writes {' and '.join(written)}"] if written else [])


def read_name(task: Task) -> str | None:
    """What the task's records come from: a reader or a queue."""
    match task.read:
        case ReadRecords(reader=reader):
            return reader.name
        case ReadQueue(queue=queue):
            return queue.name
        case None:
            return None


def limit_notes(task: Task) -> list[str]:
    """Those that say what becomes of it when it takes too long or fails."""
    return list(_limit_notes(task))


def node_notes(node: Node) -> list[str]:
    """What a node asks for."""
    notes = [f"host {node.host}"] if node.host else []
    return notes + [f"{name} {amount:g}" for name, amount in node.resources]


def _limit_notes(task: Task) -> Iterator[str]:
    if task.timeout_s:
        yield f"at most {task.timeout_s:g} s"
    if task.retry is not None:
        times = "retry" if task.retry.most == 1 else "retries"
        wait = f" after {task.retry.backoff_s:g} s" if task.retry.backoff_s else ""
        yield f"{task.retry.most} {times}{wait}"
    if task.on_error == "warn":
        yield "a failure is only told"
