"""Read the records of one share of a reader one by one, counting its position and limits.

Once records are found to take long, a thread prefetches the next ones while the last one is worked
on; handing one over costs some tens of microseconds. Whether it is used changes times, never values
or their order: what was taken ahead and not asked for has not been given.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

from msgspec.structs import replace

from jobrun.core.errors import TaskFailedError
from jobrun.graph.readers import Reader
from jobrun.runtime.context.cancel import CancelledError, CancelScope
from jobrun.runtime.context.frame import Frame
from jobrun.runtime.context.group_run_state import Start
from jobrun.runtime.records.reader_position import Position, redistribute
from jobrun.runtime.records.row_iterators import ENDLESS, Pair, RecordIterator
from jobrun.values.blob_kinds import Value

# Makes the iterator over a pass from a position on, with a maximum number of records.
MakeIterator = Callable[[Position, int], RecordIterator]

# The number of prefetched records.
DEPTH = 2
_SLOW_S = 2e-4
# Small records are read in batches, so the time of one record shows only over this period.
_MEASURED_S = 0.02
_WAIT_S = 0.05
# Seconds that a blocked source gets to return after the run was cancelled.
_GRACE_S = 1.0

_Item = Pair | Exception | None


class RecordBudget:
    """How many records, and how much time, one run of the group may take from a share."""

    def __init__(self, limit: int | None, time_limit_s: float) -> None:
        self.limit = limit
        self._time_limit_s = time_limit_s
        self.has_limits = limit is not None or bool(time_limit_s)
        self.records_read = 0
        self._started = 0.0

    def begin(self, already_read: int = 0) -> None:
        """Start to count records against the limits, from the number that was read before."""
        self.records_read = already_read
        self._started = time.monotonic()

    @property
    def is_used_up(self) -> bool:
        """Return whether the cursor has given as many records as its limit allows."""
        return self.limit is not None and self.records_read >= self.limit

    @property
    def is_spent(self) -> bool:
        """Return whether a cursor has reached its limit of records or of time."""
        if self.is_used_up:
            return True
        limit_s = self._time_limit_s
        return bool(limit_s) and time.monotonic() - self._started >= limit_s


class Cursor:
    """Reads the records of one share of a reader, run after run of the group.

    Args:
        reader: The reader; its source is not a ``ZipSource``.
        share: Which of how many.
        limit: Records per run for this share; None for no limit.
        beside: Its records are zipped with those of other readers, which must stay in step.
    """

    def __init__(
        self, reader: Reader, share: tuple[int, int], limit: int | None, *, is_zipped: bool = False
    ) -> None:
        self.reader = reader
        self.share = share
        self._is_zipped = is_zipped
        self.was_divided = False
        self._allowance = RecordBudget(limit, reader.time_limit_s)
        # The position at the start of the run, and the rows read since.
        self._begin = Position()
        self._rows = 0
        self._finished = False
        self._ahead: Prefetcher | None = None
        self._head: Pair | None = None

    @property
    def position(self) -> Position:
        """Return the position that the cursor has reached, ``finished`` if no record is left."""
        position = self._begin.after(self._allowance.records_read, self._rows)
        return replace(position, finished=int(self._finished))

    @property
    def records_read(self) -> int:
        """Return how many records the cursor has given in this run of the group."""
        return self._allowance.records_read

    @property
    def progress(self) -> tuple[int, int]:
        """Return how many records and rows the cursor has given in this run of the group."""
        return self._allowance.records_read, self._rows

    def begin(
        self,
        frame: Frame,
        stored: Sequence[Position],
        length: int,
        make: MakeIterator,
        *,
        is_new: bool,
        gone: tuple[int, int] = (0, 0),
    ) -> None:
        """Begin a run of the group with the cursor at its stored position, or with a new pass.

        Args:
            frame: The task's.
            stored: How far the shares of the node came in the last run; this one may be new.
            length: Rows of the whole source; -1 when that is unknown.
            make: Makes the records.
            is_new: The source holds other data than in the last run.
            gone: Records and rows that this run has given already, where it is entered later.

        Raises:
            TaskFailedError: E230, the position is in the middle of other rows than these.
        """
        before = self.position
        previous = self._stored_position(stored)
        self._begin = self._start_position(previous, stored, length)
        now = self._begin
        self.was_divided = now.passes == previous.passes and now.stretches != previous.stretches
        already_read, self._rows = gone
        self._finished = False
        fresh = self._begin.begun != previous.begun
        undone = before.begun != previous.begun
        # Otherwise the records that the last run prefetched come next.
        if self._ahead is None or self._ahead.is_lost or fresh or undone or is_new or already_read:
            limit = self._allowance.limit
            most = limit if limit is not None and self.reader.restart == "epoch" else ENDLESS
            remaining = most - already_read if most != ENDLESS else ENDLESS
            iterator = make(self._begin.after(0, self._rows), remaining)
            self._ahead, self._head = Prefetcher(iterator, self.reader.delay_s), None
        self._ahead.begin(frame.run.start)
        self._allowance.begin(already_read)

    def peek(self, frame: Frame) -> bool:
        """Return whether the cursor has a record of the reader to take now.

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
        """Take the record of the reader that the cursor's ``peek`` has found."""
        head, self._head = self._head, None
        assert head is not None  # noqa: S101 - peeked before
        values, rows = head
        self._rows += rows
        self._allowance.records_read += 1
        return values

    def next(self, frame: Frame) -> tuple[int, tuple[Value, ...]] | None:
        """Return the cursor's next record and its number in the run; None at its end or limit.

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
        number = allowance.records_read
        allowance.records_read = number + 1
        return number, values

    def records(self, frame: Frame) -> Iterator[tuple[int, tuple[Value, ...]]]:
        """Iterate over the records, with their numbers, of a cursor that only one thread uses.

        Raises:
            CancelledError: The run was cancelled.
        """
        assert self._ahead is not None  # noqa: S101 - begun before it is read
        allowance, ready, scope = self._allowance, self._ahead.ready, frame.cancel
        while True:
            if scope.cancelled:
                raise CancelledError
            if ready and self._head is None and not allowance.has_limits:
                # ``next`` inlined: the cost of a call counts for many small records.
                values, rows = ready.popleft()
                self._rows += rows
                number = allowance.records_read
                allowance.records_read = number + 1
                yield number, values
            elif (record := self.next(frame)) is not None:
                yield record
            else:
                return

    def end(self, frame: Frame) -> None:
        """End a cursor's use in a group run: stop its prefetching thread.

        At the limit of records, look first whether one more exists.
        """
        if self._ahead is not None:
            if self._allowance.is_used_up:
                self.look_ahead(frame)
            self._ahead.end(frame.cancel)

    def take_waited_s(self) -> float:
        """Return how long tasks have waited for the cursor's records since the last call."""
        return 0.0 if self._ahead is None else self._ahead.take_waited_s()

    def look_ahead(self, frame: Frame) -> None:
        """Fetch one record ahead of the cursor, to know whether the group's next run finds any.

        The record is not given: the position stays. An error of the source is left to that run.
        """
        if self.reader.restart == "epoch" or self._finished or frame.cancel.cancelled:
            return
        if self._head is None and self._ahead is not None and not self._ahead.is_lost:
            with suppress(Exception):
                self._head = self._ahead.next(frame.cancel)
                self._finished = self._head is None

    def _start_position(
        self, previous: Position, stored: Sequence[Position], length: int
    ) -> Position:
        """Return the cursor's position at the beginning of a run."""
        part, parts = self.share
        now = replace(previous, part=part, parts=parts, length=length, finished=0)
        if self.reader.restart == "epoch" or not previous.passes:
            passes = max((position.passes for position in stored), default=0)
            return replace(now, passes=passes + 1, records=0, rows=0, stretches=())
        if any(position.rows or position.stretches for position in stored):
            return self._resumed_position(now, previous, stored, length)
        return now

    def _resumed_position(
        self, now: Position, previous: Position, stored: Sequence[Position], length: int
    ) -> Position:
        """Return the position where the cursor continues a pass that an earlier run began."""
        name = self.reader.name
        if previous.length != length:
            raise TaskFailedError.of(
                "E230",
                f"reader '{name}' is in the middle of {previous.length} rows, and now there are "
                f"{length}",
                "put the data back as they were, or start a new run",
            )
        if (previous.part, previous.parts) == self.share:
            return now
        position = None if self._is_zipped else redistribute(stored, *self.share)
        if position is None:
            raise TaskFailedError.of(
                "E230",
                f"reader '{name}' is in the middle of share {previous.part + 1} of "
                f"{previous.parts}, and now there are {self.share[1]}",
                "resume with as many nodes and instances as before, or use restart: epoch, which "
                "divides the rows again in each pass",
            )
        return position

    def _stored_position(self, stored: Sequence[Position]) -> Position:
        """Choose the stored position where a cursor resumes: its own share's, else the first."""
        same = (position for position in stored if (position.part, position.parts) == self.share)
        return next(same, stored[0] if stored else Position())


class ZipCursor:
    """Reads one record of each of several cursors at a time; none unless all have one."""

    def __init__(self, reader: Reader, cursors: tuple[Cursor, ...], limit: int | None) -> None:
        names = [field.name for cursor in cursors for field in cursor.reader.fields]
        self._places = tuple(names.index(field.member) for field in reader.fields)
        self.reader = reader
        self.cursors = cursors
        self._allowance = RecordBudget(limit, reader.time_limit_s)
        self._begin = Position()
        self._finished = False

    @property
    def position(self) -> Position:
        """Return the position of a cursor over zipped readers; its ``rows`` counts records."""
        count = self._allowance.records_read
        return replace(self._begin.after(count, count), finished=int(self._finished))

    @property
    def records_read(self) -> int:
        """Return how many zipped records the cursor has given in this run of the group."""
        return self._allowance.records_read

    def begin(self, stored: Position, already_read: int = 0) -> None:
        """Begin a ``zip`` cursor in a group run that has read some of its records before."""
        first = self.cursors[0].position
        is_new = self.reader.restart == "epoch" or not stored.passes
        now = replace(stored, part=first.part, parts=first.parts, finished=0)
        if is_new:
            now = replace(now, passes=stored.passes + 1, records=0, rows=0)
        self._begin, self._finished = now, False
        self._allowance.begin(already_read)

    def peek(self, frame: Frame) -> bool:
        """Return whether every zipped cursor has a record to take now.

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
        """Take the next record of each zipped cursor, once ``peek`` has found them."""
        self._allowance.records_read += 1
        values = [value for cursor in self.cursors for value in cursor.take()]
        return tuple([values[index] for index in self._places])

    def next(self, frame: Frame) -> tuple[int, tuple[Value, ...]] | None:
        """Take the next record and its number from a cursor over several zipped readers."""
        number = self._allowance.records_read
        return (number, self.take()) if self.peek(frame) else None

    def records(self, frame: Frame) -> Iterator[tuple[int, tuple[Value, ...]]]:
        """Iterate over the records of a cursor over zipped readers, with their numbers.

        Raises:
            CancelledError: The run was cancelled.
        """
        while (record := self.next(frame)) is not None:
            yield record
            frame.cancel.check()

    def take_waited_s(self) -> float:
        """Return seconds waited for records of the cursors in a ``zip`` since the last call."""
        return sum(cursor.take_waited_s() for cursor in self.cursors)

    def end(self, frame: Frame) -> None:
        """End the use of all cursors of a ``zip`` reader in a group run."""
        for cursor in self.cursors:
            if self._allowance.is_used_up and not self._finished:
                cursor.look_ahead(frame)
                self._finished = bool(cursor.position.finished)
            cursor.end(frame)


class _Wake:
    """A sentinel in the queue that wakes the thread waiting for a record."""


class Prefetcher:
    """Prefetches the records of an iterator.

    Args:
        iterator: Iterates over the records.
        delay_s: A wait before each record.
    """

    def __init__(self, iterator: RecordIterator, delay_s: float) -> None:
        self._iterator = iterator
        self._delay_s = delay_s
        # Records of the batch that is being read, and records that a stopped worker prefetched.
        self.ready: deque[Pair] = deque()
        self._unread: deque[_Item] = deque()
        self._seconds = 0.0
        self._calls = 0
        self._start: Start | None = None
        self._worker: _Worker | None = None
        self._waited_s = 0.0
        # The source failed or did not return: it must not be used again.
        self.is_lost = False

    def begin(self, start: Start) -> None:
        """Prepare a cursor's prefetcher for a run of the group; ``start`` may start its thread."""
        self._start = start

    def next(self, cancel: CancelScope) -> Pair | None:
        """Return the next record prefetched for the cursor; None at the end.

        Raises:
            CancelledError: The run was cancelled while there was none yet.
        """
        if self.ready:
            return self.ready.popleft()
        if self._unread:
            item = self._unread.popleft()
        elif self._worker is None and not self._is_slow():
            return self._measured()
        else:
            worker = self._working()
            item = worker.next(cancel)
            if worker.waited_s:
                self._waited_s += worker.waited_s
                worker.waited_s = 0.0
        if isinstance(item, Exception):
            self.is_lost = True
            raise item
        return item

    def end(self, cancel: CancelScope) -> None:
        """End the cursor's prefetching thread; keep records that it has read for the next run."""
        self._start = None
        worker, self._worker = self._worker, None
        if worker is not None:
            self.is_lost = not worker.stop(cancel) or self.is_lost
            self._unread.extend(worker.take_unread())

    def take_waited_s(self) -> float:
        """Return how long tasks have waited for prefetched records since the last call."""
        waited_s, self._waited_s = self._waited_s, 0.0
        return waited_s

    def _is_slow(self) -> bool:
        if self._start is None:
            return False
        is_known = self._seconds > _MEASURED_S
        return bool(self._delay_s) or (is_known and self._seconds > _SLOW_S * self._calls)

    def _measured(self) -> Pair | None:
        before = time.perf_counter()
        self.is_lost = True
        item = self._iterator.next()
        if item is not None:
            self.ready.extend(self._iterator.take_ready())
        self.is_lost = False
        seconds = time.perf_counter() - before
        self._seconds += seconds
        self._waited_s += seconds
        self._calls += 1 + len(self.ready)
        return item

    def _working(self) -> _Worker:
        if self._worker is None:
            assert self._start is not None  # noqa: S101 - for the type checker
            self._worker = _Worker(self._iterator, self._delay_s, self._start)
        return self._worker


class _Worker:
    """A thread that reads records until the end, or until it is stopped."""

    def __init__(self, iterator: RecordIterator, delay_s: float, start: Start) -> None:
        self._iterator = iterator
        self._delay_s = delay_s
        self._ready: SimpleQueue[_Item | _Wake] = SimpleQueue()
        self._room = threading.Semaphore(DEPTH)
        self._closing = threading.Event()
        self._done = threading.Event()
        self._last: list[_Item] = []
        # Seconds that the consumer has waited. The reader of this attribute resets it.
        self.waited_s = 0.0
        start(self._work, self._done.set)

    def next(self, cancel: CancelScope) -> _Item:
        """Return the next record read by the cursor's thread, or its exception, or None."""
        if self._last:
            # The end or the error was returned before.
            return self._last[0]
        item = self._taken(cancel)
        if item is None or isinstance(item, Exception):
            self._last.append(item)
        self._room.release()
        return item

    def stop(self, cancel: CancelScope) -> bool:
        """Stop the prefetching thread; return False if it does not end in time."""
        self._closing.set()
        self._room.release()
        deadline = 0.0
        while not self._done.wait(_WAIT_S):
            if cancel.cancelled:
                deadline = deadline or time.monotonic() + _GRACE_S
                if time.monotonic() > deadline:
                    return False
        return True

    def take_unread(self) -> list[_Item]:
        """Return, in order, the records that the thread prefetched and no one asked for."""
        unread: list[_Item] = []
        while True:
            try:
                item = self._ready.get_nowait()
            except Empty:
                return unread
            if not isinstance(item, _Wake):
                unread.append(item)

    def _taken(self, cancel: CancelScope) -> _Item:
        try:
            item = self._ready.get_nowait()
        except Empty:
            item = _Wake()
        if not isinstance(item, _Wake):
            return item
        began = time.perf_counter()
        while isinstance(item, _Wake):
            cancel.check()
            with cancel.waking(self._wake):
                item = self._ready.get()
        self.waited_s += time.perf_counter() - began
        return item

    def _wake(self) -> None:
        self._ready.put(_Wake())

    def _work(self) -> None:
        while True:
            self._room.acquire()
            if self._closing.is_set() or self._closing.wait(self._delay_s):
                return
            item = _outcome(self._iterator.next)
            self._ready.put(item)
            if item is None or isinstance(item, Exception):
                return


def _outcome(work: Callable[[], Pair | None]) -> _Item:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - raised where the record is asked for
        return error
