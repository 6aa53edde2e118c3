"""Budget the time of saves: which epochs ``every: auto`` saves, what work a kill can lose."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from jobrun.core.files.disk import open_regular
from jobrun.graph.checkpoint_policy import WAIT_SHARE, CheckpointPolicy

# The longest time without a save, whatever a save costs.
LONGEST_S = 600.0
# Seconds that saves may cost in addition to their share. So a job of a few epochs saves each of
# them, even on slow disks; with thousands of epochs it makes no difference. The first epoch after
# a resume is always saved, so that a job that is killed repeatedly makes progress.
FIRST_SAVES, FIRST_ALLOWANCE_S, ALLOWANCE_S = 10, 1.0, 0.05


class SaveBudget:
    """Limits the time that a run waits for saves to a share of its own time.

    A token bucket: it begins with ``ALLOWANCE_S`` (``FIRST_ALLOWANCE_S`` for the first few saves)
    and gains ``share`` of the time that passes; each save takes out the time for which the run
    waited for it. An epoch is saved if what is left suffices for a save that costs as much as the
    last one.

    Args:
        share: At most this part of the time is spent waiting, from 0 to 1.
        clock: Gives the present time in seconds.
    """

    def __init__(self, share: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._clock = clock
        self._started = self._saved_at = clock()
        self._waited_s = 0.0
        self._last_wait_s = 0.0
        self._saves = 0

    @property
    def interval_s(self) -> float:
        """The least interval of saves within the time budget, by how long the last one took."""
        return min(LONGEST_S, self._last_wait_s / self._share)

    def is_due(self, busy_s: float = 0.0) -> bool:
        """Return whether the time budget of ``every: auto`` allows a save of the ending epoch.

        Args:
            busy_s: How long the run would have to wait for the save before, which is still being
                written; 0 if there is none. Only the allowance is spent on that.
        """
        now = self._clock()
        if now - self._saved_at >= LONGEST_S:
            return True
        wait_s = self._last_wait_s + busy_s
        earned_s = 0.0 if busy_s else self._share * (now - self._started + wait_s)
        allowance_s = FIRST_ALLOWANCE_S if self._saves < FIRST_SAVES else ALLOWANCE_S
        return self._waited_s + wait_s <= allowance_s + earned_s

    def spend(self, wait_s: float) -> None:
        """Subtract the seconds that the run waited for a save from the time budget of saves."""
        self._saved_at = self._clock()
        self._saves += 1
        self._waited_s += wait_s
        self._last_wait_s = wait_s

    def spend_background(self, processor_s: float) -> None:
        """Subtract a background save's processor time from the time budget of saves.

        It counts as waiting: small epochs hold the GIL nearly all the time, and wait for it too.
        """
        self._waited_s += processor_s
        self._last_wait_s += processor_s


def loss_bound_s(policy: CheckpointPolicy, epoch_s: float, save_s: float, wait_s: float) -> float:
    """Return the most seconds of work that a kill can lose, given the interval of saves.

    That is what ran since the newest epoch that is durable: the time between two saves, the epoch
    at whose end the second one is due, and the time until that one is durable.

    Args:
        policy: When epochs are saved.
        epoch_s: How long an epoch takes, in seconds.
        save_s: How long a save takes until it is durable.
        wait_s: How long the run waits for it.
    """
    if policy.every_epochs:
        return policy.every_epochs * epoch_s + save_s
    if policy.every_s:
        return policy.every_s + epoch_s + save_s
    interval_s = min(LONGEST_S, wait_s / WAIT_SHARE) if policy.is_automatic else 0.0
    return interval_s + epoch_s + save_s


# Bytes read from the end of the events to learn how long epochs and saves take.
_TAIL_BYTES = 256 << 10


def measure_loss_bound(events: Path, policy: CheckpointPolicy) -> float | None:
    """Return how many seconds of work a kill can lose, by the save times of an earlier run.

    Args:
        events: The ``events.jsonl`` of a run of the job.
        policy: When the job saves epochs; that of the run may have been another.

    Returns:
        None where nothing was measured, or nothing is saved.
    """
    if not policy.enabled:
        return None
    times: dict[str, list[float]] = {"EpochEnded": [], "CheckpointCommitted": [], "save": []}
    data = b""
    with contextlib.suppress(OSError), os.fdopen(open_regular(events), "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
        data = file.read(_TAIL_BYTES)
    for line in data.splitlines():
        # The first and the last line may be torn, and others damaged; the valid ones are enough.
        with contextlib.suppress(ValueError, KeyError, TypeError):
            content = json.loads(line)
            kind = content.get("action") or content["event"]
            times[kind].append(float(content["stall_s" if kind == "save" else "seconds"]))
    epochs, saves, waits = times.values()
    if not epochs:
        return None
    save_s, wait_s = max(saves, default=0.0), waits[-1] if waits else 0.0
    return loss_bound_s(policy, max(epochs), save_s, wait_s)
