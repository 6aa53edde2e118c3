"""One share of a reader: how far it is, its limits, and the record that comes next."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from jobrun.blobs.values import Value
from jobrun.core.errors import TaskFailedError
from jobrun.graph.data import Reader
from jobrun.runtime.ahead import Ahead
from jobrun.runtime.feeds import ENDLESS, Feed, Pair
from jobrun.runtime.frame import Frame
from jobrun.runtime.standing import Position, divided_anew

# The records of a pass from a position on, and how many are wanted at most.
MakeFeed = Callable[[Position, int], Feed]


class Allowance:
    """What one run of the group may take of a share."""

    def __init__(self, limit: int | None, time_limit_s: float) -> None:
        self.limit = limit
        self._time_limit_s = time_limit_s
        self.has_limits = limit is not None or bool(time_limit_s)
        self.given = 0
        self._started = 0.0

    def begin(self, given: int = 0) -> None:
        """A run begins, or goes on after so many records."""
        self.given = given
        self._started = time.monotonic()

    @property
    def is_spent(self) -> bool:
        """Whether no further record may be begun."""
        if self.limit is not None and self.given >= self.limit:
            return True
        limit_s = self._time_limit_s
        return bool(limit_s) and time.monotonic() - self._started >= limit_s


class Cursor:
    """Gives the records of one share of a reader, one run of the group after the other.

    Args:
        reader: The reader; its source is not a ``ZipSource``.
        share: Which of how many.
        limit: Records per run for this share; None for no limit.
        beside: Its records stand beside those of other readers, which must not get out of step.
    """

    def __init__(
        self, reader: Reader, share: tuple[int, int], limit: int | None, *, beside: bool = False
    ) -> None:
        self.reader = reader
        self.share = share
        self._beside = beside
        self.was_divided = False
        self._allowance = Allowance(limit, reader.time_limit_s)
        # Where the run began, and how many rows it has given since.
        self._begin = Position()
        self._rows = 0
        self._finished = False
        self._ahead: Ahead | None = None
        self._head: Pair | None = None

    @property
    def position(self) -> Position:
        """How far it is; ``finished``: this run has found the end."""
        found = self._begin.after(self._allowance.given, self._rows)
        return replace(found, finished=int(self._finished))

    @property
    def given(self) -> int:
        """Records of this run."""
        return self._allowance.given

    @property
    def place(self) -> tuple[int, int]:
        """Records and rows of this run."""
        return self._allowance.given, self._rows

    def begin(
        self,
        frame: Frame,
        stored: Sequence[Position],
        length: int,
        feed: MakeFeed,
        *,
        is_new: bool,
        gone: tuple[int, int] = (0, 0),
    ) -> None:
        """A run of the group begins, at the stored position, or with a new pass.

        Args:
            frame: The task's.
            stored: How far the shares of the node came in the last run; this one may be new.
            length: Rows of the whole source; -1 when it does not tell.
            feed: Makes the records.
            is_new: The source holds other data than in the last run.
            gone: Records and rows that this run has given already, where it is entered later.

        Raises:
            TaskFailedError: E230, the position is in the middle of other rows than these.
        """
        before = self.position
        own = self._own(stored)
        self._begin = self._first_of(own, stored, length)
        now = self._begin
        self.was_divided = now.passes == own.passes and now.stretches != own.stretches
        given, self._rows = gone
        self._finished = False
        fresh = self._begin.begun != own.begun
        undone = before.begun != own.begun
        # Else what is ready from the last run is still what comes next.
        if self._ahead is None or self._ahead.is_lost or fresh or undone or is_new or given:
            limit = self._allowance.limit
            most = limit if limit is not None and self.reader.restart == "epoch" else ENDLESS
            left = most - given if most != ENDLESS else ENDLESS
            made = feed(self._begin.after(0, self._rows), left)
            self._ahead, self._head = Ahead(made, self.reader.delay_s), None
        self._ahead.begin(frame.run.start)
        self._allowance.begin(given)

    def peek(self, frame: Frame) -> bool:
        """Whether there is a record to take, now.

        Raises:
            CancelledError: The run was cancelled.
        """
        if self._allowance.is_spent:
            return False
        if self._head is None:
            assert self._ahead is not None  # noqa: S101 - begun before it is read
            self._head = self._ahead.next(frame.cancel)
            self._finished = self._head is None
        return self._head is not None

    def take(self) -> tuple[Value, ...]:
        """The record that ``peek`` has found."""
        head, self._head = self._head, None
        assert head is not None  # noqa: S101 - peeked before
        values, rows = head
        self._rows += rows
        self._allowance.given += 1
        return values

    def next(self, frame: Frame) -> tuple[int, tuple[Value, ...]] | None:
        """The next record and its number in the run: ``peek`` and ``take``, in one.

        Raises:
            CancelledError: The run was cancelled.
        """
        allowance = self._allowance
        if allowance.has_limits and allowance.is_spent:
            return None
        head, self._head = self._head, None
        if head is None:
            assert self._ahead is not None  # noqa: S101 - begun before it is read
            head = self._ahead.next(frame.cancel)
            if head is None:
                self._finished = True
                return None
        values, rows = head
        self._rows += rows
        number = allowance.given
        allowance.given = number + 1
        return number, values

    def end(self, frame: Frame) -> None:
        """The run is over."""
        if self._ahead is not None:
            self._ahead.end(frame.cancel)

    def _first_of(self, own: Position, stored: Sequence[Position], length: int) -> Position:
        """Where a run begins."""
        part, parts = self.share
        now = replace(own, part=part, parts=parts, length=length, finished=0)
        if self.reader.restart == "epoch" or not own.passes:
            passes = max((one.passes for one in stored), default=0)
            return replace(now, passes=passes + 1, records=0, rows=0, stretches=())
        if any(one.rows or one.stretches for one in stored):
            return self._within(now, own, stored, length)
        return now

    def _within(
        self, now: Position, own: Position, stored: Sequence[Position], length: int
    ) -> Position:
        """Where a run begins that goes on in the middle of a pass."""
        name = self.reader.name
        if own.length != length:
            raise TaskFailedError.of(
                "E230",
                f"reader '{name}' stands in the middle of {own.length} rows, and now there are "
                f"{length}",
                "put the data back as they were, or start a new run",
            )
        if (own.part, own.parts) == self.share:
            return now
        found = None if self._beside else divided_anew(stored, *self.share)
        if found is None:
            raise TaskFailedError.of(
                "E230",
                f"reader '{name}' stands in the middle of share {own.part + 1} of {own.parts}, "
                f"and now there are {self.share[1]}",
                "go on with as many nodes and instances as before, or use restart: epoch, which "
                "divides the rows anew in each pass",
            )
        return found

    def _own(self, stored: Sequence[Position]) -> Position:
        """The position of this share, or another's: all of them begin a pass together."""
        same = (one for one in stored if (one.part, one.parts) == self.share)
        return next(same, stored[0] if stored else Position())


class ZipCursor:
    """Records side by side, one of each cursor; takes none unless all have one."""

    def __init__(self, reader: Reader, cursors: tuple[Cursor, ...], limit: int | None) -> None:
        names = [one.name for cursor in cursors for one in cursor.reader.fields]
        self._places = tuple(names.index(one.member) for one in reader.fields)
        self.reader = reader
        self.cursors = cursors
        self._allowance = Allowance(limit, reader.time_limit_s)
        self._begin = Position()
        self._finished = False

    @property
    def position(self) -> Position:
        """As the cursors' positions; ``rows`` are records."""
        given = self._allowance.given
        return replace(self._begin.after(given, given), finished=int(self._finished))

    @property
    def given(self) -> int:
        """Records of this run."""
        return self._allowance.given

    def begin(self, stored: Position, given: int = 0) -> None:
        """A run begins, or goes on after so many records; that of the cursors has."""
        first = self.cursors[0].position
        is_new = self.reader.restart == "epoch" or not stored.passes
        now = replace(stored, part=first.part, parts=first.parts, finished=0)
        if is_new:
            now = replace(now, passes=stored.passes + 1, records=0, rows=0)
        self._begin, self._finished = now, False
        self._allowance.begin(given)

    def peek(self, frame: Frame) -> bool:
        """Whether there is a record to take, now.

        Raises:
            CancelledError: The run was cancelled.
        """
        if self._allowance.is_spent:
            return False
        for cursor in self.cursors:
            if not cursor.peek(frame):
                self._finished = bool(cursor.position.finished)
                return False
        return True

    def take(self) -> tuple[Value, ...]:
        """The record that ``peek`` has found."""
        self._allowance.given += 1
        values = [value for cursor in self.cursors for value in cursor.take()]
        return tuple([values[place] for place in self._places])

    def next(self, frame: Frame) -> tuple[int, tuple[Value, ...]] | None:
        """See ``Cursor.next``."""
        number = self._allowance.given
        return (number, self.take()) if self.peek(frame) else None

    def end(self, frame: Frame) -> None:
        """The run is over."""
        for cursor in self.cursors:
            cursor.end(frame)
