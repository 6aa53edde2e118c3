"""Pass records between threads through bounded queues that the last writer closes.

Three rules exclude deadlocks:

* A queue is created with the number of its writers and readers. It is closed when the last
  writer has left, and abandoned when the last reader has.
* A waiting thread is woken by a record or by room, by the close, by the end of the last reader,
  and by the cancel of its scope.
* A thread that was woken and leaves because its scope was cancelled wakes another in its place.

An ordered queue takes the records of the numbers ``head`` to ``head + capacity - 1`` as they
come, and gives them out by number. The record of number ``head`` therefore never waits for room,
so its writer always finishes: with a capacity of 1 writers wait for each other, but no number of
them can block the queue. It never holds more than ``capacity`` records.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Protocol, TypeVar

from jobrun.runtime.context.cancel import CancelledError, CancelScope
from jobrun.values.blob_kinds import Value

# One value for each field of a record, in the fields' order; the receiver may change them.
Values = tuple[Value, ...]
# The number of a record in the order of its source, from 0, and the record. The number does not
# depend on timing, unless the source is a queue with several writers.
Numbered = tuple[int, Values]
# The records of an instance: a generator, since that costs less per record than a call.
Records = Iterator[Numbered]
# The number of a take, counted from 0, and its record; None at the end of the queue.
Taken = tuple[int, Values | None]

# Puts a numbered record into a queue, as ``BoundedQueue.put`` in a scope.
Put = Callable[[int, Values], bool]

_Bell = SimpleQueue[None]
_Done = TypeVar("_Done")
_END: Taken = (-1, None)


class RecordQueue(Protocol):
    """What tasks use of a queue of records, on whichever node it is; see ``BoundedQueue``."""

    def put(self, number: int, values: Values | None, scope: CancelScope) -> bool:
        """Put a record and its number into the bounded queue; None only skips the number."""

    def writer(self, scope: CancelScope) -> Put:
        """Return a function by which one thread puts records into the bounded queue."""

    def take(self, scope: CancelScope) -> Numbered | None:
        """Take the next record and its number out of the bounded queue; return None at its end."""

    def records(self, scope: CancelScope) -> Records:
        """Iterate over numbered records while taking them out of the bounded queue."""

    def gather(self, most: int, scope: CancelScope) -> tuple[int, tuple[Values, ...]] | None:
        """Take up to ``most`` records from a bounded queue at once, and their batch's number."""

    def take_waited_s(self) -> float:
        """Return how many seconds tasks have waited for the bounded queue since the last call."""

    def leave_writer(self) -> None:
        """Remove one writer from the bounded queue, which closes once it has no writer."""

    def leave_reader(self) -> None:
        """Remove one reader from the bounded queue, which drops records once it has no reader."""


class BoundedQueue(ABC):
    """A bounded queue of records, for any number of threads.

    All that does not wait happens under one lock, which is held for a few lines of Python. A
    cancel needs no lock, so it may come from a signal handler.

    Args:
        capacity: How many records wait in it at most.
        writers: How many will leave as writers; with the last one it is closed.
        readers: How many will leave as readers.
    """

    def __init__(self, capacity: int, writers: int, readers: int) -> None:
        self._capacity = capacity
        self._writers = writers
        self._readers = readers
        self._lock = threading.Lock()
        self._takers: deque[_Bell] = deque()
        self._putters: deque[_Bell] = deque()
        self._gatherers: deque[_Bell] = deque()
        self._gathering = False
        self._takes = 0
        # How long threads have waited to take, and to put.
        self._waited_s = [0.0, 0.0]

    def put(self, number: int, values: Values | None, scope: CancelScope) -> bool:
        """Put a record and its number into the bounded queue, None to skip it; wait while full.

        Returns:
            False when no reader is left: the record is dropped.

        Raises:
            CancelledError: The scope was cancelled before there was room.
        """
        with self._lock:
            done = self._put(number, values)
        if done is None:
            done = self._wait(lambda: self._put(number, values), self._putters, scope)
        return done

    def writer(self, scope: CancelScope) -> Put:
        """Return the function that a thread calls to put its records into the bounded queue."""
        return partial(self.put, scope=scope)

    def take(self, scope: CancelScope) -> Numbered | None:
        """Take the bounded queue's next record and its number; None if it is closed and empty.

        Raises:
            CancelledError: The scope was cancelled before.
        """
        with self._lock:
            taken = self._take()
        if taken is None:
            taken = self._wait(self._take, self._takers, scope)
        number, values = taken
        return None if values is None else (number, values)

    def records(self, scope: CancelScope) -> Records:
        """Iterate over the records that one reader of a bounded queue takes, and their numbers.

        Raises:
            CancelledError: The scope was cancelled before.
        """
        return iter(partial(self.take, scope), None)

    def take_some(self, most: int, scope: CancelScope) -> list[Values] | None:
        """Wait for a record of the bounded queue; return up to ``most``, or None at its end.

        Raises:
            CancelledError: The scope was cancelled before.
        """
        first = self.take(scope)
        if first is None:
            return None
        records = [first[1]]
        with self._lock:
            while len(records) < most:
                taken = self._take()
                if taken is None or taken[1] is None:
                    break
                records.append(taken[1])
        return records

    def gather(self, most: int, scope: CancelScope) -> tuple[int, tuple[Values, ...]] | None:
        """Take up to ``most`` records from a bounded queue at once, and their batch's number.

        One reader at a time, or each would end with a few. None as of ``take``.

        Raises:
            CancelledError: The scope was cancelled before.
        """
        self._wait(self._begin_to_gather, self._gatherers, scope)
        records: list[Values] = []
        number = -1
        try:
            while len(records) < most:
                at, values = self._wait(self._take, self._takers, scope)
                if values is None:
                    break
                records.append(values)
                number = at // most
        finally:
            with self._lock:
                self._gathering = False
                _wake_one(self._gatherers)
        return (number, tuple(records)) if records else None

    def take_waited_s(self) -> float:
        """Return how many seconds threads have waited for the bounded queue since the last call."""
        with self._lock:
            waited_s, self._waited_s = self._waited_s, [0.0, 0.0]
        return sum(waited_s)

    def waited_s(self) -> tuple[float, float]:
        """Return how long threads have waited for a bounded queue: to take, and to put records."""
        return self._waited_s[0], self._waited_s[1]

    def leave_writer(self) -> None:
        """Remove one writer from the bounded queue, which closes once it has no writer."""
        with self._lock:
            self._writers -= 1
            if self._writers == 0:
                _wake_all(self._takers)

    def leave_reader(self) -> None:
        """Remove one reader from the bounded queue; once it has none, no writer waits."""
        with self._lock:
            self._readers -= 1
            if self._readers == 0:
                self._clear()
                _wake_all(self._putters)

    @abstractmethod
    def _put(self, number: int, values: Values | None) -> bool | None:
        """Put a record into the bounded queue, whose lock is held; return None if it is full."""

    @abstractmethod
    def _take(self) -> Taken | None:
        """Take a record, or the end, from the bounded queue; return None if neither has come.

        Needs the lock.
        """

    @abstractmethod
    def _clear(self) -> None:
        """Drop all records in a bounded queue. Needs the lock."""

    def _is_read(self) -> bool:
        """Return whether any reader is left for records that are put into the queue now."""
        if self._writers <= 0:
            raise RuntimeError("a record was written after the last writer had left")
        return self._readers > 0

    def _begin_to_gather(self) -> bool | None:
        if self._gathering:
            return None
        self._gathering = True
        return True

    def _wait(
        self, act: Callable[[], _Done | None], waiting: deque[_Bell], scope: CancelScope
    ) -> _Done:
        """Wait until ``act``, called under the queue's lock, returns a result."""
        bell: _Bell = SimpleQueue()
        began = time.perf_counter()
        with scope.waking(lambda: bell.put(None)):
            while True:
                with self._lock:
                    waiting.append(bell)
                    # Waiting is announced first: a sole peer acts without the lock.
                    done = act()
                    if done is not None:
                        if bell in waiting:
                            waiting.remove(bell)
                        self._waited_s[waiting is self._putters] += time.perf_counter() - began
                        return done
                bell.get()
                if scope.cancelled:
                    self._give_up(bell, waiting)

    def _give_up(self, bell: _Bell, waiting: deque[_Bell]) -> None:
        with self._lock:
            if bell in waiting:
                waiting.remove(bell)
            else:
                _wake_one(waiting)
        raise CancelledError


class FifoQueue(BoundedQueue):
    """A queue whose records leave in the order in which they come; numbers mean nothing."""

    def __init__(self, capacity: int, writers: int, readers: int) -> None:
        super().__init__(capacity, writers, readers)
        self._records: deque[Values] = deque()

    def _put(self, number: int, values: Values | None) -> bool | None:  # noqa: ARG002 - as in BoundedQueue
        if not self._is_read():
            return False
        if values is None:
            return True
        if len(self._records) >= self._capacity:
            return None
        self._records.append(values)
        _wake_one(self._takers)
        return True

    def _take(self) -> Taken | None:
        if not self._records:
            return _END if self._writers <= 0 else None
        _wake_one(self._putters)
        number = self._takes
        self._takes = number + 1
        return number, self._records.popleft()

    def _clear(self) -> None:
        self._records.clear()


class OrderedQueue(BoundedQueue):
    """A queue whose records leave in the order of their numbers, which are 0, 1, 2, … each once."""

    def __init__(self, capacity: int, writers: int, readers: int) -> None:
        super().__init__(capacity, writers, readers)
        self._head = 0
        self._records: dict[int, Values | None] = {}

    def _put(self, number: int, values: Values | None) -> bool | None:
        if not self._is_read():
            return False
        if number - self._head >= self._capacity:
            return None
        self._records[number] = values
        self._pass_over()
        return True

    def _take(self) -> Taken | None:
        if self._writers <= 0 and self._records:
            # A writer that failed has taken its number with it.
            self._head = min(self._records)
            self._pass_over()
        values = self._records.pop(self._head, None)
        if values is None:
            return _END if self._writers <= 0 else None
        self._head += 1
        self._pass_over()
        _wake_all(self._putters)
        number = self._takes
        self._takes = number + 1
        return number, values

    def _clear(self) -> None:
        self._records.clear()

    def _pass_over(self) -> None:
        """Pass over records that will not come to an ordered queue, and wake waiting threads."""
        records = self._records
        while self._head in records and records[self._head] is None:
            del records[self._head]
            self._head += 1
            # Wake all writers: only the writer of the next number may use the room.
            _wake_all(self._putters)
        if self._head in records:
            _wake_one(self._takers)


def _wake_one(waiting: deque[_Bell]) -> None:
    if waiting:
        waiting.popleft().put(None)


def _wake_all(waiting: deque[_Bell]) -> None:
    while waiting:
        waiting.popleft().put(None)


class SpscQueue(FifoQueue):
    """A queue with a single producer and a single consumer (SPSC), mostly without a lock.

    With one writer no other thread fills the room that it sees, and with one reader no other
    takes the record that it sees: ``deque.append`` and ``deque.popleft`` are each atomic in
    CPython. A thread that finds nothing to do takes the locked path of ``BoundedQueue``: it
    registers its bell, looks once more, and only then waits; a thread that did something looks
    for bells after that. One of the two therefore always sees the other (Dekker's pattern).

    Args:
        capacity: How many records wait in it at most.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity, 1, 1)

    def writer(self, scope: CancelScope) -> Put:
        """Return the function that puts records into a bounded queue of one producer thread."""
        records, takers, capacity = self._records, self._takers, self._capacity
        put, append = self.put, self._records.append

        def write(number: int, values: Values) -> bool:
            # ``put`` inlined for the case of room and a reader: records may be small and many.
            if len(records) >= capacity or self._readers < 1 or self._writers < 1:
                return put(number, values, scope)
            append(values)
            if takers:
                self._wake(takers)
            return True

        return write

    def records(self, scope: CancelScope) -> Records:
        """Iterate over a bounded queue's records; only in the thread of its single reader."""
        records, putters = self._records, self._putters
        while True:
            if records:
                # ``take`` inlined.
                values = records.popleft()
                if putters:
                    self._wake(putters)
                number = self._takes
                self._takes = number + 1
                yield number, values
            elif (taken := self.take(scope)) is not None:
                yield taken
            else:
                return

    def _wake(self, waiting: deque[_Bell]) -> None:
        with self._lock:
            if waiting:
                waiting.popleft().put(None)
