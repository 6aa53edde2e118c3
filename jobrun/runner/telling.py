"""Who is told what happens in a run, and what is told before anything does. Makes no events."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial

from jobrun.core.errors import Fault
from jobrun.core.events import Event, Listener, Noted
from jobrun.graph.types import Job
from jobrun.runner.drift import Change
from jobrun.runner.lineage import parent_words
from jobrun.runner.logs import RunLogs
from jobrun.runner.resizing import Resizing
from jobrun.runner.rundir import Run


@contextlib.contextmanager
def telling(run: Run, job: Job, listener: Listener, generation: int) -> Iterator[Listener]:
    """Who is told: the run's own files, then the caller, whose terminal may go away."""
    with contextlib.closing(RunLogs(run.path, job, generation)) as logs:
        listen = partial(_tell, logs, [listener])
        yield listen
        if logs.failed_writes:
            listen(Noted(f"{logs.failed_writes} lines of the run's logs were lost", "warning"))


def _tell(logs: RunLogs, others: list[Listener], event: Event) -> None:
    logs(event)
    try:
        for other in others:
            other(event)
    except (OSError, ValueError):
        # A closed pipe or terminal ends the display, never the run.
        others.clear()


def tell_warnings(warnings: tuple[Fault, ...], listen: Listener) -> None:
    """Tell of what is not as it should be, and does no harm yet."""
    for fault in warnings:
        listen(Noted(f"{fault.message} ({fault.mend})", "warning"))


def tell_lineage(run: Run, listen: Listener) -> None:
    """Tell where a fork comes from."""
    if run.record.parent:
        listen(Noted(f"forked from {parent_words(run.record.parent)}"))


def tell_changes(
    changes: tuple[Change, ...], listen: Listener, resized: Resizing | None = None
) -> None:
    """Tell of the drift that was accepted, and what becomes of the state on other nodes."""
    for change in changes:
        level = "info" if change.kind in {"safe", "declared safe"} else "warning"
        listen(Noted(f"changed ({change.kind}): {change}", level))
    for family in resized.families if resized else ():
        listen(Noted(str(family)))
