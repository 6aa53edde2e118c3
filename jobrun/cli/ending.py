"""What is said about a run whose process has ended without a word of its own. Ends nothing."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import jobrun
from jobrun.cli.faults import show
from jobrun.cli.guard import Box, Ended, end_alike
from jobrun.cli.output import size
from jobrun.cli.overdue import Limits, line_of, told
from jobrun.cli.shell import Shell
from jobrun.core.errors import Fault, InterruptedRunError, StoppedEarlyError, TaskFailedError
from jobrun.core.events import Event, GroupEnded, GroupStarted, Listener, RunStarted
from jobrun.core.relayed import MEANT

_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
_MOST_FRAMES = 12
_OWN = str(Path(jobrun.__file__).parent)
# The script that pip makes.
_PROGRAM = str(Path(sys.prefix, "bin", "jobrun"))
_CRASHES = {
    signal.SIGSEGV: "it touched memory that is not its own",
    signal.SIGBUS: "it touched memory that has no place behind it, such as a file cut short",
    signal.SIGABRT: "a library gave up",
    signal.SIGFPE: "a division that the processor refuses",
    signal.SIGILL: "an instruction that this processor does not know",
}
_LIMITS = {
    signal.SIGXCPU: "its limit of processor time (ulimit -t) is used up",
    signal.SIGXFSZ: "a file grew beyond its limit (ulimit -f)",
}


def noting(box: Box, grace_s: float) -> Listener:
    """A listener that keeps in the box what is being run.

    Args:
        box: The box.
        grace_s: How long an epoch may still take after the first request to end.
    """
    box.note("grace", str(grace_s))
    limits = Limits(lambda text: box.note("limit", text))

    def hear(event: Event) -> None:
        limits.hear(event)
        match event:
            case RunStarted():
                box.note("run", event.directory)
            case GroupStarted():
                box.note("group", f"{event.group}\n{event.epoch}\n{', '.join(event.tasks)}")
            case GroupEnded():
                box.note("group", "")
            case _:
                pass

    return hear


def both(first: Listener, second: Listener) -> Callable[[Event], None]:
    """A listener that tells two."""

    def hear(event: Event) -> None:
        first(event)
        second(event)

    return hear


def tell_unexpected_end(box: Box, ended: Ended, lacked_memory: Callable[[], bool]) -> int:
    """Say how a run's process ended, where it was, and what to do; returns the exit code.

    Where somebody killed it (SIGKILL, and no lack of memory), this process ends in the same way
    after that: whoever waits for it must see a kill. Where it did not heed a signal to end, the
    code is that of a run which did.

    Args:
        box: What the process left behind.
        ended: How it ended.
        lacked_memory: Whether the kernel has ended a process for lack of memory meanwhile.
    """
    shell = Shell()
    stack = frames_of(box.stacks, line_of(ended.overdue))
    lacked = lacked_memory()
    mend = "what was saved is intact"
    run = box.text("run")
    mend += f"; to go on from it: jobrun resume {run}" if run else ""
    how = f"{_how(box, ended, lacked=lacked)} {_where(box)}"
    show((told(ended.overdue, mend) if ended.overdue else Fault("E386", how, mend),), shell)
    for line in stack:
        shell.say(f"  {line}")
    if ended.status == -signal.SIGKILL and not (lacked or ended.unheeded or ended.overdue):
        end_alike(signal.SIGKILL)
    if ended.unheeded:
        is_interrupt = MEANT.get(ended.unheeded, ended.unheeded) == signal.SIGINT
        return (InterruptedRunError if is_interrupt else StoppedEarlyError).exit_code
    return TaskFailedError.exit_code


def frames_of(stacks: str, task_line: int = 0) -> tuple[str, ...]:
    """The frames of the thread that ended the process, innermost last, without jobrun's own.

    Of a process that was ended from outside, no thread did it: then of one that does something.

    Args:
        stacks: As the interpreter writes them when it crashes, or is asked to.
        task_line: Of the spec, at which the task begins of which the thread is wanted; 0 for any.
    """
    # The last of several that were written down.
    _, _, last = stacks.rpartition("Fatal Python error")
    threads = re.split(r"^(?=Current thread |Thread 0x|Stack \()", last, flags=re.MULTILINE)
    found = {one: _frames(one) for one in threads}
    if task_line:
        threads.sort(key=lambda one: _lines_behind(found[one], task_line))
    by_itself = [one for one in threads if one.startswith(("Current", "Stack")) and not task_line]
    for one in (*by_itself[-1:], *threads):
        if found[one]:
            return found[one]
    return ()


def _lines_behind(frames: tuple[str, ...], task_line: int) -> float:
    """How far behind the beginning of a task a thread is in its steps; infinitely if elsewhere."""
    # Generated code has the lines of the spec, which is the outermost file that is not ours.
    number = re.search(r", line (\d+),", frames[0]) if frames else None
    behind = int(number[1]) - task_line if number else -1
    return behind if behind >= 0 else float("inf")


def _frames(thread: str) -> tuple[str, ...]:
    frames = []
    for file, number, name in _FRAME.findall(thread):
        is_ours = file.startswith((_OWN, _PROGRAM, "<frozen")) or "/click/" in file
        if not is_ours and Path(file).name != "threading.py":
            frames.append(f'File "{file}", line {number}, in {name}')
    return tuple(reversed(frames[:_MOST_FRAMES]))


def _how(box: Box, ended: Ended, *, lacked: bool) -> str:
    who = "the process that computes"
    if ended.status >= 0:
        left = box.text("exit")
        if left:
            return f"{who} was ended by {left}, called"
        return f"{who} ended with exit code {ended.status}, without a word,"
    number = signal.Signals(-ended.status)
    if ended.unheeded:
        name = signal.Signals(MEANT.get(ended.unheeded, ended.unheeded)).name
        if ended.is_second:
            return f"{who} did not heed the second {name}, and was ended"
        return f"{who} was asked to end by {name}, did not within its grace, and was ended"
    if number in _CRASHES:
        return f"{who} crashed ({number.name}: {_CRASHES[number]})"
    if number in _LIMITS:
        return f"{who} was ended ({number.name}: {_LIMITS[number]})"
    if number != signal.SIGKILL:
        return f"{who} was ended by {number.name}"
    reason = "; the kernel was out of memory" if lacked else ""
    return f"{who} was killed (SIGKILL{reason}; it had used up to {size(ended.most_bytes)})"


def _where(box: Box) -> str:
    group, _, rest = box.text("group").partition("\n")
    epoch, _, tasks = rest.partition("\n")
    if not group:
        return "between two groups of tasks" if box.text("run") else "before any task ran"
    what = f"in epoch {epoch}" if group == "epoch" else f"in the group '{group}'"
    return f"{what} (tasks: {tasks})" if tasks else what
