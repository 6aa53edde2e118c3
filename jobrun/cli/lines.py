"""Progress as lines of JSON, for programs that watch a run."""

from __future__ import annotations

from threading import Lock

from jobrun.cli.shell import Shell
from jobrun.cli.tally import Tally
from jobrun.core.events import (
    CheckpointFailed,
    CheckpointSkipped,
    Event,
    Noted,
    RunEnded,
    RunStarted,
)
from jobrun.runner.logs import event_json


class JsonLines:
    """A listener that says each event as one line of JSON, in the form of ``events.jsonl``.

    Args:
        shell: Where to.
        tally: Told of each event first.
        quiet: Only the start, the end, and warnings.
    """

    def __init__(self, shell: Shell, tally: Tally, *, quiet: bool = False) -> None:
        self._shell = shell
        self._tally = tally
        self._quiet = quiet
        # Events come from the tasks' threads.
        self._lock = Lock()

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def __call__(self, event: Event) -> None:
        """Take one event."""
        with self._lock:
            self._tally.see(event)
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
