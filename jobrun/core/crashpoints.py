"""Named places at which a test can make the process die. In normal use each costs one comparison.

``JOBRUN_CRASHPOINT=checkpoint.renamed:2`` kills the process, as ``kill -9`` would, when it
reaches that place for the second time.
"""

from __future__ import annotations

import os
import signal

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


def _armed(text: str) -> tuple[str, int] | None:
    if not text:
        return None
    name, _, occurrence = text.partition(":")
    if name not in POINTS:
        # A misspelt place would let a crash test pass without a crash.
        raise ValueError(f"{VARIABLE}: no crash point is called {name!r}")
    return name, int(occurrence or 1)


_ARMED = _armed(os.environ.get(VARIABLE, ""))
_left = [_ARMED[1] if _ARMED else 0]


def reach(name: str) -> None:
    """Say that the place ``name``, one of ``POINTS``, is reached. Mostly does nothing."""
    if _ARMED is None or name != _ARMED[0]:
        return
    _left[0] -= 1
    if _left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
