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

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from msgspec import Struct, field

from jobrun.runtime.codegen.compiler import Block
from jobrun.runtime.codegen.control_flow import StopBlock
from jobrun.runtime.context.bounded_queue import Records
from jobrun.runtime.context.frame import Frame
from jobrun.runtime.records.queue_endpoints import QueueSink
from jobrun.runtime.step_errors import raise_explained


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
        """Stop reading records for a task's record loop, even if the loop never began."""


class Streams(Struct, frozen=True):
    """The source and the sinks of one task in one run of its group.

    Attributes:
        ended: Not empty when ``{stop: task}`` has ended one instance: the others end at their
            next record.
    """

    source: RecordSource | None = None
    sinks: tuple[QueueSink, ...] = ()
    ended: list[int] = field(default_factory=list)

    def begin(self, frame: Frame) -> None:
        """Begin the source of a task's record loop, before any parallel copy of the task reads."""
        if self.source is not None:
            self.source.begin(frame)

    def close(self) -> None:
        """Close the source and all sinks of a task's record loop, also when one fails."""
        everything: list[RecordSource | QueueSink] = [*self.sinks]
        if self.source is not None:
            everything.insert(0, self.source)
        _close_all(everything)


class RecordPlan(Struct, frozen=True):
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
    inner = frame.at(frame.block_path)
    sinks = streams.sinks
    puts = tuple(sink.connect(inner) for sink in sinks)
    if streams.source is None:
        # One record without fields: the steps run once.
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
    """Iterate over records for one copy of a task until another copy ends the record loop."""
    for number, values in records:
        if streams.ended:
            _skip(streams.sinks, number)
            return
        if by_record:
            frame.record = number
            frame.streams = {}
        yield number, values


def _gated(records: Records, pass_gate: Callable[[], None]) -> Records:
    """Yield a record loop's records; before each, wait until a save has copied the blobs."""
    for record in records:
        pass_gate()
        yield record


def _skip(sinks: Sequence[QueueSink], number: int) -> None:
    """Skip a record that the record loop does not send, in each queue that it writes to.

    Readers may wait for its number.
    """
    for sink in sinks:
        sink.skip(number)


def _close_all(streams: Sequence[RecordSource | QueueSink]) -> None:
    if not streams:
        return
    try:
        streams[0].close()
    finally:
        _close_all(streams[1:])
