"""Evaluate metrics and conditions between epochs: stop conditions, patience, expectations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, assert_never

import numpy as np

from jobrun.core.codes import Code
from jobrun.core.errors import Fault, TaskFailedError
from jobrun.graph.conditions import (
    Endless,
    Probe,
    StopAfterEpochs,
    StopAfterTime,
    StopCondition,
    StopWhen,
    StopWithoutImprovement,
)
from jobrun.graph.expressions import NodeBlob, OutputRead
from jobrun.graph.types import OutputRef
from jobrun.runner.saved_progress import Patience, Progress, Scalar
from jobrun.runtime.codegen.compiler import evaluate
from jobrun.session.base import Outputs, Session
from jobrun.values.blob_kinds import Value
from jobrun.values.object_state import ObjectFacts

# Reductions over the nodes' integers, which may have any number of digits.
_OF_INTEGERS: dict[str, Callable[[list[int]], float]] = {
    "max": max,
    "min": min,
    "sum": sum,
    "mean": lambda parts: sum(parts) / len(parts),
}


def find_stop_reasons(
    conditions: tuple[StopCondition, ...], progress: Progress, holds: Callable[[Probe], bool]
) -> tuple[str, ...]:
    """Return the stop conditions that hold after an epoch, as texts; empty to continue.

    Never after init alone: the conditions are looked at after each epoch, so a run that was
    killed right after init must not look at them either.
    """
    if progress.epoch == 0:
        return ()
    reasons = (_find_reason(condition, progress, holds) for condition in conditions)
    return tuple(reason for reason in reasons if reason)


def update_patience(
    conditions: tuple[StopCondition, ...],
    before: tuple[Patience, ...],
    metrics: Mapping[str, Scalar],
) -> tuple[Patience, ...]:
    """Update how long each ``no_improvement`` condition has waited, after one more epoch.

    Raises:
        TaskFailedError: A metric is not a number.
    """
    known = {patience.condition: patience for patience in before}
    return tuple(
        _update_one(condition, known.get(_condition_text(condition)), metrics[condition.metric])
        for condition in conditions
        if isinstance(condition, StopWithoutImprovement)
    )


def total_epochs(conditions: tuple[StopCondition, ...]) -> int | None:
    """Return the greatest number of epochs that stop conditions allow; None without a limit."""
    totals = [
        condition.epochs for condition in conditions if isinstance(condition, StopAfterEpochs)
    ]
    return min(totals, default=None)


def is_better(value: float, than: float | None, mode: str, min_delta: float = 0.0) -> bool:
    """Return whether a metric is better than its best value, for ``no_improvement``.

    Integers, which may have any number of digits, are compared exactly.
    """
    if is_nan(value):
        return False
    if than is None:
        return True
    if not min_delta:
        return value < than if mode == "min" else value > than
    if isinstance(value, int) and isinstance(than, int):
        return (than - value if mode == "min" else value - than) > min_delta
    value, than = _to_float(value), _to_float(than)
    return value < than - min_delta if mode == "min" else value > than + min_delta


def is_nan(value: float) -> bool:
    """Return whether a metric is NaN; an integer, however large, is not."""
    return isinstance(value, float) and math.isnan(value)


def _to_float(value: float) -> float:
    """Convert a metric to a float; one that is too large for a float becomes infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _find_reason(
    condition: StopCondition, progress: Progress, holds: Callable[[Probe], bool]
) -> str | None:
    match condition:
        case StopAfterEpochs(epochs=epochs):
            return _epochs_text(epochs) if progress.epoch >= epochs else None
        case StopWhen(probe=probe):
            return probe.text if holds(probe) else None
        case StopAfterTime(seconds=seconds):
            return f"it has run for {seconds:g} s" if progress.elapsed_s >= seconds else None
        case StopWithoutImprovement(epochs=epochs):
            words = _condition_text(condition)
            waited = max(
                (
                    patience.waited_epochs
                    for patience in progress.patience
                    if patience.condition == words
                ),
                default=0,
            )
            return words if waited >= epochs else None
        case Endless():
            return None
        case _:
            assert_never(condition)


def _epochs_text(epochs: int) -> str:
    return "1 epoch has run" if epochs == 1 else f"{epochs} epochs have run"


def _condition_text(condition: StopWithoutImprovement) -> str:
    # Without ``epochs``: a condition whose patience was raised keeps its count.
    short = f"{condition.min_delta:g}"
    words = short if float(short) == condition.min_delta else repr(condition.min_delta)
    delta = f" by {words}" if condition.min_delta else ""
    return f"no improvement of {condition.metric} ({condition.mode}){delta}"


def _update_one(
    condition: StopWithoutImprovement, before: Patience | None, value: Scalar
) -> Patience:
    before = before or Patience(_condition_text(condition))
    if isinstance(value, str):
        raise TaskFailedError.of(
            "E367",
            f"metric '{condition.metric}' must be a number to improve, and is {value!r}",
            "measure a number",
            path=condition.path,
        )
    number = int(value) if isinstance(value, bool) else value
    if is_better(number, before.best, condition.mode, condition.min_delta):
        return Patience(before.condition, number)
    return Patience(before.condition, before.best, before.waited_epochs + 1)


class ProbeEvaluator:
    """Evaluates probes (metrics, stop conditions) on a session's present state and outputs."""

    def __init__(self, session: Session, outputs: Outputs, epoch: int = 0) -> None:
        self._epoch = epoch
        self._session = session
        self._outputs = outputs

    def value(self, probe: Probe) -> Value:
        """Evaluate a metric or condition between epochs; combine its nodes' values to one.

        Raises:
            TaskFailedError: It cannot be evaluated.
        """
        try:
            parts = [evaluate(part, self._read, epoch=self._epoch) for part in probe.parts]
            return _reduce(parts, probe.reduce)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise TaskFailedError(
                _fault("E366", f"'{probe.text}' cannot be evaluated: {error}", probe)
            ) from error

    def holds(self, probe: Probe) -> bool:
        """Evaluate a condition between epochs, whose value must be a bool.

        Raises:
            TaskFailedError: It is something else.
        """
        value = self.value(probe)
        if isinstance(value, np.ndarray) and value.shape == ():
            value = value[()]
        if not isinstance(value, bool | np.bool_):
            message = f"'{probe.text}' must be true or false, and is {_describe(value)}"
            mend = "write a comparison; any(…) and all(…) make one bool of many"
            raise TaskFailedError(_fault("E366", message, probe, mend))
        return bool(value)

    def scalar(self, name: str, probe: Probe) -> Scalar:
        """Evaluate a metric in the loop between epochs as one Python number, bool or text.

        Raises:
            TaskFailedError: It is something else.
        """
        value = self.value(probe)
        if isinstance(value, np.generic | np.ndarray) and value.size == 1:
            value = value.item()
        if not isinstance(value, bool | int | float | str):
            message = f"metric '{name}' must be one number, and is {_describe(value)}"
            mend = "reduce it, for example with mean(…) or max(…)"
            raise TaskFailedError(_fault("E367", message, probe, mend))
        return value

    def _read(self, leaf: NodeBlob | OutputRead) -> Value:
        if isinstance(leaf, NodeBlob):
            return self._session.read(leaf.node, (leaf.name,))[leaf.name]
        return self._outputs[OutputRef(leaf.task, leaf.node, leaf.output)]


def _reduce(parts: list[Any], reduce: str) -> Any:
    if reduce in _OF_INTEGERS and all(type(part) is int for part in parts):
        # numpy would limit them to 64 bits.
        return _OF_INTEGERS[reduce](parts)
    match reduce:
        case "max":
            return np.max(parts, axis=0)
        case "min":
            return np.min(parts, axis=0)
        case "mean":
            return np.mean(parts, axis=0)
        case "sum":
            return np.sum(parts, axis=0)
        case "any":
            return any(bool(part) for part in parts)
        case "all":
            return all(bool(part) for part in parts)
        case _:
            return parts[0]


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, ObjectFacts):
        return f"an object of class {value.class_name}"
    return f"{value!r}"


def _fault(code: Code, message: str, probe: Probe, mend: str = "") -> Fault:
    mend = mend or "see what its blobs hold: jobrun inspect-checkpoint RUN"
    return Fault(code, message, mend, probe.origin, probe.path)
