"""Handle requests to stop a run early: signals, a time limit, a request file, a deadline.

A signal only writes one byte; a thread of our own reads it and decides. So a signal can
arrive at any instant, also while the main thread is inside a long numpy call or holds a lock.

    first request:   the epoch may end if it is expected to within the grace, else it is dropped
    grace is over:   drop it
    second request:  drop it at once
    a deadline:      begin no epoch that would not be saved before it; drop one that is late
    a time limit:    begin no epoch that would not be saved before it; at it, a first request

All spans are of the monotonic clock: a wall clock that jumps changes nothing. The deadline of this
process, from the batch system's variables or commands, is turned into seconds from now at once:

    JOBRUN_DEADLINE         a time in ISO 8601, or seconds since 1970; counts before all others
    Slurm                   SLURM_JOB_END_TIME; where it is not set (before 22.05), squeue
    PBS, Torque             PBS_WALLTIME, from the start of the job's first process
    OAR                     OAR_JOB_WALLTIME_SECONDS, likewise
    Cobalt                  COBALT_ENDTIME
    Flux                    flux job timeleft
    LSF                     bjobs -o time_left
    Grid Engine             qstat -j, its h_rt, from the start of the job's first process
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from msgspec import Struct

from jobrun.core.errors import InterruptedRunError, StoppedEarlyError, UsageError
from jobrun.core.stop_signals import (
    CLASSIC,
    FLEETING,
    MEANT,
    RELAYS,
    REPEATED,
    handleable_signals,
    is_own_handler,
    own_handler,
    signal_name,
)
from jobrun.core.system_calls import read_proc, read_process_stat, set_own_wakeup
from jobrun.core.text.patterns import lazy_pattern
from jobrun.graph.conditions import Deadline

_WAKE = 0  # no signal has this number
# Added to a signal's number when our handler was called; larger than any signal number.
_HANDLED = 128
_REQUEST_POLL_S = 0.5
# Interval at which a cancel is repeated: one between two groups has nothing to cancel.
_REPEAT_S = 0.05
_EPOCHS_SEEN = 8
# A signal to a process group arrives twice within this time: directly, and passed on.
_SAME_S = 1.0
REQUEST_NAME = "stop-request"
# Written next to the record by 'jobrun stop' when it sends the signal.
SENDER_NAME = "stop-command"
_BY_COMMAND = "asked by 'jobrun stop'"
# The environment variable with a user's deadline; the longest wait for a batch system command.
DEADLINE_VARIABLE = "JOBRUN_DEADLINE"
_COMMAND_S = 10.0
# [days-][[hours:]minutes:]seconds
_CLOCK = lazy_pattern(r"(?:(\d+)-)?(?:(?:(\d+):)?(\d+):)?(\d+)")
# Runs a command of the batch system; returns its output, or "".
RunCommand = Callable[[list[str]], str]


@contextlib.contextmanager
def exit_on_early_signal() -> Iterator[None]:
    """Exit in good order if a stop signal comes in the ``with`` block, before epochs begin.

    While a run is made, or recovers, nothing is being computed that could be finished first; and
    what is on the disk is safe at any instant. In the main thread only.

    Raises:
        StoppedEarlyError: A signal came; after SIGINT, an InterruptedRunError.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = _install(_exit_on_signal)
    try:
        yield
    finally:
        _put_back(previous)


class StopRequests:
    """Watches for requests to stop a run while it is entered; signals in the main thread only.

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
        self._requested: frozenset[int] = frozenset()
        self._heard: dict[int, tuple[int, float]] = {}
        self._previous: dict[int, Any] = {}
        self._previous_fd = -1
        self._thread = threading.Thread(target=self._watch, name="jobrun-stop", daemon=True)

    @property
    def reason(self) -> str:
        """Return in words why the run was requested to stop; empty if it was not."""
        return self._reason

    @property
    def interrupted(self) -> bool:
        """Return whether the first stop request was Ctrl-C (SIGINT)."""
        return self._interrupted

    @property
    def dropping(self) -> bool:
        """Return whether a stop request drops the running epoch instead of finishing it."""
        return self._dropping

    @property
    def insisted(self) -> bool:
        """Return whether a stop was requested twice: then the run does not wait for a save."""
        return self._insisted

    def expect(self, seconds: float | None) -> None:
        """Set when the epoch should be saved, by which a stop request keeps or drops it."""
        self._expected_end = None if seconds is None else time.monotonic() + seconds
        # Set before the reason is read; the thread that notes a reason reads it afterwards. Waking
        # that thread at every epoch would cost more than a small epoch.
        if self._reason:
            self._nudge()

    def foresee(self, seconds: float) -> None:
        """Request a stop if the next epoch would end after the deadline or the time limit.

        Args:
            seconds: How long the last one took, with its save. The longest of the last few
                counts: a save now and then takes longer than most.
        """
        self._took_s.append(seconds)
        longest = max(self._took_s)
        over_at = time.monotonic() + longest
        if self._reason or over_at <= min(self._deadline_at, self._time_at):
            return
        limit = "before the deadline"
        if over_at <= self._deadline_at:
            limit = "within the time limit of this invocation"
        self._note(
            f"the next epoch would not be saved {limit}; one of the last took {longest:.3g} s"
        )

    def ask(self, reason: str) -> None:
        """Request a stop of the run from inside the process."""
        self._note(reason)
        self._nudge()

    def __enter__(self) -> Self:
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self._write_fd, False)
        if threading.current_thread() is threading.main_thread():
            self._previous_fd = set_own_wakeup(self._write_fd)
            # A function, because ``own_handler`` marks it by an attribute, which a method cannot
            # have.
            self._previous = _install(own_handler(lambda number, _: self._handle(number)))
            self._requested = frozenset(
                map(
                    int,
                    (
                        *CLASSIC,
                        *(
                            MEANT.get(signal_number, signal_number)
                            for signal_number in self._previous
                        ),
                    ),
                )
            )
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _put_back(
            {
                number: _ignore if handler is _exit_on_signal else handler
                for number, handler in self._previous.items()
            }
        )
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
            os.write(self._write_fd, bytes([_WAKE]))

    def _handle(self, number: int) -> None:
        """Note that a signal reached our handler, and not one that a callable has set meanwhile.

        Others need no handler: they are read from the wakeup descriptor, also while code in C
        runs, and whatever handles them.
        """
        if number in FLEETING:
            with contextlib.suppress(BlockingIOError):
                os.write(self._write_fd, bytes([_HANDLED + number]))

    def _watch(self) -> None:
        # Not select(), which is limited to descriptors below 1024.
        poll = select.poll()
        poll.register(self._read_fd, select.POLLIN)
        while not self._over:
            wait_s = self._wait_s()
            readable = poll.poll(None if wait_s is None else math.ceil(wait_s * 1000))
            for byte in os.read(self._read_fd, 4096) if readable else b"":
                self._hear(byte)
            self._look()

    def _hear(self, byte: int) -> None:
        """Take a signal as a request to stop, if it is one; another is the second request."""
        is_handled, number = divmod(byte, _HANDLED)
        meant = MEANT.get(number, number)
        if meant not in self._requested or (number in FLEETING and not is_handled):
            return
        is_known = number in MEANT or number in CLASSIC
        if not is_known and not is_own_handler(signal.getsignal(number)):
            return
        if (meant in REPEATED and self._reason) or self._is_copy(number, meant):
            return
        self._insisted = bool(self._reason)
        self._note(self._words(meant), interrupted=meant == signal.SIGINT)

    def _words(self, number: int) -> str:
        """Describe who requested the stop: a signal, or the command that sent the signal."""
        sender = self._request and self._request.with_name(SENDER_NAME)
        is_command = number == signal.SIGTERM and sender is not None and sender.exists()
        return _BY_COMMAND if is_command else _words(number)

    def _is_copy(self, number: int, meant: int) -> bool:
        """Return whether a stop signal is a copy of the last one, relayed by the supervisor."""
        now = time.monotonic()
        before, at = self._heard.get(meant, (number, -math.inf))
        is_relayed_alike = RELAYS.get(meant, meant) == meant
        if (before != number or is_relayed_alike) and now - at < _SAME_S:
            del self._heard[meant]
            return True
        self._heard[meant] = (number, now)
        return False

    def _look(self) -> None:
        """Check the stop file, time limit and deadline; cancel an epoch that ends too late."""
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


class TimeLeft(Struct, frozen=True):
    """The seconds left until the deadline, and where they are known from."""

    seconds: float
    source: str


def time_left(
    deadline: Deadline, environment: Mapping[str, str], now: float, *, ask: RunCommand | None = None
) -> TimeLeft | None:
    """Return the time until the deadline stops the run, by the spec or batch system, or None.

    Args:
        deadline: As in the spec; its margin is not taken off.
        environment: The process's variables.
        now: Seconds since 1970.
        ask: Runs a command of the batch system; what it printed, or nothing.

    Raises:
        UsageError: E383, ``JOBRUN_DEADLINE`` is no time.
    """
    if deadline.at != "auto":
        return TimeLeft(datetime.fromisoformat(deadline.at).timestamp() - now, "the spec")
    if environment.get(DEADLINE_VARIABLE):
        return TimeLeft(_parse_own(environment[DEADLINE_VARIABLE]) - now, DEADLINE_VARIABLE)
    for name in ("SLURM_JOB_END_TIME", "COBALT_ENDTIME"):
        if environment.get(name, "").isdecimal():
            return TimeLeft(int(environment[name]) - now, name)
    for job, name in (("PBS_JOBID", "PBS_WALLTIME"), ("OAR_JOB_ID", "OAR_JOB_WALLTIME_SECONDS")):
        if environment.get(name, "").isdecimal():
            return TimeLeft(int(environment[name]) - job_age_s(job, environment.get(job)), name)
    return _ask_batch_system(environment, ask or _run_command)


def require_valid_deadline(deadline: Deadline | None, environment: Mapping[str, str]) -> None:
    """Require that ``JOBRUN_DEADLINE`` is a valid time, before a run is made.

    Raises:
        UsageError: E383, it is none.
    """
    if deadline is not None and deadline.at == "auto" and environment.get(DEADLINE_VARIABLE):
        _parse_own(environment[DEADLINE_VARIABLE])


def job_age_s(variable: str, value: str | None) -> float:
    """Return how many seconds this batch job has run, to know when to stop; 0 if unknown.

    The job began with the oldest of our ancestors that has its number in its environment. By the
    clock that runs since the machine's start.
    """
    oldest, pid = 0.0, os.getpid()
    mark = f"{variable}={value}".encode()
    while value and pid > 1:
        variables = read_proc(pid, "environ").split(b"\0")
        facts = read_process_stat(pid)
        up_s = float((read_proc("uptime").split() or [b"0"])[0])
        if mark not in variables or not facts:
            break
        oldest = max(oldest, up_s - int(facts[19]) / os.sysconf("SC_CLK_TCK"))
        pid = int(facts[1])
    return oldest


def parse_clock(text: str) -> float | None:
    """Parse the time that Slurm leaves until it stops the run, ``1-02:30:00``, to seconds."""
    match = _CLOCK.fullmatch(text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _ask_batch_system(environment: Mapping[str, str], ask: RunCommand) -> TimeLeft | None:
    """Ask the batch system for the time left until its deadline."""
    if job := environment.get("SLURM_JOB_ID"):
        return _left(parse_clock(ask(["squeue", "-h", "-j", job, "-o", "%L"])), "squeue")
    if job := environment.get("FLUX_JOB_ID"):
        return _left(_parse_number(ask(["flux", "job", "timeleft", job])), "flux job timeleft")
    if job := environment.get("LSB_JOBID"):
        # "1:30 L": hours and minutes; E follows an estimate, L a limit.
        match = re.match(r"(\d+):(\d+) L", ask(["bjobs", "-noheader", "-o", "time_left", job]))
        return _left(int(match[1]) * 3600.0 + int(match[2]) * 60 if match else None, "bjobs")
    if (job := environment.get("JOB_ID")) and environment.get("SGE_ROOT"):
        match = re.search(r"\bh_rt=(\d+)", ask(["qstat", "-j", job]))
        return _left(float(match[1]) - job_age_s("JOB_ID", job) if match else None, "qstat")
    return None


def _left(seconds: float | None, source: str) -> TimeLeft | None:
    return None if seconds is None else TimeLeft(seconds, source)


def _parse_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    # Without a limit Flux prints inf, or 0 in old versions.
    return number if 0 < number < float("inf") else None


def _parse_own(text: str) -> float:
    try:
        return float(text) if text.isdecimal() else datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise UsageError.of(
            "E383",
            f"{DEADLINE_VARIABLE} is '{text}', which is not a time",
            "give a time such as 2026-11-21T18:30, or seconds since 1970 (date -d ... +%s)",
        ) from None


def _run_command(command: list[str]) -> str:
    from jobrun.core.child_process import run_and_capture  # noqa: PLC0415 - only under one

    try:
        return run_and_capture(command, limit_s=_COMMAND_S).stdout.strip()
    except OSError:
        return ""


def _install(handler: Callable[[int, FrameType | None], object]) -> dict[int, Any]:
    """Handle the signals that request a stop, and those by which the supervisor relays them.

    Returns:
        The handlers that were there before.
    """
    relayed = [
        relay
        for number, relay in RELAYS.items()
        if relay != number and callable(signal.getsignal(relay))
    ]
    return {number: signal.signal(number, handler) for number in (*handleable_signals(), *relayed)}


def _put_back(previous: Mapping[int, Any]) -> None:
    for number, handler in previous.items():
        signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def _words(number: int) -> str:
    return f"signal {signal_name(number)}"


@own_handler
def _ignore(number: int, frame: FrameType | None) -> None:
    """Ignore a signal that comes after a run has recorded how it ended: that stays its result."""
    del number, frame


@own_handler
def _exit_on_signal(number: int, frame: FrameType | None) -> None:
    """Raise the error for a signal that requests to stop before any epoch ran."""
    del frame
    number = MEANT.get(number, number)
    message = f"stopped ({_words(number)}) before any epoch ran"
    mend = "start it again: what was saved is there"
    if number == signal.SIGINT:
        raise InterruptedRunError.of("E363", message, mend)
    raise StoppedEarlyError.of("E362", message, mend)
