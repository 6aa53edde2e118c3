"""Find the place in the spec that makes a blob, for the faults of saves and loads that name it.

What blobs share is known between groups, when no step runs that could be pointed at. The step that
makes the blob is what the author has to change.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from msgspec.structs import replace

from jobrun.core.errors import Fault, JobrunError, Origin
from jobrun.core.text.patterns import lazy_pattern
from jobrun.graph.query import makers, walk
from jobrun.graph.steps import Assign, CallPython, Load, Net, Step
from jobrun.graph.types import Job

# Codes of faults about blobs; other faults without a position are not about blobs.
_OF_BLOBS = frozenset({
    "E202", "E216", "E240", "E241", "E242", "E246", "E247", "E256", "E257", "E258", "E337"
})  # fmt: skip
_OF_TWO = frozenset({"E256", "E257"})
# A blob, or a path inside one: 'k', 'k'.rng, 'k/0'.
_NAMED = lazy_pattern(r"'([^'/\s]+)[/']")


def locate_faults(error: JobrunError, job: Job) -> JobrunError:
    """Add to each fault that names a blob the place in the spec that creates the blob.

    Returns:
        The error itself where nothing is to be added. Else one of the same class, with its notes.
    """
    if all(fault.where or fault.code not in _OF_BLOBS for fault in error.faults):
        return error
    groups = (job.init, job.epoch)
    makers_by_name = makers(chain.from_iterable(group.tasks for group in groups))
    faults = [_locate(fault, makers_by_name) for fault in error.faults]
    placed = type(error)(*faults)
    placed.tasks = error.tasks
    for note in getattr(error, "__notes__", ()):
        placed.add_note(note)
    return placed


def _locate(fault: Fault, makers_by_name: dict[str, tuple[str, Origin]]) -> Fault:
    if fault.where or fault.code not in _OF_BLOBS:
        return fault
    names = list(
        dict.fromkeys(name for name in _NAMED.findall(fault.message) if name in makers_by_name)
    )
    if not names:
        return fault
    (path, origin), *others = (makers_by_name[name] for name in names)
    message = fault.message
    if fault.code in _OF_TWO and others and others[0][1] != origin and others[0][1].line:
        message += f"; '{names[1]}' is made at {others[0][1]}"
    return replace(fault, message=message, path=path, where=origin if origin.line else None)


def iter_bindings(job: Job, node: str, name: str) -> Iterator[tuple[str, Origin]]:
    """Yield the spec path and source position of each init step that creates the named blob."""
    for task in job.init.tasks:
        for step in walk(task.steps) if task.node == node else ():
            for bound, path, origin in _bound(step):
                if bound == name:
                    yield path, origin


def _bound(step: Step) -> Iterator[tuple[str, str, Origin]]:
    match step:
        case Net():
            for op in step.ops:
                if isinstance(op, Assign):
                    yield from ((target.name, op.path, op.origin) for target in op.targets)
        case CallPython():
            yield from ((name, step.path, step.origin) for name in step.outputs)
        case Load():
            yield from ((file.blob, step.path, step.origin) for file in step.files)
        case _:
            pass
