"""Threads that are kept from one group run to the next, so that an epoch need not start any."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from queue import SimpleQueue

Work = Callable[[], None]
Inbox = SimpleQueue[tuple[Work, Work] | None]

_JOIN_S = 5.0


class Crew:
    """As many threads as work has ever overlapped.

    Work that is given must be able to start at once, since pieces of it may wait for each
    other; so there is no limit, and no queue of waiting work.

    Args:
        inside: Makes the context that each thread lives in.
    """

    def __init__(self, inside: Callable[[], AbstractContextManager[object]]) -> None:
        self._inside = inside
        self._idle: deque[Inbox] = deque()
        self._threads: list[threading.Thread] = []
        self._inboxes: list[Inbox] = []
        self._lock = threading.Lock()
        self._closed = False

    def start(self, work: Work, done: Work) -> None:
        """Run ``work`` in another thread; then, when that thread is free again, call ``done``.

        ``work`` must not raise. ``done`` must not block.
        """
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = self._hire()
        inbox.put((work, done))

    def close(self) -> None:
        """End all threads that are idle; stuck ones end with the process. May be called twice."""
        with self._lock:
            self._closed = True
            threads, self._threads = self._threads, []
            inboxes, self._inboxes = self._inboxes, []
        for inbox in inboxes:
            inbox.put(None)
        deadline = time.monotonic() + _JOIN_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _hire(self) -> Inbox:
        inbox: Inbox = SimpleQueue()
        with self._lock:
            if self._closed:
                raise RuntimeError("the session is closed")
            name = f"jobrun-{len(self._threads)}"
            # Daemon: a callable that never returns must not keep the process alive.
            thread = threading.Thread(target=self._live, args=(inbox,), name=name, daemon=True)
            # First: one that the system refuses is none that could be waited for.
            thread.start()
            self._threads.append(thread)
            self._inboxes.append(inbox)
        return inbox

    def _live(self, inbox: Inbox) -> None:
        with self._inside():
            while (given := inbox.get()) is not None:
                work, done = given
                work()
                # Before done: whoever waits for it may need a thread next.
                self._idle.append(inbox)
                del work, given
                done()
                del done
