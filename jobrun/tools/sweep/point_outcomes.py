"""Read the status and metrics of a sweep's points from their runs, and rank the points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from jobrun.core.errors import ExpectationError, UsageError
from jobrun.core.text.names import did_you_mean
from jobrun.core.text.terminal_text import csv_text
from jobrun.runner.rundir.lock import is_live
from jobrun.runner.rundir.run_directories import Run, newest_run
from jobrun.runner.rundir.run_json import KILLED
from jobrun.tools.runs.metrics import Number, read_last_metrics
from jobrun.tools.sweep.point_changes import PointComparer
from jobrun.tools.sweep.process_pool import PointEnded
from jobrun.tools.sweep.sweep_design import PlannedPoint

NOT_STARTED, UNEXPECTED = "not started", "unexpected"
# Those that have nothing left to do.
OVER = ("finished", UNEXPECTED)
_STATES = {0: "finished", ExpectationError.exit_code: UNEXPECTED, 75: "stopped", 130: "interrupted"}


class Outcome(Struct, frozen=True):
    """The outcome of one point of a sweep: status and metrics.

    Attributes:
        point: The point.
        state: As ``run.json`` says; ``not started`` without a run, ``killed`` when it says that it
            runs but no process holds its lock, ``unexpected`` when it has finished and an
            ``expect`` does not hold.
        run: The path of its newest run; None without one.
        epoch: The newest that was acknowledged when its record was written; -1 for none.
        metrics: The last value of each.
        outdated: What has changed since it finished, in words: code, data, versions, spec.
    """

    point: PlannedPoint
    state: str
    run: Path | None = None
    epoch: int = -1
    exit_code: int | None = None
    reason: str = ""
    metrics: Mapping[str, Number] = field(default_factory=dict)
    outdated: tuple[str, ...] = ()


def read_outcome(
    point: PlannedPoint, run_dir: Path, comparer: PointComparer | None = None
) -> Outcome:
    """Read the outcome of a sweep's point from the files of its run.

    Args:
        point: The point.
        run_dir: Where runs live.
        comparer: Finds what has changed since it finished; None to leave that out.
    """
    run = newest_run(run_dir, point.job, point.inputs)
    if run is None:
        return Outcome(point, NOT_STARTED)
    record, state = run.record, _state(run)
    return Outcome(
        point,
        state,
        run.path,
        record.epoch,
        record.exit_code,
        record.reason,
        read_last_metrics(run.path),
        comparer.list_outdated(point, run) if comparer and state in OVER else (),
    )


def apply_attempt(outcome: Outcome, attempt: PointEnded) -> Outcome:
    """Return the outcome of a point that a sweep has just run: what this attempt came to.

    Files say how an earlier one ended where this one was refused or could not start.
    """
    code = attempt.exit_code
    state = _STATES.get(code, KILLED if code < 0 else "failed")
    if state in OVER and state == outcome.state:
        return outcome
    first = attempt.faults[0] if attempt.faults else {}
    if first:
        reason = (
            f"[{first['code']}] {': '.join(filter(None, (first.get('path'), first['message'])))}"
        )
    elif attempt.started:
        reason = outcome.reason
    else:
        reason = attempt.last_lines[-1] if attempt.last_lines else f"exit code {code}"
    # The metrics of an earlier attempt are no result of this one.
    metrics = outcome.metrics if attempt.started else {}
    return replace(
        outcome, state=state, exit_code=code, reason=reason, metrics=metrics, outdated=()
    )


def is_over(point: PlannedPoint, run_dir: Path, epochs: int = 0) -> bool:
    """Return whether a point's outcome is final: its newest run finished, settings unchanged.

    Args:
        point: The point.
        run_dir: Where runs live.
        epochs: The limit that runs are given now; 0 for none.
    """
    run = newest_run(run_dir, point.job, point.inputs)
    if run is None or run.record.status != "finished":
        return False
    # As 'run --resume auto' sees it: no limit means the one that it had.
    return run.record.spec_digest == point.digest and epochs in (0, run.record.limit_epochs)


def _state(run: Run) -> str:
    if is_live(run.path):
        return "running"
    record = run.record
    if record.status == "running":
        return KILLED
    if record.status == "finished" and record.exit_code == ExpectationError.exit_code:
        return UNEXPECTED
    return record.status


class Objective(Struct, frozen=True):
    """The metric that ranks points, and its direction; an empty one ranks nothing."""

    metric: str
    mode: Literal["min", "max"] = "min"


def parse_objective(text: str, known: Sequence[str], default: tuple[str, str]) -> Objective:
    """Parse the objective by which outcomes of points are ranked: a metric, or ``max:metric``.

    Args:
        text: A metric, or ``max:metric``; empty for the default.
        known: The metrics of the job.
        default: The metric and the mode that the spec itself suggests.

    Raises:
        UsageError: E424, there is no such metric.
    """
    if not text:
        return Objective(default[0], "max" if default[1] == "max" else "min")
    mode, colon, name = text.partition(":")
    if not colon or mode not in ("min", "max"):
        mode, name = "", text
    if name not in known:
        mend = did_you_mean(name, known) if known else "the spec's 'metrics' say what to measure"
        raise UsageError.of("E424", f"the job has no metric '{name}'", mend)
    if not mode:
        mode = default[1] if name == default[0] else "min"
    return Objective(name, "max" if mode == "max" else "min")


def score(outcome: Outcome, aim: Objective) -> float | None:
    """Return the value by which a point's outcome is ranked; None if it is not finite."""
    value = outcome.metrics.get(aim.metric)
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def rank_outcomes(outcomes: Sequence[Outcome], aim: Objective) -> list[Outcome]:
    """Rank the finished points that have a score, best first; ties keep their order."""
    sign = -1 if aim.mode == "max" else 1
    scored = [(score(outcome, aim), outcome) for outcome in outcomes if outcome.state in OVER]
    keyed = [(sign * value, outcome) for value, outcome in scored if value is not None]
    return [outcome for _, outcome in sorted(keyed, key=lambda pair: pair[0])]


def outcome_values(outcome: Outcome) -> dict[str, Any]:
    """Convert the outcome of one point of a sweep to JSON values."""
    return {
        "values": dict(outcome.point.values),
        "job": outcome.point.job,
        "run": str(outcome.run) if outcome.run else None,
        "state": outcome.state,
        "epoch": outcome.epoch,
        "exit_code": outcome.exit_code,
        "reason": outcome.reason,
        "metrics": dict(outcome.metrics),
        "outdated": list(outcome.outdated),
    }


def outcomes_csv(outcomes: Sequence[Outcome]) -> str:
    """Render the outcomes of a sweep's points as CSV text, a line each, with all digits."""
    axes = list(outcomes[0].point.values) if outcomes else []
    metrics = list(dict.fromkeys(name for outcome in outcomes for name in outcome.metrics))
    rows: list[list[object]] = [[*axes, "state", "epoch", *metrics, "outdated", "run"]]
    for outcome in outcomes:
        values = [outcome.point.values[axis] for axis in axes]
        measured = [outcome.metrics.get(name, "") for name in metrics]
        epoch = outcome.epoch if outcome.epoch >= 0 else ""
        run = f"{outcome.point.job}/{outcome.run.name}" if outcome.run else ""
        rows.append([*values, outcome.state, epoch, *measured, "; ".join(outcome.outdated), run])
    return csv_text(rows)
