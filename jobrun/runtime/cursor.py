"""One share of a reader: how far it is, its limits, and the record that comes next."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jobrun.blobs.values import Value
from jobrun.core.errors import TaskFailedError
from jobrun.graph.data import POSITION, Reader
from jobrun.runtime.ahead import Ahead
from jobrun.runtime.feeds import ENDLESS, Feed, Given
from jobrun.runtime.frame import Frame

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Position:
    """A row of the state blob ``readers/NAME``; see ``graph.data.POSITION``."""

    passes: int = 0
    records: int = 0
    rows: int = 0
    finished: int = 0
    part: int = 0
    parts: int = 1
    length: int = -1

    @classmethod
    def of(cls, row: Array) -> Position:
        """From the blob's row."""
        return cls(*(int(value) for value in row))

    def after(self, records: int, rows: int) -> Position:
        """When so many more records, of so many rows, have been given."""
        return replace(self, records=self.records + records, rows=self.rows + rows)

    def row(self) -> list[int]:
        """As the blob's row."""
        return [getattr(self, name) for name in POSITION]


# The records of a pass from a place on: the pass, rows gone, and how many are wanted at most.
MakeFeed = Callable[[int, int, int], Feed]


class Allowance:
    """What one run of the group may take of a share."""

    def __init__(self, limit: int | None, time_limit_s: float) -> None:
        self.limit = limit
        self._time_limit_s = time_limit_s
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
    """

    def __init__(self, reader: Reader, share: tuple[int, int], limit: int | None) -> None:
        self.reader = reader
        self.share = share
        self._allowance = Allowance(limit, reader.time_limit_s)
        # Where the run began, and how many rows it has given since.
        self._begin = Position()
        self._rows = 0
        self._finished = False
        self._ahead: Ahead | None = None
        self._head: Given | None = None

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
        stored: Position,
        length: int,
        feed: MakeFeed,
        *,
        is_new: bool,
        gone: tuple[int, int] = (0, 0),
    ) -> None:
        """A run of the group begins, at the stored position, or with a new pass.

        Args:
            frame: The task's.
            stored: How far the last run came.
            length: Rows of the whole source; -1 when it does not tell.
            feed: Makes the records.
            is_new: The source holds other data than in the last run.
            gone: Records and rows that this run has given already, where it is entered later.

        Raises:
            TaskFailedError: E230, the position is in the middle of other rows than these.
        """
        before = self.position
        self._begin = self._first_of(stored, length)
        given, self._rows = gone
        self._finished = False
        fresh = (self._begin.passes, self._begin.rows) != (stored.passes, stored.rows)
        undone = (before.passes, before.rows) != (stored.passes, stored.rows)
        # Else what is ready from the last run is still what comes next.
        if self._ahead is None or self._ahead.is_lost or fresh or undone or is_new or given:
            limit = self._allowance.limit
            most = limit if limit is not None and self.reader.restart == "epoch" else ENDLESS
            left = most - given if most != ENDLESS else ENDLESS
            made = feed(self._begin.passes, self._begin.rows + self._rows, left)
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
        self._rows += head.rows
        self._allowance.given += 1
        return head.values

    def end(self, frame: Frame) -> None:
        """The run is over."""
        if self._ahead is not None:
            self._ahead.end(frame.cancel)

    def _first_of(self, stored: Position, length: int) -> Position:
        """Where a run begins."""
        part, parts = self.share
        now = replace(stored, part=part, parts=parts, length=length, finished=0)
        if self.reader.restart == "epoch" or not stored.passes:
            return replace(now, passes=stored.passes + 1, records=0, rows=0)
        if stored.rows:
            self._check(stored, length)
        return now

    def _check(self, stored: Position, length: int) -> None:
        name = self.reader.name
        if (stored.part, stored.parts) != self.share:
            raise TaskFailedError.of(
                "E230",
                f"reader '{name}' stands in the middle of share {stored.part + 1} of "
                f"{stored.parts}, and now there are {self.share[1]}",
                "go on with as many nodes and instances as before, or use restart: epoch, which "
                "divides the rows anew in each pass",
            )
        if stored.length != length:
            raise TaskFailedError.of(
                "E230",
                f"reader '{name}' stands in the middle of {stored.length} rows, and now there are "
                f"{length}",
                "put the data back as they were, or start a new run",
            )


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

    def end(self, frame: Frame) -> None:
        """The run is over."""
        for cursor in self.cursors:
            cursor.end(frame)
