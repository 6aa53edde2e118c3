"""Make events of a small imaginary run, for what shows them."""

from __future__ import annotations

import json

from jobrun.core.events import (
    CheckpointCommitted,
    EpochEnded,
    Event,
    GroupStarted,
    Logged,
    Measured,
    RunEnded,
    RunStarted,
    TaskFacts,
)
from jobrun.runner.rundir.logs import event_json


def written(event: Event, at: str = "2026-01-01T00:00:00+00:00", generation: int = 0) -> str:
    """Return a line of ``events.jsonl`` or ``metrics.jsonl``, as it is written at a time."""
    content = {**json.loads(event_json(event, generation)), "time": at}
    return json.dumps(content) + "\n"


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def started(
    total: int | None = 100, epoch: int = -1, tasks: tuple[TaskFacts, ...] = ()
) -> RunStarted:
    return RunStarted("job/brisk-heron", "job", "/runs/job/brisk-heron", epoch, total, tasks)


def epoch_ended(number: int, loss: float = 0.5, stopping: tuple[str, ...] = ()) -> EpochEnded:
    return EpochEnded(number, 0.25, (("loss", loss),), stopping)


def logged(text: str, group: str = "epoch") -> Logged:
    return Logged(text, "lloyd", "trainer", 0, 1, f"{group}/lloyd/steps[0]")


def epoch(number: int, loss: float) -> list[Event]:
    """Return all events of one epoch."""
    return [
        GroupStarted("epoch", number, ("lloyd",)),
        logged(f"pass {number}"),
        Measured("loss", loss, number),
        CheckpointCommitted(number, 2048, 0.01, f"epoch-{number:06}"),
        epoch_ended(number, loss),
    ]


def ended(epoch_: int) -> RunEnded:
    return RunEnded("finished", epoch_, 3.0, "stop[0]: loss < 0.1")
