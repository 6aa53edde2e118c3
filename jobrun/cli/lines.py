"""Progress as lines of JSON, for programs that watch a run."""

from __future__ import annotations

from threading import Lock

from jobrun.cli.shell import Shell
from jobrun.cli.tally import Tally
from jobrun.core.events import Event
from jobrun.runner.logs import event_json


class JsonLines:
    """A listener that says each event as one line of JSON, in the form of ``events.jsonl``."""

    def __init__(self, shell: Shell, tally: Tally) -> None:
        self._shell = shell
        self._tally = tally
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
            self._shell.say(event_json(event))
