"""What is special about a task or a node, in a few words, wherever a job is shown."""

from __future__ import annotations

from collections.abc import Iterator

from jobrun.graph.types import Node, Task


def task_notes(task: Task) -> list[str]:
    """What differs from a plain task, needs and place left out."""
    return list(_task_notes(task))


def node_notes(node: Node) -> list[str]:
    """What a node asks for."""
    notes = [f"host {node.host}"] if node.host else []
    return notes + [f"{name} {amount:g}" for name, amount in node.resources]


def _task_notes(task: Task) -> Iterator[str]:
    if task.instances > 1:
        yield f"{task.instances} instances"
    if task.rebuild:
        yield "rebuild"
    if task.hogwild:
        yield "hogwild"
    if task.timeout_s:
        yield f"at most {task.timeout_s:g} s"
    if task.retry is not None:
        times = "retry" if task.retry.most == 1 else "retries"
        wait = f" after {task.retry.backoff_s:g} s" if task.retry.backoff_s else ""
        yield f"{task.retry.most} {times}{wait}"
    if task.on_error == "warn":
        yield "a failure is only told"
