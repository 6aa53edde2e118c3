"""Runs a command in a process of its own, and watches it to its end. Says nothing about that end.

What computes may end in ways that no code of ours in it ever sees: a callable calls ``os._exit``, a
library crashes, the kernel is out of memory. ::

    make what both processes see: a page of memory, and a file for stacks
    fork, before anything large is loaded
    child    dies with its parent; runs the command; notes its exit code in the page
    parent   passes on signals that reached it alone, and waits
             ends every process that the child has left behind, also one with a session of its own

Ctrl-C and Ctrl-Z come from the terminal to both, and are not passed on.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import mmap
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from jobrun.cli.overdue import Overdue
from jobrun.core.relayed import MEANT, RELAYS

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
# siginfo(2): above zero it was the kernel's own, such as a terminal's, which asks the whole group.
_SENT_BY_A_PROCESS = 0
_TICK_S = 1.0
_PARENT_TICK_S = 0.5
# After a stop of this process has ended, the child's may still be about to begin.
_CONTINUING_S, _CONTINUE_EVERY_S = 2.0, 0.2
# A command that has noted its end may be held up by a thread that it cannot end.
_LINGERING_S = 5.0
_LEFT_BEHIND_S = 5.0
# The second signal to end does not wait for the epoch; so long it is given to heed it.
_INSISTING = 2
_HEEDING_S = 10.0
# After the grace: what a session gives tasks to their next step boundary, and exit blocks.
_ENDING_S = 35.0
_PAGE_BYTES = 16384
_SLOT_BYTES = 2048
_SLOTS = ("run", "group", "exit", "limit", "grace")
_MOST_STACK_BYTES = 1 << 20


class Box:
    """What the child leaves behind, whatever ends it. Made before the fork."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, _PAGE_BYTES)
        self._stacks = os.memfd_create("jobrun-stacks", os.MFD_CLOEXEC)
        self._pid = 0

    def note(self, slot: str, text: str) -> None:
        """Keep a short text; it costs no call to the system. In the child."""
        data = text.encode(errors="replace")[: _SLOT_BYTES - 1] + b"\0"
        place = 2 + _SLOT_BYTES * _SLOTS.index(slot)
        self._page[place : place + len(data)] = data

    def text(self, slot: str) -> str:
        """What was noted last; empty for nothing."""
        place = 2 + _SLOT_BYTES * _SLOTS.index(slot)
        data = self._page[place : place + _SLOT_BYTES]
        return data.partition(b"\0")[0].decode(errors="replace")

    @property
    def exit_code(self) -> int | None:
        """The exit code of the command; None as long as it has none."""
        return self._page[1] if self._page[0] else None

    @property
    def stacks(self) -> str:
        """What the interpreter wrote down when it crashed; empty for nothing."""
        return os.pread(self._stacks, _MOST_STACK_BYTES, 0).decode(errors="replace")

    def keep(self, work: Callable[[], int]) -> int:
        """Run ``work`` in the child, and note the code it returns."""
        self._pid = os.getpid()
        faulthandler.enable(self._stacks)
        leave = os._exit
        os._exit = self._telling(leave)  # type: ignore[assignment]
        code = work()
        if os.getpid() != self._pid:
            # A callable has forked, and its copy has come all the way out here.
            leave(code)
        self._page[1] = code
        self._page[0] = 1
        return code

    def _telling(self, leave: Callable[[int], NoReturn]) -> Callable[[int], NoReturn]:
        """``os._exit``, with a note of who calls it before the command's end."""

        def _exit(status: int) -> NoReturn:
            if os.getpid() == self._pid and self.exit_code is None:
                self.note("exit", f"os._exit({status})")
                faulthandler.dump_traceback(self._stacks, all_threads=False)
            leave(status)

        return _exit


@dataclass(frozen=True, slots=True)
class Ended:
    """How the child ended.

    Attributes:
        status: As ``subprocess`` gives it: negative for the signal that ended it.
        most_bytes: The most memory that it had at a time.
        unheeded: The signal that asked for its end, if it was ended for not heeding it.
        is_second: Whether that was the second, which does not wait for any grace.
        overdue: The task for which it was ended; see ``overdue``.
    """

    status: int
    most_bytes: int
    unheeded: int = 0
    is_second: bool = False
    overdue: str = ""


def guarded(work: Callable[[Box], int], explain: Callable[[Box, Ended], int]) -> int:
    """Run ``work`` in a child, and return its exit code; in the child too.

    Only before any thread was started.

    Args:
        work: The command.
        explain: What to do about an end without an exit code; returns one. In the parent.
    """
    box = Box()
    asking = {number for number in (*RELAYS, signal.SIGUSR2) if _counts(number)}
    awaited = asking | {signal.SIGCHLD, signal.SIGCONT}
    # Ignored by whoever started us, the ends of children could not be seen.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    is_alone = _adopt_orphans()
    for stream in (sys.stdout, sys.stderr):
        # None where it was closed from the start.
        if stream is not None:
            stream.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _become_watched(parent, asking)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return box.keep(lambda: work(box))
    ended = _Watch(child, awaited, asking, box).wait()
    if is_alone:
        _end_what_is_left(awaited)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if box.exit_code is not None:
        return box.exit_code
    if not ended.unheeded and -ended.status in (*RELAYS, signal.SIGUSR2, signal.SIGQUIT):
        end_alike(-ended.status)
    return explain(box, ended)


class _Watch:
    """The parent's side: passes signals on until the child has ended.

    The second that asks for the end means at once. A child that does not heed it, nor the grace
    after the first, nor the limit of a task, since it is inside of one long call of code in C, is
    ended from here.
    """

    def __init__(self, child: int, awaited: set[int], asking: set[int], box: Box) -> None:
        self._child = child
        self._awaited = awaited
        self._asking = asking
        self._box = box
        self._asked = 0
        self._first = 0
        self._unheeded = 0
        self._drop_at = float("inf")
        self._limits = Overdue(lambda: box.text("limit"))
        self._dropped = Overdue(self._to_drop)
        self._overdue = ""
        self._end_at = float("inf")
        self._noted_at = 0.0
        self._continue_until = 0.0

    def wait(self) -> Ended:
        """Wait for the child's end."""
        while True:
            is_continuing = time.monotonic() < self._continue_until
            wait_s = _CONTINUE_EVERY_S if is_continuing else _TICK_S
            info = signal.sigtimedwait(self._awaited, wait_s)
            # Python hands out what it never filled in, when a stop of this process has outlasted
            # the wait.
            if info is None or info.si_signo not in self._awaited:
                self._tick(is_continuing=is_continuing)
            elif info.si_signo != signal.SIGCHLD:
                self._count(info.si_signo)
                self._pass_on(info)
            self._look()
            if time.monotonic() > self._end_at:
                self._end()
            ended = self._reap()
            if ended is not None:
                return ended

    def _reap(self) -> Ended | None:
        """How the child ended, if it has; others that were adopted are only let go."""
        while True:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return None
            if pid == self._child:
                is_ended = time.monotonic() > self._end_at
                unheeded = self._unheeded if is_ended else 0
                code, most_bytes = os.waitstatus_to_exitcode(status), usage.ru_maxrss << 10
                is_second = bool(unheeded) and self._asked >= _INSISTING
                return Ended(code, most_bytes, unheeded, is_second, self._overdue)

    def _look(self) -> None:
        if self._end_at < float("inf"):
            return
        if task := self._limits.look():
            self._overdue, self._end_at = task, time.monotonic()
        elif self._dropped.look():
            self._unheeded, self._end_at = self._first, time.monotonic()

    def _count(self, number: int) -> None:
        if number in self._asking:
            self._asked += 1
            if self._asked == 1:
                self._first = number
                self._drop_at = time.monotonic() + float(self._box.text("grace") or "inf")
            elif self._asked == _INSISTING:
                self._unheeded = number
                self._end_at = time.monotonic() + _HEEDING_S

    def _to_drop(self) -> str:
        """The group that was to be given up, and when it should have ended; for ``Overdue``.

        Between groups there is nothing: a save that has begun is waited for.
        """
        return f"{self._drop_at + _ENDING_S}\n{self._box.text('group')}"

    def _end(self) -> None:
        """End it for good; first so that the interpreter writes down where it is."""
        late_s = time.monotonic() - self._end_at
        self._send(signal.SIGABRT if late_s < _HEEDING_S else signal.SIGKILL)

    def _pass_on(self, info: signal.struct_siginfo) -> None:
        if info.si_signo == signal.SIGCONT:
            self._continue_until = time.monotonic() + _CONTINUING_S
            self._send(signal.SIGCONT)
        elif info.si_code <= _SENT_BY_A_PROCESS:
            self._send(RELAYS.get(info.si_signo, info.si_signo))

    def _tick(self, *, is_continuing: bool) -> None:
        if is_continuing:
            self._send(signal.SIGCONT)
        if self._box.exit_code is None:
            return
        self._noted_at = self._noted_at or time.monotonic()
        if time.monotonic() > self._noted_at + _LINGERING_S:
            self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._child, number)


def _counts(number: int) -> bool:
    """Whether a signal is not ignored from outside (nohup, a shell's background job)."""
    return signal.getsignal(number) is not signal.SIG_IGN


def _become_watched(parent: int, asking: set[int]) -> None:
    """Die with the parent, stop with it, and hear what it passes on."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It had died before it could be asked to tell.
        os.kill(os.getpid(), signal.SIGKILL)
    for number in asking & RELAYS.keys():
        signal.signal(RELAYS[number], _as_meant)
    threading.Thread(target=_stop_with, args=(parent,), name="jobrun-guarded", daemon=True).start()


def _as_meant(number: int, frame: FrameType | None) -> None:
    """As long as nobody else listens: as if the signal had come here."""
    del frame
    os.kill(os.getpid(), MEANT[number])


def _stop_with(parent: int) -> None:
    """Stop when the parent is stopped, as by ``kill -STOP``; it lets the child go on again."""
    status = Path("/proc", str(parent), "stat")
    while os.getppid() == parent:
        with contextlib.suppress(OSError):
            if status.read_bytes().rpartition(b") ")[2][:1] == b"T":
                os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(_PARENT_TICK_S)


def _prctl(what: int, value: int) -> None:
    # Where it is not known (not Linux) the child is only less well held.
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).prctl(what, value, 0, 0, 0)


def _adopt_orphans() -> bool:
    """Become the parent of what descendants leave behind; not where there are children already.

    Those are somebody else's, who became this process by ``exec``.
    """
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        return True
    return False


def _end_what_is_left(awaited: set[int]) -> None:
    """Kill all children and, as they come to be ours, their children."""
    deadline = time.monotonic() + _LEFT_BEHIND_S
    while time.monotonic() < deadline:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for pid in _children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        signal.sigtimedwait(awaited, _CONTINUE_EVERY_S)


def _children() -> Iterator[int]:
    me = str(os.getpid()).encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_bytes().rpartition(b") ")[2].split()
                if fields[1] == me:
                    yield int(entry.name)


def end_alike(number: int) -> NoReturn:
    """End by the signal that has ended the child: nobody but its sender decided so."""
    # One memory dump is enough.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    os._exit(128 + number)
