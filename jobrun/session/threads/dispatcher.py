"""Start the work items of a group run in pool threads as soon as their dependencies have ended."""

from __future__ import annotations

import os
import time
from functools import partial
from queue import Empty

from jobrun.core.errors import JobrunError
from jobrun.core.events import TasksGivenUp
from jobrun.runtime.context.group_run_state import GroupRun
from jobrun.runtime.task_limits import render_stacks
from jobrun.session.base import TasksStuckError, merge_errors
from jobrun.session.threads.thread_pool import ThreadPool
from jobrun.session.threads.work_items import ExternalDeps, WorkItem, find_ready, iter_released

# How long exit blocks may take after the grace period.
EXIT_GRACE_S = 5.0


class Dispatcher:
    """Starts work items when they are ready, and waits for them in the caller's thread."""

    def __init__(self, run: GroupRun, pool: ThreadPool, grace_s: float, deps: ExternalDeps) -> None:
        self._run = run
        self._pool = pool
        self._grace_s = grace_s
        self._deps = deps
        self._completions = deps.completions
        # Tasks on other nodes count as running from the beginning.
        self._running: dict[WorkItem, None] = dict.fromkeys(deps.awaited)
        # End of the grace period of a cancelled run; it is set once.
        self._deadline: float | None = None

    def run(self, items: list[WorkItem]) -> None:
        """Dispatch all work items in the order of their dependencies, and wait for their end.

        Raises:
            TasksStuckError: Some did not end in time after a cancel.
        """
        waiting = find_ready(items)
        # Wakes the wait below, so that it can begin to count the time.
        with self._run.body.waking(lambda: self._completions.put(None)):
            while waiting or self._running:
                waiting = self._start(waiting)
                if not waiting and self._running:
                    waiting = self._wait()

    def _start(self, items: list[WorkItem]) -> list[WorkItem]:
        """Start ready work items; return later ones made ready by those that ended at once."""
        over: list[WorkItem] = []
        alone = len(items) == 1 and not self._running
        for item in items:
            if self._run.body.cancelled and not item.always:
                self._run.interrupted = True
                over.append(item)
            elif alone and not item.may_block:
                # Nothing else runs: no need for another thread.
                item.work()
                over.append(item)
            else:
                self._running[item] = None
                self._pool.start(item.work, partial(self._completions.put, item))
        return [later for item in over for later in iter_released(item)]

    def _wait(self) -> list[WorkItem]:
        """Wait until a dispatched work item has ended; return the items that it made ready."""
        while not self._run.body.cancelled:
            item = self._completions.get()
            if item is not None:
                return self._end(item)
        return self._wait_until_deadline()

    def _wait_until_deadline(self) -> list[WorkItem]:
        if self._deadline is None:
            self._deadline = time.monotonic() + self._grace_s
        elsewhere = [item for item in self._running if self._deps.is_awaited(item)]
        if elsewhere:
            # A cancelled run does not wait for tasks on other nodes.
            return self._end(elsewhere[0])
        for limit in (self._deadline, self._deadline + min(EXIT_GRACE_S, self._grace_s)):
            while True:
                try:
                    item = self._completions.get(timeout=max(0.0, limit - time.monotonic()))
                except Empty:
                    break
                if item is not None:
                    return self._end(item)
            # Cancels programs and loops of exit blocks too.
            self._run.cleanup.cancel()
        raise self._stuck()

    def _end(self, item: WorkItem) -> list[WorkItem]:
        if item not in self._running:
            # A task on another node that this run has stopped waiting for.
            return []
        del self._running[item]
        return list(iter_released(item))

    def _stuck(self) -> TasksStuckError:
        stuck = tuple(sorted(item.name for item in self._running))
        self._run.emit(TasksGivenUp(stuck, self._run.epoch, os.getpid()))
        names = ", ".join(stuck)
        error = TasksStuckError.of(
            "E215",
            f"these tasks did not end within {self._grace_s:g} s of their cancellation: {names}",
            "look for a callable that does not return; resume continues from the last saved epoch",
        )
        if not self._run.errors:
            for stack in render_stacks(self._run, all_tasks=True):
                error.add_note(stack)
            return error
        first = merge_errors(self._run.errors)
        if isinstance(first, JobrunError):
            error = TasksStuckError(*first.faults, *error.faults)
            for note in getattr(first, "__notes__", ()):
                error.add_note(note)
        error.__cause__ = first
        return error
