"""Run the steps of a task for each record that it reads, and send what it writes.

::

    until the source has no more:
        take a record; bind its fields; run the steps; send on what the task writes

``stop`` leaves the record, which is then not sent on; ``{stop: task}`` ends the task. A task
that only writes runs its steps once. What belongs to one task is a ``Streams``: it is made
before the task's set-up, begun after it, and closed when the task ends, in whatever way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import NamedTuple, Protocol

from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.readers import ReadQueue, ReadRecords, record_path
from jobrun.graph.types import Task
from jobrun.runtime.codegen.compiler import Block
from jobrun.runtime.codegen.control_flow import StopBlock
from jobrun.runtime.codegen.liveness import BlockNames
from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.context.frame import LEVELS, Frame
from jobrun.runtime.step_errors import gate_of, raise_explained, run_block
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
# The records of an instance: a generator, since that costs less per record than a call; and what
# it calls to write the record of a number, which returns False when no reader is left.
Records = Iterator[Numbered]
Write = Callable[[int], bool]


class RecordSource(Protocol):
    """The source of a task's records; all its instances share it."""

    def begin(self, frame: Frame) -> None:
        """Begin to give records to the loop, after the task's set-up (protocol)."""

    def connect(self, frame: Frame) -> Records:
        """Iterate over the records that a source gives to a record loop (protocol).

        Called in any thread, after ``begin``.

        It may block, and then sees that ``frame.cancel`` is cancelled: it raises
        ``CancelledError``.
        """

    def close(self) -> None:
        """End giving records to the loop of a task, also if it never began (protocol)."""


class RecordSink(Protocol):
    """The destination of a task's records; all its instances share it."""

    def connect(self, frame: Frame) -> Write:
        """Return the function by which a record loop writes to a sink (protocol).

        It writes them as they are in the frame's workspaces, and its argument is the number of
        the record that was read; 0 in a task that reads none. It may block as a source does, and
        returns False when no reader is left: the task ends.
        """

    def skip(self, number: int) -> None:
        """Skip a record whose pass of the record loop was left by a ``stop`` (protocol)."""

    def close(self) -> None:
        """Close a record loop's destination, a sink, after its task has ended (protocol)."""


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
        """Begin the source of a task's record loop, before any instance reads from it."""
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
    """Return the path of the block that ``stop`` ends: one pass of the record loop, or the task."""
    return task.path if task.read is None else record_path(task.path)


def field_levels(task: Task, names: BlockNames) -> tuple[tuple[str, str], ...]:
    """Return the fields that a task's record loop binds, each with its workspace level."""
    return tuple((LEVELS[names.scope(name)], name) for name in field_names(task))


def field_names(task: Task) -> tuple[str, ...]:
    """Return the names to which a task's record loop binds the fields of a record, in order."""
    match task.read:
        case ReadRecords(reader=reader):
            return tuple(field.name for field in reader.fields)
        case ReadQueue(names=names):
            return names
        case None:
            return ()


def run_records(plan: RecordPlan, block: Block, frame: Frame, streams: Streams) -> None:
    """Run the task's steps for every record that this instance gets.

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
    write = _connect_sinks(streams.sinks, inner)
    try:
        if streams.source is not None:
            _run_all(plan, block, inner, streams, streams.source.connect(inner), write)
        elif run_block(block, inner):
            _skip(0, streams.sinks)
        elif write is not None:
            write(0)
    except StopBlock as stop:
        if streams.source is None:
            _skip(0, streams.sinks)
        if stop.target != plan.body:
            raise
        streams.ended.append(frame.instance)


def _connect_sinks(sinks: Sequence[RecordSink], frame: Frame) -> Write | None:
    """Return the function by which a record loop writes to all its sinks, or None."""
    writes = [sink.connect(frame) for sink in sinks]
    if len(writes) < 2:
        return writes[0] if writes else None

    def write(number: int) -> bool:
        # To all of them, even if one has no readers any more.
        wanted = [one(number) for one in writes]
        return any(wanted)

    return write


def _run_all(
    plan: RecordPlan,
    block: Block,
    frame: Frame,
    streams: Streams,
    records: Records,
    write: Write | None,
) -> None:
    """Run the task's steps for each record; look up beforehand what all records share.

    Records may be small and many: what ``run_block`` does is written out here.
    """
    spaces = [(getattr(frame, level), name) for level, name in plan.fields]
    first, name = spaces[0] if len(spaces) == 1 else (None, "")
    scope, ended, by_record = frame.cancel, streams.ended, plan.by_record
    run, gate = block.run, gate_of(block, frame)
    for number, values in records:
        if scope.cancelled:
            raise CancelledError
        if ended:
            _skip(number, streams.sinks)
            return
        if first is not None:
            first[name] = values[0]
        else:
            for (space, field_name), value in zip(spaces, values, strict=True):
                space[field_name] = value
        if by_record:
            frame.record = number
            frame.streams = {}
        try:
            if gate is not None:
                gate.pass_gate(block.changes)
            is_left = run(frame) is True
        except StopBlock as stop:
            if stop.target != block.path:
                _skip(number, streams.sinks)
                raise
            is_left = True
        except Exception as error:  # noqa: BLE001 - raised again, with its place
            raise_explained(error, block, frame)
        if is_left:
            _skip(number, streams.sinks)
        elif write is not None and not write(number):
            return


def _skip(number: int, sinks: Sequence[RecordSink]) -> None:
    """Let each sink of a record loop skip one record, for which others may wait."""
    for sink in sinks:
        sink.skip(number)


def _close_all(streams: Sequence[RecordSource | RecordSink]) -> None:
    if not streams:
        return
    try:
        streams[0].close()
    finally:
        _close_all(streams[1:])
