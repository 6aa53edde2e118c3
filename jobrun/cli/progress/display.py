"""Choose the progress display of a run: live, plain lines, or JSON lines."""

from __future__ import annotations

from threading import Lock
from typing import Any

from jobrun.cli.progress.plain import PlainProgress
from jobrun.cli.progress.run_state import RunState
from jobrun.cli.terminal import Shell
from jobrun.core.events import (
    CheckpointFailed,
    CheckpointSkipped,
    Event,
    Noted,
    RunEnded,
    RunStarted,
)
from jobrun.runner.rundir.event_lines import event_json


def create_display(shell: Shell, state: RunState, verbosity: int) -> Any:
    """Create the display of a run's progress, a listener: JSON lines, live, or plain lines."""
    if shell.log_format == "json":
        return JsonLines(shell, state, quiet=verbosity < 0)
    if shell.live and verbosity == 0:
        # rich takes longer to load than most of the rest; only a terminal needs it.
        from jobrun.cli.progress.live import LiveProgress  # noqa: PLC0415

        return LiveProgress(shell, state)
    return PlainProgress(shell, state, verbosity)


class JsonLines:
    """A listener that prints each event as one line of JSON, in the form of ``events.jsonl``.

    Args:
        shell: Where to.
        state: Told of each event first.
        quiet: Only the start, the end, and warnings.
    """

    def __init__(self, shell: Shell, state: RunState, *, quiet: bool = False) -> None:
        self._shell = shell
        self._state = state
        self._quiet = quiet
        # Events come from the tasks' threads.
        self._lock = Lock()

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def __call__(self, event: Event) -> None:
        """Display one event of a run as a line of JSON, the progress display for programs."""
        with self._lock:
            self._state.update(event)
            if not self._quiet or _matters(event):
                self._shell.say(event_json(event))


def _matters(event: Event) -> bool:
    match event:
        case RunStarted() | RunEnded() | CheckpointFailed() | CheckpointSkipped():
            return True
        case Noted():
            return event.level == "warning"
        case _:
            return False
