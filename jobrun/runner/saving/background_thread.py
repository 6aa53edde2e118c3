"""Run one piece of work at a time in a background thread, which its owner may abandon.

The owner may abandon what it has started: the work learns of it at the next ``Permit.enter``, and
ends there without effect. What has passed that place is
waited for: it is short.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

# Interval of the checks whether to stop waiting.
_POLL_S = 0.05


class AbandonedError(Exception):
    """Raised inside the work: the owner has abandoned it."""


class Permit:
    """Decides between background work and its owner whether it may still take effect."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered = False
        self._given_up = False

    def enter(self) -> None:
        """Protect the background work from being abandoned; raise if it already was.

        Raises:
            AbandonedError: The owner has given it up.
        """
        with self._lock:
            if self._given_up:
                raise AbandonedError
            self._entered = True

    def give_up(self) -> bool:
        """Abandon the background work; return False if it has called ``enter`` before."""
        with self._lock:
            self._given_up = not self._entered
            return self._given_up


Work = Callable[[Permit], None]


class BackgroundThread:
    """One daemon thread for background work, started with the first piece."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._inbox: SimpleQueue[tuple[Work, Permit, SimpleQueue[None]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        # Gets an item when the current work ends; None without work. A queue wakes its reader in
        # half the time of a threading.Event.
        self._over: SimpleQueue[None] | None = None
        self._permit = Permit()

    @property
    def is_busy(self) -> bool:
        """Return whether the background thread is busy; abandoned work does not count."""
        return self._over is not None and self._over.empty()

    def start(self, work: Work) -> None:
        """Start work, which must not raise, in the background thread, which must be idle.

        Raises:
            RuntimeError: The system has no memory for another thread; then nothing was started.
        """
        if self._thread is None:
            thread = threading.Thread(target=self._live, name=self._name, daemon=True)
            thread.start()
            self._thread = thread
        # Set after the thread has started: otherwise ``wait`` could wait for work without a thread.
        self._over, self._permit = SimpleQueue(), Permit()
        self._inbox.put((work, self._permit, self._over))

    def wait(self, is_late: Callable[[], bool]) -> bool:
        """Wait for the background thread's work; abandon it and return False if ``is_late()``.

        Args:
            is_late: Asked now and then: whether there is no time left for it.
        """
        while self._over is not None:
            try:
                self._over.get(timeout=_POLL_S)
            except Empty:
                if is_late() and self._permit.give_up():
                    # Abandoned work has no effect, so it need not be waited for.
                    self._over = None
                    return False
            else:
                self._over = None
        return True

    def close(self) -> None:
        """Let the background thread end after its present work; may be called twice."""
        if self._thread is not None:
            self._inbox.put(None)
            self._thread = None

    def _live(self) -> None:
        while (entry := self._inbox.get()) is not None:
            work, permit, over = entry
            try:
                work(permit)
            finally:
                del entry, work
                over.put(None)
