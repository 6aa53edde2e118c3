"""Define failpoints: named places in the code at which a test can make the process die.

``JOBRUN_CRASHPOINT=checkpoint.renamed:2`` kills the process, as ``kill -9`` would, when it
reaches that place for the second time.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping

from msgspec import Struct

# In the order in which saving an epoch, and then making room, reach them; then the runner's.
POINTS: tuple[str, ...] = (
    "checkpoint.staged",
    "checkpoint.file-opened",
    "checkpoint.file-half-written",
    "checkpoint.file-written",
    "checkpoint.file-synced",
    "checkpoint.commit-begun",
    "checkpoint.manifest-written",
    "checkpoint.stage-synced",
    "checkpoint.renamed",
    "checkpoint.committed",
    "checkpoint.removal-renamed",
    "checkpoint.removal-synced",
    "checkpoint.removal-begun",
    "checkpoint.removed",
    "checkpoint.set-aside-renamed",
    "checkpoint.set-aside",
    "upload.begun",
    "upload.file-part-written",
    "upload.file-synced",
    "upload.manifest-written",
    "upload.renamed",
    "upload.published",
    "collect.piece-written",
    "collect.file-synced",
    "runner.directory-made",
    "runner.spec-written",
    "runner.run-made",
    "runner.init-ended",
    "runner.epoch-ended",
    "runner.saved",
    "runner.acknowledged",
    "runner.rewound",
    "runner.recovered",
    "runner.uploaded",
    "runner.download-ended",
    "runner.exit-ended",
)
VARIABLE = "JOBRUN_CRASHPOINT"
# The file to which each place is added when it is reached: its name and the monotonic time.
TRACE_VARIABLE = "JOBRUN_CRASHPOINT_TRACE"


class _Watch(Struct):
    """The failpoints that are armed, and what happens at each."""

    name: str = ""
    remaining: int = 0
    trace: str = ""


def _watch(variables: Mapping[str, str]) -> _Watch | None:
    name, _, occurrence = variables.get(VARIABLE, "").partition(":")
    if name and name not in POINTS:
        # A misspelt place would let a crash test pass without a crash.
        raise ValueError(f"{VARIABLE}: no crash point is called {name!r}")
    trace = variables.get(TRACE_VARIABLE, "")
    return _Watch(name, int(occurrence or 1), trace) if name or trace else None


_watching = [_watch(os.environ)]


def arm(variables: Mapping[str, str]) -> None:
    """Choose by environment variables the failpoint at which a test kills this process.

    Raises:
        ValueError: No place is called so.
    """
    _watching[0] = _watch(variables)


def reach(name: str) -> None:
    """Kill this process if a test has chosen this failpoint; otherwise continue."""
    watch = _watching[0]
    if watch is None:
        return
    if watch.trace:
        with open(watch.trace, "a", encoding="ascii") as file:  # noqa: PTH123 - cheap to import
            file.write(f"{name} {time.monotonic()}\n")
    if name == watch.name:
        watch.remaining -= 1
        if watch.remaining == 0:
            os.kill(os.getpid(), signal.SIGKILL)
