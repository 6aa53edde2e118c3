"""Safe points: a group run between two records of its only task, as it is and as it is entered.

At such a point all steps of the record before have ended, and the next one is not taken yet: all
that the rest of the run depends on is in workspaces, in random streams, and in the place of the
reader. What is kept of it, and where, is the runner's matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from jobrun.blobs.values import Value, boundary_form, detach, is_object
from jobrun.core.errors import TaskFailedError
from jobrun.runtime.cancel import CancelledError
from jobrun.runtime.frame import Frame, GroupRun
from jobrun.runtime.reading import ReaderSource
from jobrun.runtime.records import Numbered, Streams
from jobrun.runtime.workspace import Blobs


@dataclass(frozen=True, slots=True)
class Midpoint:
    """A group run between two records.

    Attributes:
        records: How many the task has got in this run.
        cursors: For each reader without parts, the records and the rows it gave in this run.
        blobs: The values of the workspaces ``t``, ``g`` and ``n`` by name, in boundary form; what
            two letters share is under the later one.
        streams: By place, the state of its generator, as numpy gives it.
    """

    records: int
    cursors: tuple[tuple[int, int], ...]
    blobs: Mapping[str, Mapping[str, Value]]
    streams: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Points:
    """At which safe points of a group run something is to be done.

    Attributes:
        every: After each such number of records; 0 for never.
        reached: Called there, in the task's thread; False when the run is to end there.
        entry: Where the run is entered, instead of at its beginning: set-up has run already.
    """

    every: int
    reached: Callable[[Midpoint], bool]
    entry: Midpoint | None = None


def is_entered(run: GroupRun) -> bool:
    """Whether the run is entered at a safe point."""
    return run.points is not None and run.points.entry is not None


def with_points(streams: Streams, frame: Frame) -> Streams:
    """The streams of a task's run, in which its safe points are noticed; the run is entered."""
    points, source = frame.run.points, streams.source
    if points is None or not isinstance(source, ReaderSource):
        return streams
    if points.entry is not None:
        _enter(points.entry, frame, source)
    return replace(streams, source=PointedSource(source, points))


class PointedSource:
    """A reader whose safe points are noticed, before the next record is taken."""

    def __init__(self, source: ReaderSource, points: Points) -> None:
        self._source = source
        self._points = points
        done = 0 if points.entry is None else points.entry.records
        # A multiple of the number, also when that was another one at the entry.
        self._next = (done // points.every + 1) * points.every if points.every else -1

    def begin(self, frame: Frame) -> None:
        """See ``RecordSource.begin``."""
        self._source.begin(frame)

    def read(self, frame: Frame) -> Numbered | None:
        """See ``RecordSource.read``."""
        if self._source.given == self._next:
            frame.cancel.check()
            self._next += self._points.every
            if not self._points.reached(_midpoint(frame, self._source)):
                raise CancelledError
        return self._source.read(frame)

    def close(self) -> None:
        """See ``RecordSource.close``."""
        self._source.close()


def _midpoint(frame: Frame, source: ReaderSource) -> Midpoint:
    """Bring all workspaces to boundary form, and tell how the run stands.

    The form is part of what a step can see (sums add in the order of memory), so that a run
    which goes on and one which is entered here must find the same.
    """
    seen: set[int] = set()
    for _, space in _spaces(frame):
        _settle(space, seen, frame)
    return Midpoint(
        source.given,
        source.places(),
        {letter: dict(space) for letter, space in _spaces(frame)},
        {place: dict(one.bit_generator.state) for place, one in frame.streams.items()},
    )


def _spaces(frame: Frame) -> Iterator[tuple[str, Blobs]]:
    """The workspaces of a task of one instance, by letter; each once."""
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
                "save whole epochs: give 'checkpoint.every' in ep; or make epochs shorter",
            )
        try:
            value = boundary_form(space[name], name)
        except TaskFailedError as error:
            faults = (replace(fault, path=frame.place) for fault in error.faults)
            raise TaskFailedError(*faults) from error
        if id(value) in seen:
            value = detach(value, name)
        seen.add(id(value))
        space[name] = value


def _enter(entry: Midpoint, frame: Frame, source: ReaderSource) -> None:
    for letter, space in _spaces(frame):
        space.update(entry.blobs.get(letter, {}))
    for place, state in entry.streams.items():
        generator = np.random.PCG64DXSM(0)
        generator.state = cast("Any", dict(state))
        frame.streams[place] = np.random.Generator(generator)
    source.enter(entry.records, entry.cursors)
