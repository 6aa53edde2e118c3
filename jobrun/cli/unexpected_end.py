"""Explain on stderr how a run's process died: signal, place, stack, and what to do next."""

from __future__ import annotations

import contextlib
import json
import re
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import jobrun
from jobrun.cli.error_output import print_faults
from jobrun.cli.formatting import size
from jobrun.cli.supervised_child import SharedState
from jobrun.cli.supervisor import ChildExit, LimitRecorder
from jobrun.cli.terminal import Shell
from jobrun.core.captured_output import take_left_output
from jobrun.core.errors import (
    EnvironmentFaultError,
    Fault,
    InterruptedRunError,
    JobrunError,
    Origin,
    StoppedEarlyError,
    TaskFailedError,
)
from jobrun.core.events import Event, GroupEnded, GroupStarted, Listener, RunStarted
from jobrun.core.stop_signals import MEANT, requested_signals, signal_name
from jobrun.core.text.patterns import lazy_pattern
from jobrun.runner.rundir.lock import RunLock
from jobrun.runner.rundir.logs import append_left_output
from jobrun.runner.rundir.run_directories import open_run
from jobrun.runner.rundir.run_json import RECORD_NAME

_LOOK_FOR_KILLER = (
    "if no user killed it, it was probably the OOM killer: see dmesg | grep -i "
    "oom, or the report of the batch system"
)
# The kernel compares a limit with ticks, which are coarser than the measured processor time.
_CPU_SHARE, _CPU_CLOSE_S = 0.8, 0.5
_FRAME = lazy_pattern(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
_MOST_FRAMES = 12
_OWN = str(Path(jobrun.__file__).parent)
# The script that pip makes.
_PROGRAM = str(Path(sys.prefix, "bin", "jobrun"))
_CRASHES: dict[int, str] = {
    signal.SIGSEGV: "segmentation fault",
    signal.SIGBUS: "bus error, for example in a truncated mapped file",
    signal.SIGABRT: "abort() was called",
    signal.SIGFPE: "arithmetic fault, such as an integer division by zero",
    signal.SIGILL: "illegal instruction for this processor",
}
_LIMITS: dict[int, str] = {
    signal.SIGXCPU: "CPU time limit reached (ulimit -t)",
    signal.SIGXFSZ: "file size limit reached (ulimit -f)",
}


def record_running(shared: SharedState, grace_s: float) -> Listener:
    """Create a listener that records which run and tasks run, to explain a later unexpected end.

    Args:
        shared: The shared.
        grace_s: How long an epoch may still take after the first request to end.
    """
    shared.write("grace", str(grace_s))
    limits = LimitRecorder(lambda text: shared.write("limit", text))

    def listen(event: Event) -> None:
        limits.listen(event)
        match event:
            case RunStarted():
                shared.write("run", event.directory)
            case GroupStarted():
                shared.write("group", f"{event.group}\n{event.epoch}\n{', '.join(event.tasks)}")
            case GroupEnded():
                shared.write("group", "")
            case _:
                pass

    return listen


def report_unexpected_end(
    shared: SharedState, ended: ChildExit, lacked_memory: Callable[[], bool]
) -> int:
    """Explain on stderr how a run's process crashed or was killed; return the exit code.

    After a signal that asked for the end, the code is that of a run which obeyed it; after
    a kill, be it for lack of memory, it is that of a fault of the machine.

    Args:
        shared: What the process left behind.
        ended: How it ended.
        lacked_memory: Whether the kernel has ended a process for lack of memory meanwhile.
    """
    shell = Shell()
    unwritten = take_left_output(shared.output)
    if (run := shared.read("run")) and Path(run, RECORD_NAME).is_file():
        append_left_output(Path(run), unwritten)
    stack = extract_frames(shared.stacks, task_line_of(ended.overdue))
    lacked = lacked_memory()
    mend = "saved epochs are intact"
    if run and Path(run, RECORD_NAME).is_file():
        mend += f"; to continue: jobrun resume {run}"
    message = f"{_how(shared, ended, lacked=lacked)} {_where(shared)}"
    if ended.overdue:
        fault = build_timeout_fault(ended.overdue, mend)
    elif -ended.status == signal.SIGKILL and not (lacked or ended.ignored_signal):
        fault = Fault("E386", message, f"{mend}; {_LOOK_FOR_KILLER}")
    else:
        fault = Fault("E386", message, mend)
    shared.unexpected_end = fault.message
    if run:
        record_end(Path(run), fault.message)
    print_faults((fault,), shell)
    for line in stack:
        shell.say(f"  {line}")
    return _exit_code(shared, ended)


def build_timeout_fault(task: str, mend: str) -> Fault:
    """Build the error message for a process killed because its task held the GIL too long.

    Args:
        task: As ``OverdueDetector`` gives it.
        mend: What to do.
    """
    limit = json.loads(task)
    message = (
        f"the task took longer than its limit of {limit['limit_s']:g} s (task {limit['task']}, "
        f"node {limit['node']}, epoch {limit['epoch']}), without releasing the interpreter "
        "(GIL), so its process was killed"
    )
    origin = Origin(limit["file"], limit["line"], limit["column"]) if limit["line"] else None
    return Fault("E220", message, mend, origin, limit["path"])


def task_line_of(task: str) -> int:
    """Return the spec's line number of the task whose limit ended the process; 0 if none."""
    return int(json.loads(task)["line"]) if task else 0


def record_end(path: Path, reason: str) -> None:
    """Record in ``run.json`` why a run's process ended, unless another process runs it now.

    Its status stays what it was: that it ended is seen by its lock.
    """
    with contextlib.suppress(JobrunError), RunLock.acquire(path):
        run = open_run(path)
        if run.record.status == "running":
            run.write(reason=reason)


def _exit_code(shared: SharedState, ended: ChildExit) -> int:
    asked = ended.ignored_signal or (-ended.status if ended.status < 0 else 0)
    asked = MEANT.get(asked, asked)
    if ended.overdue:
        return TaskFailedError.exit_code
    if asked == signal.SIGINT:
        return InterruptedRunError.exit_code
    if asked in requested_signals():
        return StoppedEarlyError.exit_code
    if asked == signal.SIGQUIT:
        return InterruptedRunError.exit_code
    # A library or a limit ended the process if nothing of the job has run yet.
    is_by_itself = ended.status >= 0 and _nothing_ran(shared)
    is_killed = ended.status == -signal.SIGKILL or is_by_itself or _lacked_space(shared, ended)
    return (EnvironmentFaultError if is_killed else TaskFailedError).exit_code


def extract_frames(stacks: str, task_line: int = 0) -> tuple[str, ...]:
    """Extract the user's code from the stack traces of a process that ended unexpectedly.

    Of a process that was ended from outside, no thread did it: then of one that does something.

    Args:
        stacks: As the interpreter writes them when it crashes, or is asked to.
        task_line: Of the spec, at which the task begins of which the thread is wanted; 0 for any.
    """
    # The last of several dumps.
    _, _, last = stacks.rpartition("Fatal Python error")
    threads = re.split(r"^(?=Current thread |Thread 0x|Stack \()", last, flags=re.MULTILINE)
    frames_by_thread = {thread: _frames(thread) for thread in threads}
    if task_line:
        threads.sort(key=lambda thread: _lines_after_start(frames_by_thread[thread], task_line))
    by_itself = [
        thread for thread in threads if thread.startswith(("Current", "Stack")) and not task_line
    ]
    for thread in (*by_itself[-1:], *threads):
        if frames_by_thread[thread]:
            return frames_by_thread[thread]
    return ()


def _lines_after_start(frames: tuple[str, ...], task_line: int) -> float:
    """Count the spec's lines from a task's start to the line that a killed process executed.

    Infinity if its stack has no such line, or an earlier one.
    """
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


def _how(shared: SharedState, ended: ChildExit, *, lacked: bool) -> str:
    who = "the process that computes"
    if ended.status >= 0:
        call = shared.read("exit")
        if call:
            return f"{who} was ended by a call of {call}"
        why = _limit_text() if _nothing_ran(shared) else ""
        return f"{who} exited with status {ended.status} without a message{why},"
    number, name = -ended.status, signal_name(-ended.status)
    if ended.ignored_signal:
        name = signal_name(MEANT.get(ended.ignored_signal, ended.ignored_signal))
        if ended.is_second:
            return f"{who} did not react to the second {name}, and was killed"
        return f"{who} got {name}, did not stop within its grace period, and was killed"
    if number in _CRASHES:
        why = _limit_text() if _lacked_space(shared, ended) else ""
        return f"{who} crashed ({name}: {_CRASHES[number]}{why})"
    if number in _LIMITS:
        return f"{who} was killed ({name}: {_LIMITS[number]})"
    if number in requested_signals() or number == signal.SIGQUIT:
        return f"{who} was killed by {name} before it could save,"
    if number != signal.SIGKILL:
        return f"{who} was killed by {name}"
    reason = " by the kernel: out of memory" if lacked else ""
    limit_s = resource.getrlimit(resource.RLIMIT_CPU)[1]
    if limit_s != resource.RLIM_INFINITY and ended.cpu_s >= _CPU_SHARE * limit_s - _CPU_CLOSE_S:
        reason = f"; its CPU time limit of {limit_s} s was reached (ulimit -t)"
    return f"{who} was killed (SIGKILL{reason}; it had used up to {size(ended.most_bytes)})"


def _nothing_ran(shared: SharedState) -> bool:
    return not (shared.read("group") or shared.read("run"))


def _lacked_space(shared: SharedState, ended: ChildExit) -> bool:
    """Return whether a process ended unexpectedly because a library lacked address space.

    The allocators of Rust and C++, and libgcc where a thread ends, call ``abort`` then.
    """
    is_crash = -ended.status in _CRASHES and _nothing_ran(shared)
    return bool(_limit_text()) and (is_crash or ended.status == -signal.SIGABRT)


def _limit_text() -> str:
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return ""
    return f"; its memory is limited to {size(limit)} (ulimit -v)"


def _where(shared: SharedState) -> str:
    group, _, epoch_and_tasks = shared.read("group").partition("\n")
    epoch, _, tasks = epoch_and_tasks.partition("\n")
    if not group:
        return "between two groups of tasks" if shared.read("run") else "before any task ran"
    where = f"in epoch {epoch}" if group == "epoch" else f"in the group '{group}'"
    return f"{where} (tasks: {tasks})" if tasks else where
