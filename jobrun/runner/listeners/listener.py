"""Define listeners: what receives the metrics of a run, epoch by epoch, while it runs.

A run may be killed at any moment and resumed from an earlier epoch, which is then computed and
measured again. So each start hands over all that the run has measured up to there (``begin``), and
a listener makes its destination equal to that; then each epoch is handed over once (``record``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from jobrun.core.lazy_dataclass import dataclass

Number = float | int | bool | str
Outcome = Literal["finished", "stopped", "interrupted", "failed"]
_LARGEST = 1.7976931348623157e308


@dataclass(frozen=True, slots=True)
class ListenedRun:
    """The run whose metrics a listener gets.

    Attributes:
        directory: Of the run; a listener may keep files in a folder of its own there.
        job: The job's name.
        name: The run's name below the job's.
        run_id: A UUID, which a resume keeps and no other run has.
        params: The values of the params, secrets hidden.
    """

    directory: Path
    job: str
    name: str
    run_id: str
    params: Mapping[str, Number]


@dataclass(frozen=True, slots=True)
class EpochMetrics:
    """The metrics of one epoch.

    Attributes:
        epoch: Its number.
        at: When they were measured, with a time zone.
        values: By name; those of a step are called ``task.name``, on one of several nodes or
            instances ``node/task.0.name``.
    """

    epoch: int
    at: datetime
    values: Mapping[str, Number]


class RunListener(Protocol):
    """Receives the metrics of a run. Made once, in a process of its own, without arguments.

    It may take its time, and may raise: then the run says so once, and continues without it.
    """

    def begin(self, run: ListenedRun, history: Sequence[EpochMetrics]) -> None:
        """Make this listener's destination hold exactly the metrics of past epochs (protocol).

        It is called when the run starts and is resumed, and again when it goes back to an earlier
        epoch. What an earlier process has sent may be there, whole or not, and even further epochs.

        Args:
            run: The run.
            history: In the order of epochs; empty for a new run.
        """

    def record(self, metrics: EpochMetrics) -> None:
        """Let a listener add one epoch's metrics to its destination (listener protocol).

        Another call may add further names to the last epoch.
        """

    def end(self, outcome: Outcome) -> None:
        """Let a listener write what is left and close its destination at the run's end (protocol).

        A resume may follow in another process.
        """


def to_float(value: Number) -> float | None:
    """Convert a metric to a float for listeners: infinity if it is too large, None for a text.

    >>> to_float(True), to_float(10**400), to_float("good")
    (1.0, inf, None)
    """
    if isinstance(value, str):
        return None
    if isinstance(value, int) and abs(value) > _LARGEST:
        return float("inf") if value > 0 else float("-inf")
    return float(value)
