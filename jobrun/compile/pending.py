"""What the spec language has and this version does not carry out yet: one fault for each use."""

from __future__ import annotations

from collections.abc import Iterator

from jobrun.compile.faults import Faults, Place
from jobrun.spec.models import CheckpointSpec, JobSpec, TaskSpec
from jobrun.spec.source import Path, SourceMap, path_text


def not_yet(faults: Faults, message: str, mend: str, place: Place) -> None:
    """Note that something written here is not carried out."""
    faults.error("E190", message, mend, place)


def check_pending(spec: JobSpec, source: SourceMap, faults: Faults) -> None:
    """Note everything outside of tasks and steps that is not carried out."""
    for path, message, mend in (*_of_job(spec), *_of_checkpoint(spec)):
        not_yet(faults, message, mend, Place(path_text(path), source.key(path)))


def check_pending_task(
    task: TaskSpec, at: Path, path: str, source: SourceMap, faults: Faults
) -> None:
    """Note everything of a task, besides its steps, that is not carried out."""
    found: list[tuple[str, str]] = []
    if task.read is not None:
        found.append(("read", "load the data in init and loop over batches in the steps"))
    if task.write:
        found.append(("write", "do the work of both tasks in one, or hand over an output"))
    for key, mend in found:
        place = Place(path, source.key((*at, key)))
        not_yet(faults, f"'{key}' of a task is not carried out yet", mend, place)


_Found = Iterator[tuple[Path, str, str]]


def _of_job(spec: JobSpec) -> _Found:
    for name in spec.readers:
        yield (
            ("readers", name),
            "readers are not carried out yet",
            ("load the data in init and loop over batches in the steps"),
        )
    for name in spec.queues:
        yield (
            ("queues", name),
            "queues are not carried out yet",
            ("do the work of both tasks in one, or hand over an output"),
        )
    for index, stop in enumerate(spec.stop):
        if stop.data_finished is not None:
            path = ("stop", index, "data_finished")
            yield path, "'data_finished' is not carried out yet", "use 'when' or 'epochs'"
    if spec.deadline is not None:
        yield (
            ("deadline",),
            "'deadline' is not carried out yet",
            ("give a time with 'jobrun run --time'"),
        )
    if spec.margin is not None:
        yield ("margin",), "'margin' is not carried out yet", "leave it out"


def _of_checkpoint(spec: JobSpec) -> _Found:
    policy = spec.checkpoint
    if not isinstance(policy, CheckpointSpec):
        return
    if policy.compression is not None:
        yield ("checkpoint", "compression"), "'compression' is not carried out yet", "leave it out"
    if policy.asynchronous:
        yield (
            ("checkpoint", "async"),
            "'async: true' is not carried out yet",
            ("leave it out; it changes times, never values"),
        )
    if policy.every is not None and policy.every.unit == "records":
        yield (
            ("checkpoint", "every"),
            "checkpoints within an epoch are not carried out yet",
            ("give epochs such as 1ep, or a duration such as 10m"),
        )
