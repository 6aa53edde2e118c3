"""Whether a run stops after an epoch, and how patience counts. Pure: asks, and changes nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import assert_never

from jobrun.core.errors import TaskFailedError
from jobrun.graph.conditions import (
    Endless,
    Probe,
    StopAfterEpochs,
    StopAfterTime,
    StopCondition,
    StopWhen,
    StopWithoutImprovement,
)
from jobrun.runner.progress import Patience, Progress, Scalar


def reasons(
    conditions: tuple[StopCondition, ...], progress: Progress, holds: Callable[[Probe], bool]
) -> tuple[str, ...]:
    """Why the run stops now, in words, in the order of the conditions; empty when it goes on.

    Never after init alone: the conditions are looked at after each epoch, so a run that was
    killed right after init must not look at them either.
    """
    if progress.epoch == 0:
        return ()
    found = (_reason(condition, progress, holds) for condition in conditions)
    return tuple(reason for reason in found if reason)


def next_patience(
    conditions: tuple[StopCondition, ...],
    before: tuple[Patience, ...],
    metrics: Mapping[str, Scalar],
) -> tuple[Patience, ...]:
    """How the patience of each ``no_improvement`` stands after one more epoch.

    Raises:
        TaskFailedError: A metric is not a number.
    """
    stood = {one.condition: one for one in before}
    return tuple(
        _counted(condition, stood.get(_words(condition)), metrics[condition.metric])
        for condition in conditions
        if isinstance(condition, StopWithoutImprovement)
    )


def total_epochs(conditions: tuple[StopCondition, ...]) -> int | None:
    """How many epochs there are at most, if a condition says so."""
    totals = [one.epochs for one in conditions if isinstance(one, StopAfterEpochs)]
    return min(totals, default=None)


def is_better(value: float, than: float | None, mode: str, min_delta: float = 0.0) -> bool:
    """Whether a value improves on the best one. NaN never does."""
    if math.isnan(value):
        return False
    if than is None:
        return True
    return value < than - min_delta if mode == "min" else value > than + min_delta


def _reason(
    condition: StopCondition, progress: Progress, holds: Callable[[Probe], bool]
) -> str | None:
    match condition:
        case StopAfterEpochs(epochs=epochs):
            return _have_run(epochs) if progress.epoch >= epochs else None
        case StopWhen(probe=probe):
            return probe.text if holds(probe) else None
        case StopAfterTime(seconds=seconds):
            return f"it has run for {seconds:g} s" if progress.elapsed_s >= seconds else None
        case StopWithoutImprovement(epochs=epochs):
            words = _words(condition)
            waited = max(
                (one.waited_epochs for one in progress.patience if one.condition == words),
                default=0,
            )
            return words if waited >= epochs else None
        case Endless():
            return None
        case _:
            assert_never(condition)


def _have_run(epochs: int) -> str:
    return "1 epoch has run" if epochs == 1 else f"{epochs} epochs have run"


def _words(condition: StopWithoutImprovement) -> str:
    # ``epochs`` is left out: more patience goes on with the count as it stands.
    delta = f" by {condition.min_delta:g}" if condition.min_delta else ""
    return f"no improvement of {condition.metric} ({condition.mode}){delta}"


def _counted(condition: StopWithoutImprovement, before: Patience | None, value: Scalar) -> Patience:
    before = before or Patience(_words(condition))
    if isinstance(value, str):
        raise TaskFailedError.of(
            "E367",
            f"metric '{condition.metric}' must be a number to improve, and is {value!r}",
            "measure a number",
            path=condition.path,
        )
    if is_better(float(value), before.best, condition.mode, condition.min_delta):
        return Patience(before.condition, float(value))
    return Patience(before.condition, before.best, before.waited_epochs + 1)
