"""Runs the parts of a group run in the threads of a crew. In which order, ``schedule`` says."""

from __future__ import annotations

import os
import time
from functools import partial
from queue import Empty

from jobrun.core.errors import JobrunError
from jobrun.core.events import TasksGivenUp
from jobrun.runtime.frame import GroupRun
from jobrun.runtime.watch import stacks
from jobrun.session.beyond import Beyond
from jobrun.session.cancel import TasksStuckError
from jobrun.session.crew import Crew
from jobrun.session.faults import combined
from jobrun.session.schedule import Part, ready, released

# What exit blocks get after the time for everything is over.
LAST_S = 5.0


class Conductor:
    """Starts parts when they are ready, and waits for them, in the caller's thread."""

    def __init__(self, run: GroupRun, crew: Crew, grace_s: float, beyond: Beyond) -> None:
        self._run = run
        self._crew = crew
        self._grace_s = grace_s
        self._beyond = beyond
        self._ended = beyond.ended
        # Parts elsewhere count as running from the beginning.
        self._running: list[Part] = list(beyond.awaited)
        # When the time of a cancelled run is over; it is set once.
        self._deadline: float | None = None

    def conduct(self, parts: list[Part]) -> None:
        """Run all parts to their end.

        Raises:
            TasksStuckError: Some did not end in time after a cancel.
        """
        waiting = ready(parts)
        # Wakes the wait below, so that it can begin to count the time.
        with self._run.body.waking(lambda: self._ended.put(None)):
            while waiting or self._running:
                waiting = self._start(waiting)
                if not waiting and self._running:
                    waiting = self._wait()

    def _start(self, parts: list[Part]) -> list[Part]:
        """Start the parts; what became ready because one of them was over at once."""
        over: list[Part] = []
        alone = len(parts) == 1 and not self._running
        for part in parts:
            if self._run.body.cancelled and not part.always:
                self._run.interrupted = True
                over.append(part)
            elif alone and not part.may_block:
                # Nothing else runs: no need for another thread.
                part.work()
                over.append(part)
            else:
                self._running.append(part)
                self._crew.start(part.work, partial(self._ended.put, part))
        return [later for part in over for later in released(part)]

    def _wait(self) -> list[Part]:
        """Wait until some part has ended; what became ready by it."""
        while not self._run.body.cancelled:
            part = self._ended.get()
            if part is not None:
                return self._end(part)
        return self._wait_for_end()

    def _wait_for_end(self) -> list[Part]:
        if self._deadline is None:
            self._deadline = time.monotonic() + self._grace_s
        elsewhere = [part for part in self._running if self._beyond.is_awaited(part)]
        if elsewhere:
            # Nobody waits for those any more.
            return self._end(elsewhere[0])
        for limit in (self._deadline, self._deadline + min(LAST_S, self._grace_s)):
            while True:
                try:
                    part = self._ended.get(timeout=max(0.0, limit - time.monotonic()))
                except Empty:
                    break
                if part is not None:
                    return self._end(part)
            # Programs and loops of exit blocks hear of it too now.
            self._run.cleanup.cancel()
        raise self._stuck()

    def _end(self, part: Part) -> list[Part]:
        if part not in self._running:
            # One elsewhere, which nobody waited for any more.
            return []
        self._running.remove(part)
        return list(released(part))

    def _stuck(self) -> TasksStuckError:
        stuck = tuple(sorted(part.name for part in self._running))
        self._run.emit(TasksGivenUp(stuck, self._run.epoch, os.getpid()))
        names = ", ".join(stuck)
        error = TasksStuckError.of(
            "E215",
            f"these tasks did not end within {self._grace_s:g} s of being asked to: {names}",
            "look for a callable that does not return; resume continues from the last saved epoch",
        )
        if not self._run.errors:
            for stack in stacks(self._run, all_tasks=True):
                error.add_note(stack)
            return error
        first = combined(self._run.errors)
        if isinstance(first, JobrunError):
            error = TasksStuckError(*first.faults, *error.faults)
            for note in getattr(first, "__notes__", ()):
                error.add_note(note)
        error.__cause__ = first
        return error
