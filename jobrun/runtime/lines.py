"""Lines of records between threads: bounded, in order, closed by the last writer. No workspaces.

Three rules make that nobody waits for ever:

* A line knows from its beginning how many will write to it and read from it. It is closed when
  the last writer has left, and abandoned when the last reader has.
* Whoever waits is woken by a record or by room, by the close, by the end of the last reader,
  and by the cancel of its scope.
* Who was woken and goes away instead, since its scope was cancelled, wakes another in its place.

An ordered line takes the records of the numbers ``head`` to ``head + capacity - 1`` as they
come, and gives them out by number. The record of number ``head`` therefore never waits for
room, so whoever has it in hand comes to its end, and the line goes on: with a capacity of 1
writers wait for each other, but no number of them makes the line stand still. Nor does it ever
hold more than ``capacity`` records.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol, TypeVar

from jobrun.blobs.values import Value
from jobrun.runtime.cancel import CancelledError, CancelScope

Values = tuple[Value, ...]
# The number of a take, counted from 0, and its record; none at the end of the line.
Taken = tuple[int, Values | None]

_Bell = SimpleQueue[None]
_Done = TypeVar("_Done")
_END: Taken = (-1, None)


class LineEnds(Protocol):
    """What writers and readers use of a line, wherever it is; see ``Line``."""

    def put(self, number: int, values: Values | None, scope: CancelScope) -> bool:
        """Put in a record, or that there is none of that number; waits for room."""

    def take(self, scope: CancelScope) -> tuple[int, Values] | None:
        """The next record and its number."""

    def gather(self, most: int, scope: CancelScope) -> tuple[int, tuple[Values, ...]] | None:
        """The next ``most`` records and their number."""

    def leave_writer(self) -> None:
        """One writer less."""

    def leave_reader(self) -> None:
        """One reader less."""


class Line(ABC):
    """What writers and readers use, from any thread.

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

    def put(self, number: int, values: Values | None, scope: CancelScope) -> bool:
        """Put in a record, or that there is none of that number; waits for room.

        Returns:
            False when nobody reads any more: the record is dropped.

        Raises:
            CancelledError: The scope was cancelled before there was room.
        """
        with self._lock:
            done = self._put(number, values)
        if done is None:
            done = self._wait(lambda: self._put(number, values), self._putters, scope)
        return done

    def take(self, scope: CancelScope) -> tuple[int, Values] | None:
        """The next record and its number; waits for it. None when the line is closed and empty.

        Raises:
            CancelledError: The scope was cancelled before.
        """
        with self._lock:
            taken = self._take()
        if taken is None:
            taken = self._wait(self._take, self._takers, scope)
        number, values = taken
        return None if values is None else (number, values)

    def take_some(self, most: int, scope: CancelScope) -> list[Values] | None:
        """As ``take``, with up to ``most`` records, as far as they are there at once.

        Raises:
            CancelledError: The scope was cancelled before.
        """
        first = self.take(scope)
        if first is None:
            return None
        found = [first[1]]
        with self._lock:
            while len(found) < most:
                taken = self._take()
                if taken is None or taken[1] is None:
                    break
                found.append(taken[1])
        return found

    def gather(self, most: int, scope: CancelScope) -> tuple[int, tuple[Values, ...]] | None:
        """The next ``most`` records, or all when there will be no more, and their number.

        One reader at a time, or each would end with a few. None as of ``take``.

        Raises:
            CancelledError: The scope was cancelled before.
        """
        self._wait(self._begin_to_gather, self._gatherers, scope)
        found: list[Values] = []
        number = -1
        try:
            while len(found) < most:
                at, values = self._wait(self._take, self._takers, scope)
                if values is None:
                    break
                found.append(values)
                number = at // most
        finally:
            with self._lock:
                self._gathering = False
                _wake_one(self._gatherers)
        return (number, tuple(found)) if found else None

    def leave_writer(self) -> None:
        """One writer less; with the last one the line is closed."""
        with self._lock:
            self._writers -= 1
            if self._writers == 0:
                _wake_all(self._takers)

    def leave_reader(self) -> None:
        """One reader less; with the last one, writers are told that they can end."""
        with self._lock:
            self._readers -= 1
            if self._readers == 0:
                self._clear()
                _wake_all(self._putters)

    @abstractmethod
    def _put(self, number: int, values: Values | None) -> bool | None:
        """What ``put`` gives; None when there is no room. Under the lock."""

    @abstractmethod
    def _take(self) -> Taken | None:
        """A record or the end; None when it has not come yet. Under the lock."""

    @abstractmethod
    def _clear(self) -> None:
        """Let go of all records. Under the lock."""

    def _is_read(self) -> bool:
        """Whether anyone will read what is put in now."""
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
        """What ``act`` gives as soon as it gives anything; it is called under the lock."""
        bell: _Bell = SimpleQueue()
        with scope.waking(lambda: bell.put(None)):
            while True:
                with self._lock:
                    waiting.append(bell)
                    # With the bell up: who is alone at the other end acts without the lock.
                    done = act()
                    if done is not None:
                        if bell in waiting:
                            waiting.remove(bell)
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


class LineInTurn(Line):
    """Records leave in the order in which they come; numbers mean nothing."""

    def __init__(self, capacity: int, writers: int, readers: int) -> None:
        super().__init__(capacity, writers, readers)
        self._records: deque[Values] = deque()

    def _put(self, number: int, values: Values | None) -> bool | None:  # noqa: ARG002 - see Line
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


class LineByNumber(Line):
    """Records leave in the order of their numbers, which are 0, 1, 2, … each once."""

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
        """Go on to the next number that may have a record; wake whoever waited for that."""
        records = self._records
        while self._head in records and records[self._head] is None:
            del records[self._head]
            self._head += 1
            # Room is for whoever has the next number, and only it knows.
            _wake_all(self._putters)
        if self._head in records:
            _wake_one(self._takers)


def _wake_one(waiting: deque[_Bell]) -> None:
    if waiting:
        waiting.popleft().put(None)


def _wake_all(waiting: deque[_Bell]) -> None:
    while waiting:
        waiting.popleft().put(None)
