"""What a task gets of a reader: records in order, each to one instance; the position is state.

A reader is opened when it is first read, and stays open from one run of its group to the next.
Its position is taken from the node's workspace when a run begins and put back when it ends;
it counts what was given out, never what was taken ahead.
"""

from __future__ import annotations

import threading

from jobrun.core.events import Noted
from jobrun.graph.data import Reader, ReadRecords, ZipSource, readers_in
from jobrun.runtime.cancel import CancelledError
from jobrun.runtime.cursor import Cursor, ZipCursor
from jobrun.runtime.faults import explain_at
from jobrun.runtime.frame import Frame
from jobrun.runtime.positions import Place
from jobrun.runtime.records import Numbered
from jobrun.runtime.sources import OpenData
from jobrun.runtime.standing import Position, blob_of, positions_of
from jobrun.runtime.usage import BlockNames


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
            OpenData(one, names) for one in readers_in(read.reader)
            if not isinstance(one.source, ZipSource)
        )  # fmt: skip
        by_instance = read.reader.shard == "instance"
        self.shares = instances if by_instance else 1
        self._cursors = tuple(self._cursor(at) for at in range(self.shares))

    def source(self, frame: Frame) -> ReaderSource:
        """The source for one run."""
        return ReaderSource(self, self._cursors, frame)

    def share(self, at: int) -> tuple[int, int]:
        """Which of how many shares of the rows one of this node's is."""
        return self.read.part * self.shares + at, self.read.parts * self.shares

    def _cursor(self, at: int) -> Cursor | ZipCursor:
        reader = self.read.reader
        made = tuple(
            Cursor(
                leaf.reader, self._share_of(leaf.reader, at), self._limit(leaf.reader, at),
                beside=isinstance(reader.source, ZipSource),
            )
            for leaf in self.leaves
        )  # fmt: skip
        if isinstance(reader.source, ZipSource):
            return ZipCursor(reader, made, self._limit(reader, at))
        return made[0]

    def _share_of(self, reader: Reader, at: int) -> tuple[int, int]:
        return (0, 1) if reader.shard == "none" else self.share(at)

    def _limit(self, reader: Reader, at: int) -> int | None:
        """Shares divide the limit too: which instance is faster must not decide."""
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
        # Where the run is entered: records in all, and of each leaf records and rows.
        self._records = 0
        self._gone: tuple[tuple[int, int], ...] = ()
        # One at a time: the instances of a share wait for each other only here.
        self._locks = tuple(threading.Lock() for _ in cursors)

    @property
    def given(self) -> int:
        """Records of this run; of a reader that all instances share."""
        return self._cursors[0].given

    def places(self) -> tuple[tuple[int, int], ...]:
        """For each reader without parts, the records and the rows it gave in this run."""
        cursor = self._cursors[0]
        leaves = cursor.cursors if isinstance(cursor, ZipCursor) else (cursor,)
        return tuple(one.place for one in leaves)

    def enter(self, records: int, gone: tuple[tuple[int, int], ...]) -> None:
        """The run goes on after so many records; ``gone`` as ``places`` gave it. Before begin."""
        self._records, self._gone = records, gone

    def begin(self, frame: Frame) -> None:
        """Open what is not open yet, and go to the stored position.

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
                stored = positions_of(frame.n.get(cursor.reader.position))
                last = stored[min(at, len(stored) - 1)] if stored else Position()
                cursor.begin(last, self._records)
        self._has_begun = True

    def read(self, frame: Frame) -> Numbered | None:
        """The next record of the instance's share; None at the end, and at a limit.

        Raises:
            JobrunError: The data cannot be read.
            CancelledError: The run was cancelled.
        """
        at = frame.instance if len(self._cursors) > 1 else 0
        cursor = self._cursors[at]
        try:
            with self._locks[at]:
                frame.cancel.check()
                return cursor.next(frame)
        except CancelledError:
            raise
        except Exception as error:
            raise _explained(error, self._plan.read.reader, frame) from error

    def close(self) -> None:
        """End what reads ahead, and put the position back into the node's workspace."""
        if not self._has_begun:
            return
        for cursor in self._cursors:
            cursor.end(self._frame)
        for reader, positions in self._positions():
            self._frame.n[reader.position] = blob_of(positions)

    def _begin(self, number: int, leaf: OpenData, frame: Frame) -> None:
        is_new = leaf.open(frame)
        stored = positions_of(frame.n.get(leaf.reader.position))
        for cursor in self._cursors:
            one = cursor.cursors[number] if isinstance(cursor, ZipCursor) else cursor
            feed = leaf.feed(frame, one.share)
            gone = self._gone[number] if self._gone else (0, 0)
            one.begin(frame, stored, leaf.length, feed, is_new=is_new, gone=gone)
            if one.was_divided and one.share[0] == 0:
                frame.run.emit(
                    Noted(
                        f"reader '{leaf.reader.name}' goes on in the middle of a pass: what "
                        f"{stored[0].parts} shares had left is divided among {one.share[1]}"
                    )
                )

    def _positions(self) -> list[tuple[Reader, list[Position]]]:
        reader = self._plan.read.reader
        found = [(reader, [cursor.position for cursor in self._cursors])]
        if isinstance(reader.source, ZipSource):
            for at, leaf in enumerate(self._plan.leaves):
                inner = [
                    cursor.cursors[at].position for cursor in self._cursors
                    if isinstance(cursor, ZipCursor)
                ]  # fmt: skip
                found.append((leaf.reader, inner))
        return found


def _explained(error: Exception, reader: Reader, frame: Frame) -> Exception:
    return explain_at(error, Place(reader.path, reader.origin), frame)
