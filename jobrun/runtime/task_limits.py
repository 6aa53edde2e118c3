"""Run tasks that may end before their group: with a timeout, a retry, or ``on_error: warn``.

Such a task has a cancel scope of its own, below that of the group run. What a retry is, the
runner knows; here it is only noted which task failed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType

from jobrun.core.errors import Fault, JobrunError, TaskFailedError
from jobrun.core.events import Noted, TaskLimited
from jobrun.graph.types import Node, Task
from jobrun.runtime.codegen.compiler import PLACES
from jobrun.runtime.codegen.line_table import StepLocation, find_location
from jobrun.runtime.context.frame import Frame
from jobrun.runtime.context.group_run_state import GroupRun

Work = Callable[[GroupRun], bool]

_MOST_PLACES = 3
_MOST_FRAMES = 12
_PACKAGE = str(Path(__file__).parent.parent)


def has_own_scope(task: Task) -> bool:
    """Return whether a limit can end a task alone: a timeout, ``retry`` or ``on_error: warn``."""
    return bool(task.timeout_s) or task.retry is not None or task.on_error == "warn"


def run_in_own_scope(task: Task, node: Node, run: GroupRun, work: Work) -> bool:
    """Run a task that has a timeout or retries under its own cancel scope; return its success.

    With ``on_error: warn`` its errors become warnings here, and are none of the group run's.
    """
    is_tolerant = task.on_error == "warn"
    task_run = run.for_task(task.name if task.retry else "", None if is_tolerant else run)
    watch = Watchdog(task, node, task_run, run)
    with run.body.waking(task_run.body.cancel):
        try:
            if task.timeout_s or is_tolerant:
                watch.start()
        except JobrunError as error:
            # The watchdog's thread cannot be started, and no task with a limit runs without it.
            run.fail(error)
            return False
        went_well = work(task_run)
        watch.finish()
    # A failure of the task interrupts its own other instances and no other task.
    run.interrupted = run.interrupted or (task_run.interrupted and run.body.cancelled)
    if is_tolerant:
        _warn_of_failure(task, node, task_run, run)
    return went_well and not task_run.errors


class Watchdog:
    """Fails a task that exceeds its time limit, and the group of one that does not end then.

    Args:
        task: The task.
        node: Where it runs.
        own: The run as the task sees it.
        run: The group run.
    """

    def __init__(self, task: Task, node: Node, task_run: GroupRun, run: GroupRun) -> None:
        self._task = task
        self._node = node
        self._task_run = task_run
        self._run = run
        # True: the task has ended. False: its scope was cancelled.
        self._ended: SimpleQueue[bool] = SimpleQueue()
        self._exited: SimpleQueue[None] = SimpleQueue()
        self._limit_at: float | None = None
        self._started = False

    def start(self) -> None:
        """Start watching a task's time limit (timeout), in a thread of its own."""
        self._started = True
        if self._task.timeout_s:
            self._run.emit(self._limited(self._task.timeout_s))
            self._limit_at = time.monotonic() + self._task.timeout_s
        self._run.start(self._look, lambda: self._exited.put(None))

    def _limited(self, limit_s: float) -> TaskLimited:
        task, origin = self._task, self._task.origin
        return TaskLimited(
            task.name,
            self._node.name,
            self._task_run.epoch,
            task.path,
            origin.file,
            origin.line,
            origin.column,
            limit_s,
            self._task_run.grace_s,
            os.getpid(),
        )

    def finish(self) -> None:
        """Stop watching the task's time limit (timeout), as the task has ended."""
        if self._started:
            self._ended.put(True)
            self._exited.get()

    def _look(self) -> None:
        with self._task_run.body.waking(lambda: self._ended.put(False)):
            if self._has_ended(self._limit_at, or_cancelled=True):
                return
            if not self._task_run.body.cancelled:
                self._expire()
            if self._has_ended(time.monotonic() + self._task_run.grace_s):
                return
        # A task that does not end needs more than a warning: the group waits for it.
        for error in tuple(self._task_run.errors):
            self._run.fail(error)

    def _has_ended(self, until: float | None, *, or_cancelled: bool = False) -> bool:
        """Wait for a task's end, for at most its time limit; return whether it has ended."""
        while True:
            wait_s = None
            if until is not None:
                wait_s = min(max(0.0, until - time.monotonic()), threading.TIMEOUT_MAX)
            try:
                ended = self._ended.get(timeout=wait_s)
            except Empty:
                return False
            if ended or or_cancelled:
                return ended

    def _expire(self) -> None:
        locations = current_locations(self._task_run)
        where = ", ".join(location.path for location in locations[:_MOST_PLACES])
        task = self._task
        message = (
            f"the task took longer than its limit of {task.timeout_s:g} s (task {task.name}, node "
            f"{self._node.name}, epoch {self._task_run.epoch})"
        )
        message += f"; it was in {where}" if where else ""
        mend = "look at what the step waits for, or raise 'timeout'"
        location = locations[0] if locations else StepLocation(task.path, task.origin)
        origin = location.origin if location.origin.line else None
        self._task_run.body.at_once = True
        error = TaskFailedError(Fault("E220", message, mend, origin, location.path or "?"))
        for stack in render_stacks(self._task_run):
            error.add_note(stack)
        self._task_run.fail(error)


def current_locations(run: GroupRun) -> tuple[StepLocation, ...]:
    """Return the path of the step that each thread of an overdue task is running.

    Generated code knows its place by its instructions; it costs nothing until this is called.
    """
    locations: dict[str, StepLocation] = {}
    for top in sys._current_frames().values():
        location = _innermost(top, run)
        if location is not None:
            locations[location.path] = location
    return tuple(locations[path] for path in sorted(locations))


def render_stacks(run: GroupRun, *, all_tasks: bool = False) -> tuple[str, ...]:
    """Render the call stacks of a task past its time limit: lines of the spec and user code.

    Args:
        run: As the task sees it.
        all_tasks: Of the other tasks of the group too.
    """
    stacks = []
    for top in sys._current_frames().values():
        block = _innermost_block(top)
        ours = block is not None and (
            block.run is run or (all_tasks and block.run.outputs is run.outputs)
        )
        frames = [
            frame for frame in traceback.extract_stack(top) if ours and not _is_own(frame.filename)
        ]
        if frames:
            stacks.append("".join(traceback.format_list(frames[-_MOST_FRAMES:])).rstrip())
    return tuple(stacks)


def _is_own(file: str) -> bool:
    return file.startswith((_PACKAGE, threading.__file__, "<frozen"))


def _innermost(top: FrameType, run: GroupRun) -> StepLocation | None:
    generated = _generated_frame(top)
    if generated is None or generated[1].run is not run:
        return None
    frame, _ = generated
    return find_location(frame.f_code, frame.f_lasti, frame.f_globals[PLACES])


def _innermost_block(top: FrameType) -> Frame | None:
    generated = _generated_frame(top)
    return generated[1] if generated else None


def _generated_frame(top: FrameType) -> tuple[FrameType, Frame] | None:
    """Find where a task over its limit is: its innermost generated frame on a stack."""
    frame: FrameType | None = top
    while frame is not None:
        if frame.f_globals.get(PLACES):
            view = frame.f_locals.get("f")
            if isinstance(view, Frame):
                return frame, view
        frame = frame.f_back
    return None


def _warn_of_failure(task: Task, node: Node, task_run: GroupRun, run: GroupRun) -> None:
    """Warn of a failure that ``on_error: warn`` limits to its task; pass other errors on."""
    for error in task_run.errors:
        if not isinstance(error, JobrunError):
            run.fail(error)
        elif not any(error is recorded for recorded in run.errors):
            reasons = "; ".join(f"{fault.path}: {fault.message}" for fault in error.faults)
            text = (
                f"task '{task.name}' failed on node {node.name}, and the group continues: {reasons}"
            )
            run.emit(Noted(text, "warning"))
