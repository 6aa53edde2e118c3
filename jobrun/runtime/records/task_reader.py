"""Read a task's reader: give each record, in order, to one instance; its position is state.

A reader is opened when it is first read, and stays open from one run of its group to the next.
Its position is taken from the node's workspace when a run begins and put back when it ends;
it counts what was given out, never what was taken ahead.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from jobrun.core.events import Noted
from jobrun.graph.readers import Reader, ReadRecords, ZipSource, readers_in
from jobrun.runtime.codegen.line_table import StepLocation
from jobrun.runtime.codegen.liveness import BlockNames
from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.context.frame import Frame
from jobrun.runtime.records.cursor import Cursor, ZipCursor
from jobrun.runtime.records.data_sources import OpenSource
from jobrun.runtime.records.reader_position import Position, decode_positions, encode_positions
from jobrun.runtime.records.record_loop import Numbered, Records
from jobrun.runtime.step_errors import explain_at


class ReaderPlan:
    """A reader as one task uses it, in every run of its group.

    Args:
        read: What the task declares.
        instances: The task's.
        names: What is known of the names of the task.
    """

    def __init__(self, read: ReadRecords, instances: int, names: BlockNames) -> None:
        self.read = read
        self.leaves = tuple(
            OpenSource(one, names)
            for one in readers_in(read.reader)
            if not isinstance(one.source, ZipSource)
        )
        by_instance = read.reader.shard == "instance"
        self.shares = instances if by_instance else 1
        self._cursors = tuple(self._cursor(at) for at in range(self.shares))

    def source(self, frame: Frame) -> ReaderSource:
        """Create the record source of a task's reader for one run of the task."""
        return ReaderSource(self, self._cursors, frame)

    def share(self, at: int) -> tuple[int, int]:
        """Return which share of a reader's rows a task's instance reads, and of how many."""
        return self.read.part * self.shares + at, self.read.parts * self.shares

    def _cursor(self, at: int) -> Cursor | ZipCursor:
        reader = self.read.reader
        made = tuple(
            Cursor(
                leaf.reader,
                self._share_of(leaf.reader, at),
                self._limit(leaf.reader, at),
                beside=isinstance(reader.source, ZipSource),
            )
            for leaf in self.leaves
        )
        if isinstance(reader.source, ZipSource):
            return ZipCursor(reader, made, self._limit(reader, at))
        return made[0]

    def _share_of(self, reader: Reader, at: int) -> tuple[int, int]:
        return (0, 1) if reader.shard == "none" else self.share(at)

    def _limit(self, reader: Reader, at: int) -> int | None:
        """Return how many records an instance's share of a task's reader may give, by ``limit``."""
        if reader.limit is None:
            return None
        return reader.limit // self.shares + (at < reader.limit % self.shares)


class ReaderSource:
    """A reader in one run of its group: gives each record to one instance of one task."""

    def __init__(
        self, plan: ReaderPlan, cursors: tuple[Cursor | ZipCursor, ...], frame: Frame
    ) -> None:
        self._plan = plan
        self._cursors = cursors
        self._frame = frame
        self._has_begun = False
        # Where the run is resumed: the number of records, and of each leaf records and rows.
        self._records = 0
        self._gone: tuple[tuple[int, int], ...] = ()
        # One at a time: the instances of a share wait for each other only here.
        self._locks = tuple(threading.Lock() for _ in cursors)
        # How long instances have waited for each other there; nearly right with several shares.
        self._locked_s = 0.0

    @property
    def given(self) -> int:
        """Return how many records a task's reader has given in this run to all instances."""
        return self._cursors[0].given

    def places(self) -> tuple[tuple[int, int], ...]:
        """Return how many records and rows the task's reader gave, or each reader in a ``zip``."""
        cursor = self._cursors[0]
        leaves = cursor.cursors if isinstance(cursor, ZipCursor) else (cursor,)
        return tuple(one.place for one in leaves)

    def enter(self, records: int, gone: tuple[tuple[int, int], ...]) -> None:
        """Resume a task's reader after a number of records of its run; call before ``begin``."""
        self._records, self._gone = records, gone

    def begin(self, frame: Frame) -> None:
        """Begin a task's reader: open its data, and move to the position in its state blob.

        Raises:
            JobrunError: The data cannot be read, or are not those of the position.
        """
        for number, leaf in enumerate(self._plan.leaves):
            try:
                self._begin(number, leaf, frame)
            except Exception as error:
                raise _explained(error, leaf.reader, frame) from error
        for at, cursor in enumerate(self._cursors):
            if isinstance(cursor, ZipCursor):
                stored = decode_positions(frame.n.get(cursor.reader.position))
                last = stored[min(at, len(stored) - 1)] if stored else Position()
                cursor.begin(last, self._records)
        self._has_begun = True

    def connect(self, frame: Frame) -> Records:
        """Iterate over the records of a task's reader that an instance gets.

        It raises JobrunError where the data cannot be read.
        """
        at = frame.instance if len(self._cursors) > 1 else 0
        cursor = self._cursors[at]
        is_shared = frame.instances > len(self._cursors)
        try:
            if is_shared:
                yield from self._in_turn(cursor, self._locks[at], frame)
            else:
                yield from cursor.records(frame)
        except CancelledError:
            raise
        except Exception as error:
            raise _explained(error, self._plan.read.reader, frame) from error

    def close(self) -> None:
        """Close a task's reader: end its prefetching, and store its position in the workspace."""
        if not self._has_begun:
            return
        for cursor in self._cursors:
            cursor.end(self._frame)
        waited_s = self._locked_s + sum(cursor.take_waited_s() for cursor in self._cursors)
        self._frame.run.note_wait(self._frame.task, self._frame.node.name, "data", waited_s)
        for reader, positions in self._positions():
            self._frame.n[reader.position] = encode_positions(positions)

    def _in_turn(
        self, cursor: Cursor | ZipCursor, lock: threading.Lock, frame: Frame
    ) -> Iterator[Numbered]:
        """Iterate over records of a task's reader that one instance gets, in turn with others."""
        while True:
            frame.cancel.check()
            if not lock.acquire(blocking=False):
                # Another instance reads; who waits for it waits for data.
                began = time.perf_counter()
                lock.acquire()
                self._locked_s += time.perf_counter() - began
            try:
                record = cursor.next(frame)
            finally:
                lock.release()
            if record is None:
                return
            yield record

    def _begin(self, number: int, leaf: OpenSource, frame: Frame) -> None:
        is_new = leaf.open(frame)
        stored = decode_positions(frame.n.get(leaf.reader.position))
        for cursor in self._cursors:
            one = cursor.cursors[number] if isinstance(cursor, ZipCursor) else cursor
            make = leaf.iterator_factory(frame, one.share)
            gone = self._gone[number] if self._gone else (0, 0)
            one.begin(frame, stored, leaf.length, make, is_new=is_new, gone=gone)
            if one.was_divided and one.share[0] == 0:
                frame.run.emit(
                    Noted(
                        f"reader '{leaf.reader.name}' continues in the middle of a pass: what "
                        f"{stored[0].parts} shares had left is divided among {one.share[1]}"
                    )
                )

    def _positions(self) -> list[tuple[Reader, list[Position]]]:
        reader = self._plan.read.reader
        found = [(reader, [cursor.position for cursor in self._cursors])]
        if isinstance(reader.source, ZipSource):
            for at, leaf in enumerate(self._plan.leaves):
                inner = [
                    cursor.cursors[at].position
                    for cursor in self._cursors
                    if isinstance(cursor, ZipCursor)
                ]
                found.append((leaf.reader, inner))
        return found


def _explained(error: Exception, reader: Reader, frame: Frame) -> Exception:
    return explain_at(error, StepLocation(reader.path, reader.origin), frame)
