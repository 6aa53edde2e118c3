"""The loop of a task that reads or writes records. Where they come from and go to is elsewhere.

::

    until the source has no more:
        take a record; bind its fields; run the steps; send on what the task writes

``stop`` leaves the record, which is then not sent on; ``{stop: task}`` ends the task. A task
that only writes runs its steps once. What belongs to one task is a ``Streams``: it is made
before the task's set-up, begun after it, and closed when the task ends, in whatever way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import NamedTuple, Protocol

from jobrun.blobs.values import Value
from jobrun.graph.data import ReadQueue, ReadRecords, record_path
from jobrun.graph.types import Task
from jobrun.runtime.cancel import CancelledError
from jobrun.runtime.codegen import Block
from jobrun.runtime.control import StopBlock
from jobrun.runtime.faults import run_block
from jobrun.runtime.frame import Frame
from jobrun.runtime.usage import BlockNames
from jobrun.runtime.workspace import LEVELS


class Record(NamedTuple):
    """One record.

    Attributes:
        number: Its place in the order in which the source gives records out, from 0; never a
            matter of timing, unless the source is a queue of several writers.
        values: One for each field, in the fields' order; the receiver may change them.
    """

    number: int
    values: tuple[Value, ...]


# A record as the loop sees it: whoever gives many may give bare pairs.
Numbered = tuple[int, tuple[Value, ...]]


class RecordSource(Protocol):
    """Where a task's records come from; all its instances share it."""

    def begin(self, frame: Frame) -> None:
        """The task's set-up has run, its instances have not begun. Once, from one thread."""

    def read(self, frame: Frame) -> Numbered | None:
        """The next record; None when there is none, now and for ever. Any thread.

        May block, and then sees that ``frame.cancel`` is cancelled.

        Raises:
            CancelledError: The run was cancelled.
        """

    def close(self) -> None:
        """The task has ended: nobody reads any more. Once, also without ``begin``."""


class RecordSink(Protocol):
    """Where a task's records go to; all its instances share it."""

    def write(self, frame: Frame, number: int) -> bool:
        """Send the values of the sink's names, as they are in the frame's workspaces.

        Args:
            frame: The instance's.
            number: That of the record that was read; 0 in a task that reads none.

        Returns:
            False when nobody will ever read it: the task ends.

        Raises:
            CancelledError: The run was cancelled, perhaps while there was no room.
        """

    def skip(self, number: int) -> None:
        """The record of that number was left by a stop: nothing is sent for it."""

    def close(self) -> None:
        """The task has ended: one writer less. Once, also when it never began."""


@dataclass(frozen=True, slots=True)
class Streams:
    """The source and the sinks of one task in one run of its group.

    Attributes:
        over: Set when ``{stop: task}`` has ended one instance: the others end at their next
            record.
    """

    source: RecordSource | None = None
    sinks: tuple[RecordSink, ...] = ()
    over: Event = field(default_factory=Event)

    def begin(self, frame: Frame) -> None:
        """Get ready to give records out."""
        if self.source is not None:
            self.source.begin(frame)

    def close(self) -> None:
        """Let go of everything; all of it, whatever one of them says."""
        everything: list[RecordSource | RecordSink] = [*self.sinks]
        if self.source is not None:
            everything.insert(0, self.source)
        _close_all(everything)


@dataclass(frozen=True, slots=True)
class RecordPlan:
    """What is the same in every run of a task that reads or writes.

    Attributes:
        streams: Makes the source and the sinks for one run of the group; must not fail.
        fields: Level and name of what each record binds, in the order of its values.
        by_record: Each record has random streams of its own, since which instance gets it
            is a matter of timing.
        body: Path of the task's body, which ``{stop: task}`` leaves.
    """

    streams: Callable[[Frame], Streams]
    fields: tuple[tuple[str, str], ...]
    by_record: bool
    body: str


def record_block(task: Task) -> str:
    """The path of the block that ``stop`` leaves: the task's body, or one run of it."""
    return task.path if task.read is None else record_path(task.path)


def field_levels(task: Task, names: BlockNames) -> tuple[tuple[str, str], ...]:
    """Level and name of what each record of the task binds."""
    return tuple((LEVELS[names.scope(name)], name) for name in field_names(task))


def field_names(task: Task) -> tuple[str, ...]:
    """What each record of the task binds, in the order of a record's values."""
    match task.read:
        case ReadRecords(reader=reader):
            return tuple(field.name for field in reader.fields)
        case ReadQueue(names=names):
            return names
        case None:
            return ()


def run_records(plan: RecordPlan, block: Block, frame: Frame, streams: Streams) -> None:
    """Run the steps for every record that this instance gets.

    Args:
        plan: The task's.
        block: The code of its steps.
        frame: The instance's.
        streams: What all instances share.

    Raises:
        JobrunError: A step failed, or the source did.
        CancelledError: The run was cancelled; seen between records, and while waiting.
    """
    inner = frame.at(frame.place)
    try:
        if streams.source is None:
            _run_one(block, inner, 0, streams.sinks)
        else:
            _run_all(plan, block, inner, streams, streams.source)
    except StopBlock as stop:
        if stop.target != plan.body:
            raise
        streams.over.set()


def _run_all(
    plan: RecordPlan, block: Block, frame: Frame, streams: Streams, source: RecordSource
) -> None:
    """Run the steps for each record; what is looked at once per record is at hand."""
    spaces = [(getattr(frame, level), name) for level, name in plan.fields]
    scope, is_over, sinks = frame.cancel, streams.over.is_set, streams.sinks
    while (record := source.read(frame)) is not None:
        if scope.cancelled:
            raise CancelledError
        number, values = record
        if is_over():
            _skip(number, sinks)
            return
        if len(spaces) == 1:
            space, name = spaces[0]
            space[name] = values[0]
        else:
            for (space, name), value in zip(spaces, values, strict=True):
                space[name] = value
        if plan.by_record:
            frame.record = number
            frame.streams = {}
        if not _run_one(block, frame, number, sinks):
            return


def _run_one(block: Block, frame: Frame, number: int, sinks: Sequence[RecordSink]) -> bool:
    """Run the steps once and send on; whether there is anyone to go on for."""
    try:
        is_left = run_block(block, frame)
    except StopBlock:
        _skip(number, sinks)
        raise
    if not sinks:
        return True
    if is_left:
        _skip(number, sinks)
        return True
    if len(sinks) == 1:
        return sinks[0].write(frame, number)
    # To all of them, whoever still reads.
    wanted = [sink.write(frame, number) for sink in sinks]
    return any(wanted)


def _skip(number: int, sinks: Sequence[RecordSink]) -> None:
    """Nothing is sent for the record, which others may wait for."""
    for sink in sinks:
        sink.skip(number)


def _close_all(streams: Sequence[RecordSource | RecordSink]) -> None:
    if not streams:
        return
    try:
        streams[0].close()
    finally:
        _close_all(streams[1:])
