"""Prefetch the next records in a thread while the last one is worked on; the order is the same.

A thread is used once records are found to take long, since handing one over costs some tens of
microseconds. Whether it is used changes times, never values: what was taken ahead and not
asked for has not been given.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue

from jobrun.runtime.context.cancel import CancelScope
from jobrun.runtime.context.frame import Start
from jobrun.runtime.records.row_iterators import Pair, RecordIterator

# Records that wait to be asked for.
DEPTH = 2
_SLOW_S = 2e-4
# Small records are read many at a time: only over a while it shows what one of them takes.
_MEASURED_S = 0.02
_WAIT_S = 0.05
# What a source that does not come back gets once the run is cancelled.
_GRACE_S = 1.0

_Item = Pair | Exception | None


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
        # Records that were read together with one that was given, and what a worker left.
        self.ready: deque[Pair] = deque()
        self._left: deque[_Item] = deque()
        self._seconds = 0.0
        self._calls = 0
        self._start: Start | None = None
        self._worker: _Worker | None = None
        self._waited_s = 0.0
        # The source failed, or did not come back: it must not be used any more.
        self.is_lost = False

    def begin(self, start: Start) -> None:
        """Let the prefetcher serve a run of the group, in which ``start`` may start its thread."""
        self._start = start

    def next(self, cancel: CancelScope) -> Pair | None:
        """Return the next prefetched record; None at the end.

        Raises:
            CancelledError: The run was cancelled while there was none yet.
        """
        if self.ready:
            return self.ready.popleft()
        if self._left:
            item = self._left.popleft()
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
        """End the prefetching thread; records already prefetched are kept for the next run."""
        self._start = None
        worker, self._worker = self._worker, None
        if worker is not None:
            self.is_lost = not worker.stop(cancel) or self.is_lost
            self._left.extend(worker.left())

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
        # How long the thread that asks for records has waited; it is set back by who reads it.
        self.waited_s = 0.0
        start(self._work, self._done.set)

    def next(self, cancel: CancelScope) -> _Item:
        """Return the next record that the thread has prefetched, None at the end, or an error."""
        if self._last:
            # Asked again after the end.
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

    def left(self) -> list[_Item]:
        """Return, in order, the records that the thread prefetched and no one asked for."""
        found: list[_Item] = []
        while True:
            try:
                item = self._ready.get_nowait()
            except Empty:
                return found
            if not isinstance(item, _Wake):
                found.append(item)

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
