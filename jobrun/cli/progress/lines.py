"""Show the progress of a run as lines: plain ones, or JSON.

Plain lines are for files, pipes and CI; JSON lines for programs.
"""

from __future__ import annotations

from threading import Lock

from jobrun.cli.formatting import number, size, span
from jobrun.cli.progress.run_state import RunState, render_log
from jobrun.cli.terminal import Shell
from jobrun.core.events import (
    CheckpointCommitted,
    CheckpointFailed,
    CheckpointSkipped,
    CheckpointTimes,
    CheckpointWithin,
    EpochEnded,
    Event,
    Listener,
    Logged,
    Noted,
    RunEnded,
    RunStarted,
    TaskEnded,
)
from jobrun.core.text.terminal_text import printable_json
from jobrun.runner.rundir.logs import event_json

_INTERVAL_S = 10.0
# A job may log in every pass of a loop; what is left out here is in the run's logs.
_LOG_LINES_PER_INTERVAL = 5


class JsonLines:
    """A listener that prints each event as one line of JSON, in the form of ``events.jsonl``.

    Args:
        shell: Where to.
        state: Updated by each event first.
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
        """Print an event of a run as one line of JSON, the progress display for programs."""
        with self._lock:
            self._state.update(event)
            if not self._quiet or _is_always_shown(event):
                self._shell.say(printable_json(event_json(event)))


class PlainProgress:
    """A listener that prints a line per epoch, at most one in ten seconds, and always the last.

    Args:
        shell: Where to.
        state: Updated by each event first.
        verbosity: -1 warnings only, 0 as above, 1 every epoch, checkpoint and task.
    """

    def __init__(self, shell: Shell, state: RunState, verbosity: int = 0) -> None:
        self._shell = shell
        self._state = state
        self._verbosity = verbosity
        self._held: EpochEnded | None = None
        self._next = 0.0
        self._logged = 0
        # Events come from the tasks' threads.
        self._lock = Lock()

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._flush()

    def __call__(self, event: Event) -> None:
        """Print an event of a run as a plain line, if it is of a kind that is shown."""
        with self._lock:
            self._state.update(event)
            line = render_warning(event)
            if line is not None:
                self._say(self._shell.paint(line, "yellow"), -1)
                return
            self._show(event)

    def _show(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._say(render_heading(event), 0)
            case EpochEnded():
                self._epoch(event)
            case Logged(printed=False):
                self._log(event)
            case Noted():
                self._say(event.text, 0)
            case CheckpointCommitted():
                self._say(f"  saved epoch {event.epoch}, {size(event.size_bytes)}", 1)
            case CheckpointWithin():
                text = f"  saved epoch {event.epoch} after {event.records} of its records"
                self._say(f"{text}, {size(event.size_bytes)}", 1)
            case CheckpointTimes() if event.action != "save":
                self._say(f"  {render_times(event)}", 1)
            case TaskEnded():
                self._say(f"  {event.node}/{event.task} {span(event.seconds)}", 1)
            case RunEnded():
                self._flush()
            case _:
                pass

    def _epoch(self, event: EpochEnded) -> None:
        self._held = event
        if self._verbosity > 0 or event.stopping or self._state.clock() >= self._next:
            self._flush()

    def _flush(self) -> None:
        if self._held is None:
            return
        left_out = self._logged - _LOG_LINES_PER_INTERVAL
        if left_out > 0 and self._verbosity <= 0:
            self._say(f"  ({left_out} more lines in logs/ of the run)", 0)
        self._say(render_epoch(self._held, self._state), 0)
        self._held, self._logged = None, 0
        self._next = self._state.clock() + _INTERVAL_S

    def _log(self, event: Logged) -> None:
        if self._state.group == "epoch":
            self._logged += 1
        if self._verbosity > 0 or self._logged <= _LOG_LINES_PER_INTERVAL:
            self._say(render_log(event), 0)

    def _say(self, text: str, at: int) -> None:
        if self._verbosity >= at:
            self._shell.say(text)


def render_times(event: CheckpointTimes) -> str:
    """Render a plain line of progress for a transfer: ``upload of epoch 3: 2.1 MiB, 0.2 s, …``."""
    speed = f"{size(round(event.megabytes_per_s * 1e6))}/s, slowest node {event.slowest}"
    return (
        f"{event.action} of epoch {event.epoch}: {size(event.size_bytes)}, "
        f"{span(event.seconds)}, {speed}"
    )


def render_epoch(event: EpochEnded, state: RunState) -> str:
    """Render a plain line of progress: ``epoch 12 of at most 100 shift 0.021 0.3 s``."""
    total = state.started.total_epochs if state.started else None
    limit = f" of at most {total}" if total else ""
    metrics = "".join(f"  {name} {number(value)}" for name, value in event.metrics)
    return f"epoch {event.epoch}{limit}{metrics}  {span(event.seconds)}"


def _is_always_shown(event: Event) -> bool:
    return isinstance(event, RunStarted | RunEnded) or render_warning(event) is not None


def render_warning(event: Event) -> str | None:
    """Render a warning line for an event such as a failed save; None if it needs no warning."""
    match event:
        case Noted(level="warning"):
            return f"warning: {event.text}"
        case CheckpointFailed():
            return f"warning: epoch {event.epoch} could not be saved: {event.reason}"
        case CheckpointSkipped():
            where = "it was moved to superseded/"
            return f"warning: epoch {event.epoch} is unusable ({event.reason}); {where}"
        case _:
            return None


def warning_printer(shell: Shell) -> Listener:
    """Return a listener that prints the warnings among the events before a run starts."""

    def listen(event: Event) -> None:
        if text := render_warning(event):
            shell.say(text)

    return listen


def render_heading(event: RunStarted) -> str:
    """Render as one line how a run starts: from the beginning, or after which epoch."""
    start = "starts" if event.epoch < 0 else f"continues after epoch {event.epoch}"
    return f"{event.run} {start}"
