"""A running program's output, line by line, and its end, in time or by force."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable

from jobrun.runtime.cancel import CancelScope

_POLL_S = 0.05
_GRACE_S = 2.0
_CHUNK_BYTES = 1 << 16
# After its end a program can have left no more than a full pipe.
_LAST_CHUNKS = 64
# A line longer than this is told in parts.
_LONGEST_LINE = 1 << 16


def follow(
    process: subprocess.Popen[bytes], tell: Callable[[str], None], cancel: CancelScope
) -> int:
    """Tell each line of the program's output until it ends; its exit code.

    The program is the leader of a process group. When it has ended, so does what it left
    in its group. On cancel the whole group gets SIGTERM, and SIGKILL two seconds later; or
    at once, if the scope says so.
    """
    lines = Lines(tell)
    deadline = 0.0
    try:
        with selectors.DefaultSelector() as selector:
            assert process.stdout is not None  # noqa: S101 - for the type checker
            pipe = process.stdout.fileno()
            os.set_blocking(pipe, False)
            selector.register(pipe, selectors.EVENT_READ)
            is_open = True
            # The pipe may stay open in a background process, or be closed early.
            while not _has_ended(process):
                if not is_open:
                    time.sleep(_POLL_S)
                elif selector.select(_POLL_S):
                    is_open = _read(pipe, lines)
                deadline = _end_if_cancelled(process, cancel, deadline)
            kill(process, signal.SIGKILL)
            for _ in range(_LAST_CHUNKS):
                if not selector.select(0) or not _read(pipe, lines):
                    break
    finally:
        # Before the leader is waited for: until then no other process can get its number.
        kill(process, signal.SIGKILL)
        process.wait()
        lines.end()
    return process.returncode


class Lines:
    """Cuts bytes into lines at newlines and carriage returns (progress bars)."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        whole = (self._rest + data).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, self._rest = whole.split(b"\n")
        for line in lines:
            self._say(line)
        while len(self._rest) > _LONGEST_LINE:
            self._say(self._rest[:_LONGEST_LINE])
            self._rest = self._rest[_LONGEST_LINE:]

    def end(self) -> None:
        """Tell what stands behind the last newline."""
        if self._rest:
            self._say(self._rest)
            self._rest = b""

    def _say(self, line: bytes) -> None:
        self._tell(line.decode("utf-8", errors="replace"))


def kill(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to the program's whole group, if anything of it is left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _read(pipe: int, lines: Lines) -> bool:
    """Take the next piece; False when there will never be more."""
    data = os.read(pipe, _CHUNK_BYTES)
    lines.feed(data)
    return bool(data)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the leader has ended; it is not waited for, so its number stays taken."""
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, process.pid, flags) is not None


def _end_if_cancelled(
    process: subprocess.Popen[bytes], cancel: CancelScope, deadline: float
) -> float:
    """Ask the group to end when cancelled; make it when the deadline has passed."""
    if not cancel.cancelled:
        return deadline
    if cancel.at_once:
        kill(process, signal.SIGKILL)
        return deadline
    if not deadline:
        kill(process, signal.SIGTERM)
        return time.monotonic() + _GRACE_S
    if time.monotonic() > deadline:
        kill(process, signal.SIGKILL)
    return deadline
