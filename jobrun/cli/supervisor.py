"""Supervise a command's child process: relay signals, watch limits, send its notifications.

What computes may end in ways that no code of ours in it ever sees: a callable calls ``os._exit``, a
library crashes, the kernel is out of memory. So it runs in a child (``supervised_child``), and the
parent passes on signals that reached it alone, waits, and ends every process that the child has
left behind, also one with a session of its own. Ctrl-C and Ctrl-Z come from the terminal to both,
and are not passed on.

A task's time limit is watched by a thread of the process that runs it, which cannot do anything
while code in C keeps the interpreter for itself. So the child also notes what runs and until when
(``LimitRecorder``), and the parent ends it when that is over for long (``OverdueDetector``).

It is also the parent that sends the notifications of a run: it is there after a crash, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins

from jobrun.cli.supervised_child import SharedState, SupervisedChild
from jobrun.core.events import (
    Event,
    GroupStarted,
    NodeReplaced,
    RunEnded,
    TaskEnded,
    TaskLimited,
    TasksGivenUp,
)
from jobrun.core.resource_usage import peak_memory_bytes
from jobrun.core.stop_signals import RELAYS, REPEATED
from jobrun.core.system_calls import (
    ReceivedSignal,
    adopt_orphans,
    list_processes,
    read_process_stat,
    wait_for_signal,
)

if TYPE_CHECKING:
    import subprocess

    from jobrun.core.notify_target import NotifyTarget

# siginfo(2): above zero it was the kernel's own. A terminal's reach the whole group, a timer's not.
_SENT_BY_A_PROCESS = 0
_FROM_TERMINALS = {signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP}
_TICK_S = 1.0
# After a stop of this process has ended, the child's may still be about to begin.
_CONTINUING_S, _CONTINUE_EVERY_S = 2.0, 0.2
# A child that got SIGQUIT too has begun to write its stacks by then.
_QUITTING_S = 0.2
# A command that has noted its end may be held up by a thread that it cannot end.
_LINGERING_S = 5.0
_LEFT_BEHIND_S = 5.0
# The second signal does not wait for the end of the epoch: the child has this long to react.
_SECOND_REQUEST = 2
_REACTION_S = 10.0
# After the grace: what a session gives tasks to their next step boundary, and exit blocks.
_ENDING_S = 35.0

# After the limit and the grace: for exit blocks, and for the process to say so itself.
_EXIT_S = 5.0
# Seconds in which the supervisor was awake: neither the sleep of a computer nor a stop of both
# processes counts.
_LATE_S = 10.0
_LONGEST_STEP_S = 2.0

# Enough for three attempts of five seconds at each of a few targets.
_LONGEST_SENDING_S = 60.0


class ChildExit(Struct, frozen=True):
    """How the supervised child ended.

    Attributes:
        status: As ``subprocess`` gives it: negative for the signal that ended it.
        most_bytes: The most memory that it had at a time.
        cpu_s: The processor time that it used.
        ignored_signal: The signal that asked for its end, if it was killed for not reacting to it.
        is_second: Whether that was the second, which does not wait for any grace.
        overdue: The task for which it was ended; see ``overdue``.
    """

    status: int
    most_bytes: int
    ignored_signal: int = 0
    is_second: bool = False
    overdue: str = ""
    cpu_s: float = 0.0


def supervise(
    child: SupervisedChild,
    explain: Callable[[SharedState, ChildExit], int],
    notify: Callable[[SharedState, int | None], None] = lambda _shared, _code: None,
) -> int:
    """Supervise a child that runs a command until it ends; return the exit code.

    A child that asks for another hash seed (slot ``hash``) is started again.

    Args:
        child: It was started in this process.
        explain: What to do about an end without an exit code; returns one.
        notify: Sends the news that the child has written, and, given its exit code, that the run
            has ended.
    """
    while True:
        shared = child.shared
        # The processes that it leaves behind are then children of this one; those that were there
        # before belong to the program that became this process by exec.
        is_parent_of_all = child.is_only_one and adopt_orphans()
        ended = _Supervisor(child, notify).wait()
        if is_parent_of_all:
            _kill_remaining_children(child.awaited, shared.spared | shared.left_alive)
        if shared.exit_code is not None:
            # How the command has ended stays its result, whatever asks for its end now.
            for number in child.asking:
                signal.signal(number, lambda _number, _frame: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, child.mask)
        if not (hash_seed := shared.read("hash")):
            break
        shared.close()
        child = SupervisedChild(child.arguments, hash_seed)
    code = shared.exit_code
    if code is None:
        code = explain(shared, ended)
    notify(shared, code)
    return code


class _Supervisor:
    """The parent process: relays signals to the child and enforces its end.

    The second signal that asks for the end means at once. A child is killed from here that does
    not react to it, or exceeds the grace after the first or the time limit of a task, because it
    is inside one long call of C code.
    """

    def __init__(
        self, child: SupervisedChild, notify: Callable[[SharedState, int | None], None]
    ) -> None:
        self._notify = notify
        self._child = child.pid
        self._awaited = child.awaited
        self._asking = child.asking
        self._shared = shared = child.shared
        self._asked = 0
        self._first = 0
        self._ignored_signal = 0
        self._grace_ends_at = float("inf")
        self._task_limits = OverdueDetector(lambda: shared.read("limit"))
        self._grace = OverdueDetector(self._grace_deadline)
        self._overdue = ""
        self._end_at = float("inf")
        self._noted_at = 0.0
        self._continue_until = 0.0

    def wait(self) -> ChildExit:
        """Wait for the supervised child to end, handling signals and deadlines meanwhile."""
        while True:
            is_continuing = time.monotonic() < self._continue_until
            wait_s = _CONTINUE_EVERY_S if is_continuing else _TICK_S
            info = wait_for_signal(self._awaited, wait_s)
            # Python hands out what it never filled in, when a stop of this process has outlasted
            # the wait.
            if info is None or info.si_signo not in self._awaited:
                self._tick(is_continuing=is_continuing)
            elif info.si_signo != signal.SIGCHLD:
                self._count(info.si_signo)
                self._pass_on(info)
            if self._shared.has_news:
                self._notify(self._shared, None)
            self._check_deadlines()
            if time.monotonic() > self._end_at:
                self._end()
            ended = self._reap()
            if ended is not None:
                return ended

    def _reap(self) -> ChildExit | None:
        """Reap ended processes; return how the supervised child ended, or None while it runs."""
        while True:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return None
            if pid == self._child:
                is_ended = time.monotonic() > self._end_at
                ignored_signal = self._ignored_signal if is_ended else 0
                code = os.waitstatus_to_exitcode(status)
                most_bytes = peak_memory_bytes(usage.ru_maxrss)
                is_second = bool(ignored_signal) and self._asked >= _SECOND_REQUEST
                cpu_s = usage.ru_utime + usage.ru_stime
                return ChildExit(code, most_bytes, ignored_signal, is_second, self._overdue, cpu_s)

    def _check_deadlines(self) -> None:
        if self._end_at < float("inf"):
            return
        if task := self._task_limits.poll():
            self._overdue, self._end_at = task, time.monotonic()
        elif self._grace.poll():
            self._ignored_signal, self._end_at = self._first, time.monotonic()

    def _count(self, number: int) -> None:
        if number in self._asking and not (number in REPEATED and self._asked):
            self._asked += 1
            if self._asked == 1:
                self._first = number
                self._grace_ends_at = time.monotonic() + float(self._shared.read("grace") or "inf")
            elif self._asked == _SECOND_REQUEST:
                self._ignored_signal = number
                self._end_at = time.monotonic() + _REACTION_S

    def _grace_deadline(self) -> str:
        """Return, as two lines, when the supervisor's grace period ends and which group runs.

        Between groups there is nothing: a save that has begun is waited for.
        """
        return f"{self._grace_ends_at + _ENDING_S}\n{self._shared.read('group')}"

    def _end(self) -> None:
        """Kill the child that has not ended by the supervisor's deadline: SIGABRT, then SIGKILL."""
        late_s = time.monotonic() - self._end_at
        self._send(signal.SIGABRT if late_s < _REACTION_S else signal.SIGKILL)

    def _pass_on(self, info: ReceivedSignal) -> None:
        if info.si_signo == signal.SIGCONT:
            self._continue_until = time.monotonic() + _CONTINUING_S
            self._send(signal.SIGCONT)
        elif info.si_signo == signal.SIGQUIT and signal.SIGQUIT not in self._asking:
            self._relay_quit()
        elif info.si_code <= _SENT_BY_A_PROCESS or info.si_signo not in _FROM_TERMINALS:
            self._send(RELAYS.get(info.si_signo, info.si_signo))

    def _relay_quit(self) -> None:
        """Relay SIGQUIT to the supervised child, unless the child received that signal itself."""
        wait_for_signal({signal.SIGCHLD}, _QUITTING_S)
        if not self._shared.stacks:
            self._send(signal.SIGQUIT)

    def _tick(self, *, is_continuing: bool) -> None:
        if is_continuing:
            self._send(signal.SIGCONT)
        if self._shared.exit_code is None:
            return
        self._noted_at = self._noted_at or time.monotonic()
        if time.monotonic() > self._noted_at + _LINGERING_S:
            self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._child, number)


def _kill_remaining_children(awaited: set[int], spared: set[int]) -> None:
    """Kill the processes that the supervised child has started and left behind."""
    deadline = time.monotonic() + _LEFT_BEHIND_S
    while time.monotonic() < deadline:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for pid in set(_children()) - spared:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        wait_for_signal(awaited, _CONTINUE_EVERY_S)


def _children() -> Iterator[int]:
    own_pid = str(os.getpid()).encode()
    for pid in list_processes():
        if read_process_stat(pid)[1:2] == [own_pid]:
            yield pid


class LimitRecorder:
    """Records, in the process that computes, which task reaches its time limit first.

    Args:
        note: Keeps a text outside of this process, in place of the one before.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._pid = os.getpid()
        self._running: dict[tuple[str, str], tuple[float, TaskLimited]] = {}
        self._lock = Lock()

    def listen(self, event: Event) -> None:
        """Record for the supervisor which running task will first be far over its time limit."""
        match event:
            case TaskLimited() if event.pid == self._pid:
                over_s = time.monotonic() + event.limit_s + event.grace_s + _EXIT_S
                self._change(lambda: self._running.update({_task_key(event): (over_s, event)}))
            case TaskEnded() if _task_key(event) in self._running:
                self._change(lambda: self._running.pop(_task_key(event), None))
            case GroupStarted() | TasksGivenUp() | RunEnded() if self._running:
                self._change(self._running.clear)
            case _:
                pass

    def _change(self, change: Callable[[], object]) -> None:
        with self._lock:
            change()
            first = min(self._running.values(), key=lambda entry: entry[0], default=None)
            self._note("" if first is None else f"{first[0]}\n{json.dumps(to_builtins(first[1]))}")


def _task_key(event: TaskLimited | TaskEnded) -> tuple[str, str]:
    return event.task, event.node


class OverdueDetector:
    """Checks, in the parent process, whether the limit that ``LimitRecorder`` recorded has passed.

    Args:
        noted: The text.
        clock: Monotonic, the same for all processes.
    """

    def __init__(
        self, noted: Callable[[], str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._noted = noted
        self._clock = clock
        self._looked_at = clock()
        self._text = ""
        self._late_s = 0.0

    def poll(self) -> str:
        """Return the task that the supervisor finds far over its time limit; else empty text."""
        now = self._clock()
        awake_s, self._looked_at = min(now - self._looked_at, _LONGEST_STEP_S), now
        before, self._text = self._text, self._noted()
        over, _, task = self._text.partition("\n")
        try:
            is_late = bool(task) and now > float(over)
        except ValueError:
            # Read while it was written.
            is_late = False
        self._late_s = self._late_s + awake_s if is_late and self._text == before else 0.0
        return task if self._late_s > _LATE_S else ""


class NewsOfRun:
    """Asks the supervisor to send notifications about a run.

    Args:
        shared: Shared memory of the supervised process.
    """

    def __init__(self, shared: SharedState) -> None:
        self._shared = shared
        self._has_targets = False

    def announce(self, targets: tuple[NotifyTarget, ...], run: str, stuck: str) -> None:
        """Pass to the supervisor the targets that it notifies when the run ends.

        If the run is stuck, it notifies them of that at once.
        """
        if not targets:
            return
        self._has_targets = True
        self._write({"run": run, "targets": [to_builtins(target) for target in targets]})
        if stuck:
            self._write({"news": "no_progress", "detail": stuck})

    def listen(self, event: Event) -> None:
        """Ask the supervisor to send a notification if an event says that a node was lost."""
        if self._has_targets and isinstance(event, NodeReplaced):
            self._write({"news": "node_lost", "detail": f"node '{event.node}' was lost"})

    def _write(self, content: dict[str, Any]) -> None:
        self._shared.write_news(json.dumps(content).encode())


class NewsSender:
    """Sends notifications from the supervisor, each by a process of its own.

    Args:
        spared: Gets the numbers of these processes; the parent does not kill them at the end.
    """

    def __init__(self, spared: set[int]) -> None:
        self._spared = spared
        self._request: dict[str, Any] = {}
        self._senders: list[subprocess.Popen[bytes]] = []

    def send(self, lines: list[bytes], exit_code: int | None, detail: str = "") -> None:
        """Send the notifications that the supervised child asked for, and one at the run's end.

        Args:
            lines: As ``NewsOfRun`` has written them.
            exit_code: None while the run continues; with it, all that is sent is waited for.
            detail: How the child ended, where it could not record that itself.
        """
        for line in lines:
            content = json.loads(line)
            if "targets" in content:
                self._request = content
            else:
                self._start(content | {"exit_code": None})
        if exit_code is None:
            return
        from jobrun.core.child_process import wait_or_kill  # noqa: PLC0415 - to notify
        from jobrun.core.notify_target import news_of_exit  # noqa: PLC0415

        self._start({"news": news_of_exit(exit_code), "exit_code": exit_code, "detail": detail})
        deadline = time.monotonic() + _LONGEST_SENDING_S
        for sender in self._senders:
            try:
                wait_or_kill(sender, max(0.0, deadline - time.monotonic()))
            except KeyboardInterrupt:
                sender.kill()

    def _start(self, news: dict[str, Any]) -> None:
        """Start a process, from the supervisor, that sends one notification to all targets."""
        # Other runs do not need what this loads.
        from jobrun.core.child_process import start_module, write_line  # noqa: PLC0415

        sender = start_module("jobrun.tools.notify")
        self._senders.append(sender)
        self._spared.add(sender.pid)
        write_line(sender, self._request | news, is_last=True)
