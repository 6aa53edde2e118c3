"""Stop at safe points between two records of a group's only task, and resume a run at one.

At such a point all steps of the record before have ended, and the next one is not taken yet: all
that the rest of the run depends on is in workspaces, in random streams, and in the place of the
reader. What is kept of it, and where, is the runner's matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from msgspec.structs import replace

from jobrun.core.errors import CheckpointError, TaskFailedError
from jobrun.runtime.context.bounded_queue import Records
from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.context.frame import Blobs, Frame
from jobrun.runtime.context.group_run_state import GroupRun
from jobrun.runtime.context.safe_point import SafePoint, SafePointHooks
from jobrun.runtime.records.record_loop import Streams
from jobrun.values.blob_kinds import is_object
from jobrun.values.copies import boundary_form, detach
from jobrun.values.object_state import generator_state

if TYPE_CHECKING:
    from jobrun.runtime.records.task_reader import ReaderSource


def is_resumed_midway(run: GroupRun) -> bool:
    """Return whether a group run resumes at a safe point, between two records of its source."""
    return run.points is not None and run.points.entry is not None


def add_safe_points(streams: Streams, frame: Frame) -> Streams:
    """Wrap a task's record source to stop at safe points; restore the state of a resumed run."""
    points, source = frame.run.points, streams.source
    if points is None:
        return streams
    # The readers of all kinds of files, for jobs that are saved between records.
    from jobrun.runtime.records.task_reader import ReaderSource  # noqa: PLC0415

    if not isinstance(source, ReaderSource):
        return streams
    if points.entry is not None:
        _enter(points.entry, frame, source)
    return replace(streams, source=SafePointSource(source, points))


class SafePointSource:
    """A reader that notices safe points, before the next record is taken."""

    def __init__(self, source: ReaderSource, points: SafePointHooks) -> None:
        self._source = source
        self._points = points
        done = 0 if points.entry is None else points.entry.records
        # A multiple of ``every``, even if the run was entered with another value.
        self._next = (done // points.every + 1) * points.every if points.every else -1

    def begin(self, frame: Frame) -> None:
        """Begin to read the wrapped record source, for a task that stops at safe points."""
        self._source.begin(frame)

    def connect(self, frame: Frame) -> Records:
        """Iterate over a reader's records; report safe points between them, and stop if asked."""
        records = self._source.connect(frame)
        while True:
            if self._source.records_read == self._next:
                frame.cancel.check()
                self._next += self._points.every
                if not self._points.reached(_capture_safe_point(frame, self._source)):
                    raise CancelledError
            record = next(records, None)
            if record is None:
                return
            yield record

    def close(self) -> None:
        """Close the record source that stops at safe points."""
        self._source.close()


def _capture_safe_point(frame: Frame, source: ReaderSource) -> SafePoint:
    """Copy a task's state between two records: the run can stop at this safe point.

    The form is part of what a step can see (sums add in the order of memory), so that a run
    which continues and one which starts here must find the same.
    """
    seen: set[int] = set()
    for _, space in _workspaces(frame):
        _settle(space, seen, frame)
    settings = frame.run.settings
    settings.collect()
    return SafePoint(
        source.records_read,
        source.places(),
        {letter: dict(space) for letter, space in _workspaces(frame)},
        {block_path: _stream_state(stream) for block_path, stream in frame.streams.items()},
        settings.capture(),
    )


def _stream_state(generator: np.random.Generator) -> dict[str, Any]:
    """Copy the state of a random stream for the safe point at which a task stops."""
    state = generator_state(generator)
    return {**state, "seed": dict(state["seed"].state)}


def _restore_stream(state: Mapping[str, Any]) -> np.random.Generator:
    if "seed" not in state:
        raise CheckpointError.of(
            "E308",
            "the checkpoint within an epoch was written by an older jobrun, which did not save "
            "the seeds of random streams",
            "resume from the epoch before: jobrun resume --epoch N",
        )
    generator = np.random.PCG64DXSM(np.random.SeedSequence(**state["seed"]))
    generator.state = cast("Any", dict(state))
    return np.random.Generator(generator)


def _workspaces(frame: Frame) -> Iterator[tuple[str, Blobs]]:
    """Iterate over the dicts of blobs to save when a run stops at a safe point."""
    yield "t", frame.t
    if frame.g is not frame.n:
        yield "g", frame.g
    yield "n", frame.n


def _settle(space: Blobs, seen: set[int], frame: Frame) -> None:
    for name in sorted(space):
        if is_object(space[name]):
            raise TaskFailedError.of(
                "E245",
                f"a checkpoint within an epoch cannot hold '{name}', which is an object",
                "save whole epochs: give 'checkpoint.every' as epochs or a time: 1ep, 10m",
            )
        try:
            value = boundary_form(space[name], name)
        except TaskFailedError as error:
            faults = (replace(fault, path=frame.block_path) for fault in error.faults)
            raise TaskFailedError(*faults) from error
        if id(value) in seen:
            value = detach(value, name)
        seen.add(id(value))
        frame.run.snapshots.kept_references.follow(space, name, space[name], value)
        space[name] = value


def _enter(entry: SafePoint, frame: Frame, source: ReaderSource) -> None:
    for letter, space in _workspaces(frame):
        space.update(entry.blobs.get(letter, {}))
    for block_path, state in entry.streams.items():
        frame.streams[block_path] = _restore_stream(state)
    source.enter(entry.records, entry.cursors)
