"""What the spec language has and this version does not carry out yet: one fault for each use."""

from __future__ import annotations

from collections.abc import Iterator

from jobrun.compile.faults import Faults, Place
from jobrun.spec.models import CheckpointSpec, JobSpec
from jobrun.spec.source import Path, SourceMap, path_text


def not_yet(faults: Faults, message: str, mend: str, place: Place) -> None:
    """Note that something written here is not carried out."""
    faults.error("E190", message, mend, place)


def check_pending(spec: JobSpec, source: SourceMap, faults: Faults) -> None:
    """Note everything outside of tasks and steps that is not carried out."""
    for path, message, mend in _of_checkpoint(spec):
        not_yet(faults, message, mend, Place(path_text(path), source.key(path)))


_Found = Iterator[tuple[Path, str, str]]


def _of_checkpoint(spec: JobSpec) -> _Found:
    policy = spec.checkpoint
    if not isinstance(policy, CheckpointSpec):
        return
    if policy.every is not None and policy.every.unit == "records":
        yield (
            ("checkpoint", "every"),
            "checkpoints within an epoch are not carried out yet",
            ("give epochs such as 1ep, or a duration such as 10m"),
        )
