"""A thread that does one piece of work at a time while its owner goes on. Knows no checkpoints.

The owner may give up what it has started: the work is told at the next place where it asks
(``Permit.enter``), and from that place on nothing of it happens. What has passed that place is
waited for: it is short.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

# How soon it is seen that there is no time to wait any more.
_POLL_S = 0.05


class GivenUpError(Exception):
    """Raised inside the work: nobody wants it any more."""


class Permit:
    """Between one piece of work and its owner: whether it may still have an effect."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered = False
        self._given_up = False

    def enter(self) -> None:
        """Say that from here on the work is not to be cut short.

        Raises:
            GivenUpError: The owner has given it up.
        """
        with self._lock:
            if self._given_up:
                raise GivenUpError
            self._entered = True

    def give_up(self) -> bool:
        """Whether the work was given up in time; else it goes on to its end, which is near."""
        with self._lock:
            self._given_up = not self._entered
            return self._given_up


Work = Callable[[Permit], None]


class Background:
    """One thread, made when there is something to do; it does not keep the process alive."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._inbox: SimpleQueue[tuple[Work, Permit, threading.Event] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._over.set()
        self._permit = Permit()

    @property
    def is_busy(self) -> bool:
        """Whether a piece of work is under way that was not given up."""
        return not self._over.is_set()

    def start(self, work: Work) -> None:
        """Begin a piece of work, which must not raise; nothing else is under way."""
        self._over, self._permit = threading.Event(), Permit()
        self._inbox.put((work, self._permit, self._over))
        if self._thread is None:
            self._thread = threading.Thread(target=self._live, name=self._name, daemon=True)
            self._thread.start()

    def wait(self, is_late: Callable[[], bool]) -> bool:
        """Wait for the end of what is under way; False when it was given up instead.

        Args:
            is_late: Asked now and then: whether there is no time left for it.
        """
        while not self._over.wait(_POLL_S):
            if is_late() and self._permit.give_up():
                # Whatever it still does, it has no effect, and nobody waits for it.
                self._over = threading.Event()
                self._over.set()
                return False
        return True

    def close(self) -> None:
        """Let the thread end when its work has; may be called twice."""
        if self._thread is not None:
            self._inbox.put(None)
            self._thread = None

    def _live(self) -> None:
        while (given := self._inbox.get()) is not None:
            work, permit, over = given
            work(permit)
            del given, work
            over.set()
