"""Asking a run to end before its end: signals, a time limit, a request left in the run.

A signal only writes one byte; a thread of our own reads it and decides. So a signal can
arrive at any instant, also while the main thread is inside a long numpy call or holds a lock.

    first request:   the epoch may end if it is expected to within the grace, else it is dropped
    grace is over:   drop it
    second request:  drop it at once
    a deadline:      begin no epoch that would not be saved before it; drop one that is late
    a time limit:    begin no epoch that would not be saved before it; at it, a first request

All spans are of the monotonic clock: a wall clock that jumps changes nothing.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from jobrun.core.errors import InterruptedRunError, StoppedEarlyError
from jobrun.core.relayed import MEANT, RELAYS

_STOPPING = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT)
_NUDGE = 0  # no signal has this number
_REQUEST_POLL_S = 0.5
# A cancel may fall between two groups, where there is nothing to cancel yet: say it again.
_REPEAT_S = 0.05
_EPOCHS_SEEN = 8
# A signal to a whole group of processes comes here twice, once passed on, so soon.
_SAME_S = 1.0
REQUEST_NAME = "stop-request"


@contextlib.contextmanager
def early_stops() -> Iterator[None]:
    """Let a signal that comes before the loop end the process in good order, at once.

    While a run is made, or recovers, nothing is being computed that could be finished first; and
    what is on the disk is safe at any instant. In the main thread only.

    Raises:
        StoppedEarlyError: A signal came; after SIGINT, an InterruptedRunError.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {}
    for number in _heard():
        previous[number] = signal.signal(number, _leave)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


class StopRequests:
    """Watches for requests to end while it is entered. Installs handlers in the main thread only.

    Args:
        cancel: Ends the running group soon; called from another thread, and repeatedly.
        grace_s: How long an epoch may still take after the first request.
        time_s: Ask by ourselves after so many seconds; 0 for never.
        deadline_s: In so many seconds everything must be saved; None for never.
        request: A file whose appearance is a request, or None.
    """

    def __init__(
        self,
        cancel: Callable[[], None],
        *,
        grace_s: float = 25.0,
        time_s: float = 0.0,
        deadline_s: float | None = None,
        request: Path | None = None,
    ) -> None:
        self._cancel = cancel
        self._grace_s = grace_s
        self._time_at = time.monotonic() + time_s if time_s else float("inf")
        self._deadline_at = float("inf") if deadline_s is None else time.monotonic() + deadline_s
        self._took_s: deque[float] = deque(maxlen=_EPOCHS_SEEN)
        self._request = request
        self._reason = ""
        self._interrupted = False
        self._dropping = False
        self._insisted = False
        self._drop_at = float("inf")
        self._expected_end: float | None = None
        self._over = False
        self._heard: dict[int, tuple[int, float]] = {}
        self._previous: dict[int, Any] = {}
        self._previous_fd = -1
        self._thread = threading.Thread(target=self._watch, name="jobrun-stop", daemon=True)

    @property
    def reason(self) -> str:
        """Why to end, in words; empty as long as nobody asked."""
        return self._reason

    @property
    def interrupted(self) -> bool:
        """Whether it was Ctrl-C that asked first."""
        return self._interrupted

    @property
    def dropping(self) -> bool:
        """Whether what runs now is being given up."""
        return self._dropping

    @property
    def insisted(self) -> bool:
        """Whether a signal came after someone had asked already: nothing is waited for."""
        return self._insisted

    def expect(self, seconds: float | None) -> None:
        """Say how long it will be until what runs now is saved; None when that is not known."""
        self._expected_end = None if seconds is None else time.monotonic() + seconds
        # Set before the reason is read: whoever notes one looks at the end afterwards. Waking
        # the other thread at every epoch would cost more than a small epoch does.
        if self._reason:
            self._nudge()

    def foresee(self, seconds: float) -> None:
        """Ask to end when another epoch would not be over before the deadline or the time limit.

        Args:
            seconds: How long the last one took, with its save. The longest of the last few
                counts: a save now and then takes longer than most.
        """
        self._took_s.append(seconds)
        longest = max(self._took_s)
        over_at = time.monotonic() + longest
        if self._reason or over_at <= min(self._deadline_at, self._time_at):
            return
        what = "before the deadline"
        if over_at <= self._deadline_at:
            what = "within the time limit of this invocation"
        self._note(
            f"the next epoch would not be saved {what}; one of the last took {longest:.3g} s"
        )

    def ask(self, reason: str) -> None:
        """Ask to end, from inside the process."""
        self._note(reason)
        self._nudge()

    def __enter__(self) -> Self:
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self._write_fd, False)
        if threading.current_thread() is threading.main_thread():
            self._previous_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
            for number in _heard():
                self._previous[number] = signal.signal(number, _do_nothing)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        if threading.current_thread() is threading.main_thread():
            signal.set_wakeup_fd(self._previous_fd)
        self._over = True
        self._nudge()
        self._thread.join()
        os.close(self._read_fd)
        os.close(self._write_fd)

    def _nudge(self) -> None:
        # A full pipe already wakes the thread.
        with contextlib.suppress(BlockingIOError):
            os.write(self._write_fd, bytes([_NUDGE]))

    def _watch(self) -> None:
        # Not select(), which knows no descriptor above 1023.
        poll = select.poll()
        poll.register(self._read_fd, select.POLLIN)
        while not self._over:
            wait_s = self._wait_s()
            readable = poll.poll(None if wait_s is None else math.ceil(wait_s * 1000))
            for number in os.read(self._read_fd, 4096) if readable else b"":
                meant = MEANT.get(number, number)
                # Others, such as an alarm's, are not ours.
                if meant in _STOPPING and not self._is_copy(number, meant):
                    self._insisted = bool(self._reason)
                    self._note(_words(meant), interrupted=meant == signal.SIGINT)
            self._look()

    def _is_copy(self, number: int, meant: int) -> bool:
        """Whether a signal that was heard already has come again on the other way."""
        now = time.monotonic()
        before, at = self._heard.get(meant, (number, now))
        if before != number and now - at < _SAME_S:
            del self._heard[meant]
            return True
        self._heard[meant] = (number, now)
        return False

    def _look(self) -> None:
        """What the clock and the file say."""
        now = time.monotonic()
        if not self._reason and now >= self._time_at:
            self._note("the time limit of this invocation was reached")
        if now >= self._deadline_at and not self._dropping:
            self._note("the deadline, less its margin, was reached")
            self._dropping = True
        if not self._reason and self._request is not None and self._request.exists():
            self._note("a stop was requested")
        if self._reason and not self._dropping:
            late = self._expected_end is not None and self._expected_end > self._drop_at
            self._dropping = late or now >= self._drop_at
        if self._dropping and not self._over:
            self._cancel()

    def _note(self, reason: str, *, interrupted: bool = False) -> None:
        if self._reason:
            self._dropping = True
            return
        self._reason = reason
        self._interrupted = interrupted
        self._drop_at = time.monotonic() + self._grace_s

    def _wait_s(self) -> float | None:
        if self._dropping:
            return _REPEAT_S
        now = time.monotonic()
        next_at = self._drop_at if self._reason else self._time_at
        next_at = min(next_at, self._deadline_at)
        wait = max(0.0, next_at - now)
        if self._request is not None and not self._reason:
            wait = min(wait, _REQUEST_POLL_S)
        return None if wait == float("inf") else wait


def _heard() -> Iterator[int]:
    """The signals to listen to: those that nobody ignores, and, if somebody relays, the relays.

    Ignored from outside (nohup, a shell's background job), a signal stays so.
    """
    for number in _STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            yield number
        if callable(signal.getsignal(RELAYS[number])):
            yield RELAYS[number]


def _words(number: int) -> str:
    return f"signal {signal.Signals(number).name}"


def _leave(number: int, frame: FrameType | None) -> None:
    """The handler before the loop: end now."""
    del frame
    number = MEANT.get(number, number)
    message = f"stopped ({_words(number)}) before any epoch ran"
    mend = "start it again: what was saved is there"
    if number == signal.SIGINT:
        raise InterruptedRunError.of("E363", message, mend)
    raise StoppedEarlyError.of("E362", message, mend)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """The handler in Python: the byte that the kernel's side wrote is what counts."""
    del number, frame
