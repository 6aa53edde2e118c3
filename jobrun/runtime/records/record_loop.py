"""Run the steps of a task for each record that it reads, and send what it writes.

::

    until the source has no more:
        take a record; bind its fields; run the steps; send on what the task writes

That loop is generated code; here is what it is given. ``stop`` leaves the record, which is then
not sent on; ``{stop: task}`` ends the task. A task that only writes runs its steps once. What
belongs to one task is a ``Streams``: it is made before the task's set-up, begun after it, and
closed when the task ends, in whatever way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import partial
from typing import NamedTuple, Protocol

from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.readers import ReadQueue, ReadRecords
from jobrun.graph.types import Task
from jobrun.runtime.codegen.compiler import Block
from jobrun.runtime.codegen.control_flow import StopBlock
from jobrun.runtime.context.bounded_queue import Put
from jobrun.runtime.context.frame import Frame
from jobrun.runtime.step_errors import raise_explained
from jobrun.values.blob_kinds import Value


class Record(NamedTuple):
    """One record.

    Attributes:
        number: Its place in the order in which the source gives records out, from 0; never a
            matter of timing, unless the source is a queue of several writers.
        values: One for each field, in the fields' order; the receiver may change them.
    """

    number: int
    values: tuple[Value, ...]


# A record as the loop sees it: a source of many records may give bare pairs, which cost less.
Numbered = tuple[int, tuple[Value, ...]]
# The records of an instance: a generator, since that costs less per record than a call.
Records = Iterator[Numbered]


class RecordSource(Protocol):
    """The source of a task's records; all its instances share it."""

    def begin(self, frame: Frame) -> None:
        """Begin to read the records for a task's record loop, after the task's set-up."""

    def connect(self, frame: Frame) -> Records:
        """Iterate over the records for the record loop of one parallel copy of a task.

        Called in any thread, after ``begin``.

        It may block, and then sees that ``frame.cancel`` is cancelled: it raises
        ``CancelledError``.
        """

    def close(self) -> None:
        """Stop reading records for a task's record loop, even if that never began."""


class RecordSink(Protocol):
    """The destination of a task's records; all its instances share it."""

    def connect(self, frame: Frame) -> Put:
        """Return the function by which a record loop writes to this sink, such as a queue.

        Its arguments are the number of the record that was read, in a task that reads none that of
        the instance, and the values, which are the receiver's afterwards. It may block as a source
        does, and returns False when no reader is left: the task ends.
        """

    def skip(self, number: int) -> None:
        """Skip, in a queue that a record loop writes to, a record's number after a ``stop``."""

    def close(self) -> None:
        """Close the end of a queue to which a record loop writes, after its task has ended."""


@dataclass(frozen=True, slots=True)
class Streams:
    """The source and the sinks of one task in one run of its group.

    Attributes:
        ended: Not empty when ``{stop: task}`` has ended one instance: the others end at their
            next record.
    """

    source: RecordSource | None = None
    sinks: tuple[RecordSink, ...] = ()
    ended: list[int] = field(default_factory=list)

    def begin(self, frame: Frame) -> None:
        """Begin the source of a task's record loop, before any parallel copy of the task reads."""
        if self.source is not None:
            self.source.begin(frame)

    def close(self) -> None:
        """Close the source and all sinks of a task's record loop, also when one fails."""
        everything: list[RecordSource | RecordSink] = [*self.sinks]
        if self.source is not None:
            everything.insert(0, self.source)
        _close_all(everything)


@dataclass(frozen=True, slots=True)
class RecordPlan:
    """The parts that are the same in every run of a task that reads or writes.

    Attributes:
        streams: Makes the source and the sinks for one run of the group; must not fail.
        by_record: Each record has random streams of its own, since which instance gets it
            is a matter of timing.
        body: Path of the task's body, which ``{stop: task}`` leaves.
    """

    streams: Callable[[Frame], Streams]
    by_record: bool
    body: str


def field_names(task: Task) -> tuple[str, ...]:
    """Return the names that a task's record loop binds to the values of each record."""
    match task.read:
        case ReadRecords(reader=reader):
            return tuple(field.name for field in reader.fields)
        case ReadQueue(names=names):
            return names
        case None:
            return ()


def run_records(plan: RecordPlan, block: Block, frame: Frame, streams: Streams) -> None:
    """Run the task's steps once for every record that this parallel copy of the task gets.

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
    sinks = streams.sinks
    puts = tuple(sink.connect(inner) for sink in sinks)
    if streams.source is None:
        # As a record without fields: the steps run once.
        records: Records = iter([(frame.instance, ())])
    else:
        records = streams.source.connect(inner)
        if plan.by_record or frame.instances > 1:
            records = _divide(records, inner, streams, by_record=plan.by_record)
    gate = inner.gate(block.changes)
    if gate is not None:
        records = _gated(records, partial(gate.pass_gate, block.changes))
    try:
        block.run(inner, records, puts, partial(_skip, sinks))
    except StopBlock as stop:
        if stop.target != plan.body:
            raise
        streams.ended.append(frame.instance)
    except Exception as error:  # noqa: BLE001 - raised again, with its place
        raise_explained(error, block, inner)


def _divide(records: Records, frame: Frame, streams: Streams, *, by_record: bool) -> Records:
    """Iterate over a parallel copy's records until another copy has ended the record loop."""
    for number, values in records:
        if streams.ended:
            _skip(streams.sinks, number)
            return
        if by_record:
            frame.record = number
            frame.streams = {}
        yield number, values


def _gated(records: Records, pass_gate: Callable[[], None]) -> Records:
    """Iterate over a record loop's records; before each, wait until a save copied what changes."""
    for record in records:
        pass_gate()
        yield record


def _skip(sinks: Sequence[RecordSink], number: int) -> None:
    """Skip one record's number in each queue that a record loop writes to: readers may await it."""
    for sink in sinks:
        sink.skip(number)


def _close_all(streams: Sequence[RecordSource | RecordSink]) -> None:
    if not streams:
        return
    try:
        streams[0].close()
    finally:
        _close_all(streams[1:])
