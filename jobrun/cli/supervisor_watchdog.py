"""Detect from the parent process that a task is far over its time limit.

A task's limit is watched by a thread of the process that runs it, which cannot do anything while
code in C keeps the interpreter for itself. What runs and until when is therefore noted outside. ::

    in the process that computes    ``LimitRecorder``: the limit that is over first, as a text
    in the one that watches         ``OverdueDetector``: whether it should have been ended by now
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from threading import Lock

from jobrun.core.errors import Fault, Origin
from jobrun.core.events import (
    Event,
    GroupStarted,
    RunEnded,
    TaskEnded,
    TaskLimited,
    TasksGivenUp,
)

# After the limit and the grace: for exit blocks, and for the process to say so itself.
_LAST_S = 5.0
# Of its own waking time; while a computer sleeps, or both processes are stopped, nothing counts.
_REACTION_S = 10.0
_LONGEST_STEP_S = 2.0


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
        """Note for the watchdog each running task, and when its time limit will be far exceeded."""
        match event:
            case TaskLimited() if event.pid == self._pid:
                over_s = time.monotonic() + event.limit_s + event.grace_s + _LAST_S
                self._change(lambda: self._running.update({_key(event): (over_s, event)}))
            case TaskEnded() if _key(event) in self._running:
                self._change(lambda: self._running.pop(_key(event), None))
            case GroupStarted() | TasksGivenUp() | RunEnded() if self._running:
                self._change(self._running.clear)
            case _:
                pass

    def _change(self, change: Callable[[], object]) -> None:
        with self._lock:
            change()
            first = min(self._running.values(), key=lambda one: one[0], default=None)
            self._note("" if first is None else f"{first[0]}\n{json.dumps(asdict(first[1]))}")


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
        """Return which task the watchdog finds far over its time limit, or an empty text."""
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
        return task if self._late_s > _REACTION_S else ""


def build_timeout_fault(task: str, mend: str) -> Fault:
    """Build the watchdog's fault for a task that exceeded its time limit while holding the GIL.

    Args:
        task: As ``OverdueDetector`` gives it.
        mend: What to do.
    """
    said = json.loads(task)
    message = (
        f"the task took longer than its limit of {said['limit_s']:g} s (task {said['task']}, node "
        f"{said['node']}, epoch {said['epoch']}), without releasing the interpreter (GIL), so "
        f"its process was killed"
    )
    place = Origin(said["file"], said["line"], said["column"]) if said["line"] else None
    return Fault("E220", message, mend, place, said["path"])


def task_line_of(task: str) -> int:
    """Return the spec's line of a task that the watchdog found over its limit; 0 if unknown."""
    return int(json.loads(task)["line"]) if task else 0


def _key(event: TaskLimited | TaskEnded) -> tuple[str, str]:
    return event.task, event.node
