"""Check that epochs can be saved midway, between two records (``every: N records``).

A point between two records is a safe point of the whole job only if nothing runs beside the task
that reads: one task, in one instance, on one node, without queues, retries and reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from jobrun.compile.faults import Faults, SpecPosition
from jobrun.graph.expressions import Name
from jobrun.graph.readers import (
    BlobSource,
    CallSource,
    CounterSource,
    FileSource,
    ReadRecords,
    ZipSource,
    readers_in,
)
from jobrun.graph.types import Job, Task, TaskGroup

_MEND = "use epochs such as 1ep, or a duration such as 10m"

Obstacle = tuple[str, str]


def check_mid_epoch_saves(job: Job, spec_position: SpecPosition, faults: Faults) -> None:
    """Check that a job with ``checkpoint.every: N records`` can be saved between records.

    Args:
        job: The job.
        spec_position: The position of ``checkpoint.every``.
        faults: Collects what is wrong.
    """
    if job.checkpoint.every_records:
        if job.checkpoint.upload is not None:
            faults.warn(
                "W143",
                "only complete epochs are uploaded: saves within an epoch stay in the "
                "directory of the run",
                "save complete epochs more often if the copy must be more recent",
                spec_position,
            )
        for message, mend in find_obstacles(job):
            text = f"checkpoints within an epoch are not supported {message}"
            note_unsupported(faults, text, f"{mend}, or {_MEND}", spec_position)


def find_obstacles(job: Job) -> Iterator[Obstacle]:
    """Yield each reason why an epoch cannot be saved between records, and the fix."""
    group = job.epoch
    if len(group.tasks) != 1:
        names = ", ".join(f"'{task.full_name}'" for task in group.tasks)
        yield (
            f"if the epoch is not a single task on one node: it is {names or 'empty'}",
            "merge its tasks",
        )
        return
    task = group.tasks[0]
    yield from _task_obstacles(task)
    yield from _other_obstacles(job, group, task)
    if isinstance(task.read, ReadRecords):
        yield from _source_obstacles(job, task, task.read)


def _task_obstacles(task: Task) -> Iterator[Obstacle]:
    name = f"'{task.name}'"
    if not isinstance(task.read, ReadRecords):
        yield f"if task {name} reads no reader", "add 'read' to the task"
    if task.instances > 1:
        yield f"for the {task.instances} instances of task {name}", "run it in one instance"
    if task.write:
        yield f"if task {name} writes to a queue", "remove 'write'"
    if task.retry is not None and task.retry.most:
        yield f"if task {name} has 'retry'", "remove its 'retry'"
    if task.on_error == "warn":
        yield f"if task {name} has 'on_error: warn'", "remove its 'on_error'"
    if task.reports:
        yield f"with reports of task {name}", "remove them"


def _other_obstacles(job: Job, group: TaskGroup, task: Task) -> Iterator[Obstacle]:
    if group.reports:
        yield "with reports of the epoch", "remove them"
    others = [node for node in job.checkpoint.nodes if node != task.node]
    if others:
        yield f"if other nodes have state too: {', '.join(others)}", "keep it on one node"


def _source_obstacles(job: Job, task: Task, read: ReadRecords) -> Iterator[Obstacle]:
    """Yield obstacles to mid-epoch saves: blobs that both a reader and the epoch use."""
    constants = set(dict(job.constants).get(task.node, ()))
    setup_nets = [setup.nets for setup in job.epoch.setup]
    used = set(_texts((task.steps, task.setup, task.instance_setup, setup_nets)))
    for reader in readers_in(read.reader):
        names: set[str] = set()
        match reader.source:
            case BlobSource(values=expressions) | CallSource(arguments=expressions):
                names = set(_names([value for _, value in expressions]))
            case FileSource(path=path):
                names = set(_names(path))
            case CounterSource() | ZipSource():
                pass
        for name in sorted((names - constants) & used):
            yield (
                f"if reader '{reader.name}' is made from '{name}', which the epoch uses",
                f"make '{name}' in a task of init with rebuild: true",
            )


def _names(value: Any) -> Iterator[str]:
    for part in _walk_values(value):
        if isinstance(part, Name):
            yield from (text for text in _walk_values(part) if isinstance(text, str))


def _texts(value: Any) -> Iterator[str]:
    """Yield all strings in steps, among them names of blobs, to check mid-epoch saves."""
    return (part for part in _walk_values(value) if isinstance(part, str))


def _walk_values(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, tuple | list):
        for item in value:
            yield from _walk_values(item)
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from _walk_values(getattr(value, name))


def note_unsupported(faults: Faults, message: str, mend: str, spec_position: SpecPosition) -> None:
    """Add the fault that a feature of a job does not permit mid-epoch saves."""
    faults.error("E190", message, mend, spec_position)
