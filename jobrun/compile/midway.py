"""Whether a job can be saved between two records. Not how that is done.

A safe point between two records is one of the whole job only where nothing else runs beside the
task that reads: one task, in one instance, on one node, without queues, retries and reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from jobrun.compile.faults import Faults, Place
from jobrun.compile.pending import not_yet
from jobrun.graph.data import (
    BlobSource,
    CallSource,
    CounterSource,
    FileSource,
    ReadRecords,
    ZipSource,
    readers_in,
)
from jobrun.graph.expr import Name
from jobrun.graph.types import Job, Task, TaskGroup

_MEND = "give epochs such as 1ep, or a duration such as 10m"

Obstacle = tuple[str, str]


def check_midway(job: Job, place: Place, faults: Faults) -> None:
    """Note why ``checkpoint.every: N records`` is not carried out for the job.

    Args:
        job: The job.
        place: Of ``checkpoint.every``.
        faults: Where to.
    """
    if job.checkpoint.every_records:
        if job.checkpoint.upload is not None:
            faults.warn(
                "W143", "only whole epochs are brought elsewhere: what is saved within one stays "
                "in the run's directory", "save whole epochs more often if the copy must be newer",
                place,
            )  # fmt: skip
        for message, mend in obstacles(job):
            text = f"checkpoints within an epoch are not carried out yet {message}"
            not_yet(faults, text, f"{mend}, or {_MEND}", place)


def obstacles(job: Job) -> Iterator[Obstacle]:
    """Why the epochs of a job cannot be saved between two records, and the way to mend it."""
    group = job.epoch
    if len(group.tasks) != 1:
        names = ", ".join(f"'{task.full_name}'" for task in group.tasks)
        yield (
            f"where the epoch is not one task on one node: it is {names or 'empty'}",
            "make it one task",
        )
        return
    task = group.tasks[0]
    yield from _of_task(task)
    yield from _beside(job, group, task)
    if isinstance(task.read, ReadRecords):
        yield from _of_source(job, task, task.read)


def _of_task(task: Task) -> Iterator[Obstacle]:
    name = f"'{task.name}'"
    if not isinstance(task.read, ReadRecords):
        yield f"where task {name} reads no reader", "let it read one"
    if task.instances > 1:
        yield f"for the {task.instances} instances of task {name}", "run it in one instance"
    if task.write:
        yield f"where task {name} writes to a queue", "let it write to none"
    if task.retry is not None and task.retry.most:
        yield f"where task {name} is retried", "take its 'retry' out"
    if task.on_error == "warn":
        yield f"where a failure of task {name} is only told", "take its 'on_error' out"
    if task.reports:
        yield f"beside the reports of task {name}", "take them out"


def _beside(job: Job, group: TaskGroup, task: Task) -> Iterator[Obstacle]:
    if group.reports:
        yield "beside the reports of the epoch", "take them out"
    others = [node for node in job.checkpoint.nodes if node != task.node]
    if others:
        yield f"where other nodes have state, too: {', '.join(others)}", "keep it on one node"


def _of_source(job: Job, task: Task, read: ReadRecords) -> Iterator[Obstacle]:
    """A source is looked at again where an epoch is entered, so it must be what it was."""
    constants = set(dict(job.constants).get(task.node, ()))
    around = [one.nets for one in job.epoch.setup]
    used = set(_texts((task.steps, task.setup, task.instance_setup, around)))
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
                f"where reader '{reader.name}' is made from '{name}', which the epoch uses",
                f"make '{name}' in a task of init with rebuild: true",
            )


def _names(thing: Any) -> Iterator[str]:
    for one in _inside(thing):
        if isinstance(one, Name):
            yield from (text for text in _inside(one) if isinstance(text, str))


def _texts(thing: Any) -> Iterator[str]:
    """All words: whatever is not among them is no blob that anyone changes."""
    return (one for one in _inside(thing) if isinstance(one, str))


def _inside(thing: Any) -> Iterator[Any]:
    yield thing
    if isinstance(thing, tuple | list):
        for item in thing:
            yield from _inside(item)
    elif is_dataclass(thing):
        for item in fields(thing):
            yield from _inside(getattr(thing, item.name))
