"""Send the metrics of a live run to MLflow (extra ``jobrun[mlflow]``).

The server and the experiment are those of MLflow's own variables, ``MLFLOW_TRACKING_URI`` and
``MLFLOW_EXPERIMENT_NAME`` (else the job's name). A run of jobrun is one run of MLflow, found again
by its tag ``jobrun.run_id``. MLflow cannot take a point back: where it holds points that the run
has not (a process was killed after it had sent them), the MLflow run is moved to the trash, and a
new one is made with the whole history.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from jobrun.core.text.patterns import lazy_pattern
from jobrun.runner.listeners.listener import EpochMetrics, ListenedRun, Outcome, to_float

TAG = "jobrun.run_id"
_STATUS = {"finished": "FINISHED", "failed": "FAILED", "stopped": "KILLED", "interrupted": "KILLED"}
# Limits of MLflow for requests and texts.
_MOST_METRICS, _MOST_PARAMS, _MOST_TEXT = 1000, 100, 5000
_NOT_ALLOWED = lazy_pattern(r"[^\w\-. :/]")
_NAN, _LARGEST = float("nan"), 1.7976931348623157e308
_Point = tuple[str, int, float]


class MlflowListener:
    """Logs a run's metrics to an MLflow run of its own; the last value of a text as a tag."""

    def __init__(self) -> None:
        self._entities = import_module("mlflow.entities")
        self._client: Any = import_module("mlflow.tracking").MlflowClient()
        self._run = ""

    def begin(self, run: ListenedRun, history: Sequence[EpochMetrics]) -> None:
        """Add the metrics that the run in MLflow lacks; replace the run if any differ."""
        experiment = self._experiment(run)
        listed_runs = self._client.search_runs([experiment], f"tags.`{TAG}` = '{run.run_id}'")
        known = {point: at for metrics in history for point, at in _points(metrics)}
        self._run = ""
        for listed_run in listed_runs:
            there = self._points_of(listed_run)
            is_part = all(point in known and count == 1 for point, count in there.items())
            if is_part and not self._run:
                self._run = listed_run.info.run_id
                self._client.update_run(self._run, status="RUNNING")
                known = {point: at for point, at in known.items() if point not in there}
            else:
                self._client.delete_run(listed_run.info.run_id)
        if not self._run:
            self._run = self._create(experiment, run)
        self._log(list(known.items()))
        for metrics in history[-1:]:
            self._log_texts(metrics)

    def record(self, metrics: EpochMetrics) -> None:
        """Log the metrics of an epoch to the MLflow run."""
        self._log(_points(metrics))
        self._log_texts(metrics)

    def end(self, outcome: Outcome) -> None:
        """Set the status of the MLflow run at its end."""
        self._client.set_terminated(self._run, _STATUS[outcome])

    def _experiment(self, run: ListenedRun) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or run.job
        experiment = self._client.get_experiment_by_name(name)
        experiment_id: str = (
            experiment.experiment_id if experiment else self._client.create_experiment(name)
        )
        return experiment_id

    def _create(self, experiment: str, run: ListenedRun) -> str:
        tags = {TAG: run.run_id, "jobrun.directory": str(run.directory)}
        created = self._client.create_run(experiment, tags=tags, run_name=run.name)
        params = [
            self._entities.Param(_plain(name), str(value)[:_MOST_TEXT])
            for name, value in run.params.items()
        ]
        for first in range(0, len(params), _MOST_PARAMS):
            self._client.log_batch(created.info.run_id, params=params[first : first + _MOST_PARAMS])
        run_id: str = created.info.run_id
        return run_id

    def _points_of(self, listed_run: Any) -> Counter[_Point]:
        return Counter(
            (name, point.step, _kept(point.value))
            for name in listed_run.data.metrics
            for point in self._client.get_metric_history(listed_run.info.run_id, name)
        )

    def _log(self, points: Sequence[tuple[_Point, int]]) -> None:
        metrics = [
            self._entities.Metric(name, value, at, step) for (name, step, value), at in points
        ]
        for first in range(0, len(metrics), _MOST_METRICS):
            self._client.log_batch(self._run, metrics=metrics[first : first + _MOST_METRICS])

    def _log_texts(self, metrics: EpochMetrics) -> None:
        for name, value in metrics.values.items():
            if isinstance(value, str):
                self._client.set_tag(self._run, _plain(name), value[:_MOST_TEXT])


def _points(metrics: EpochMetrics) -> list[tuple[_Point, int]]:
    """Convert an epoch's metrics to points for MLflow, each with its time in ms."""
    at = round(metrics.at.timestamp() * 1000)
    numbers = ((name, to_float(value)) for name, value in metrics.values.items())
    return [((_plain(name), metrics.epoch, _kept(x)), at) for name, x in numbers if x is not None]


def _kept(value: float) -> float:
    """Replace infinity by the largest number, which every store of MLflow returns unchanged."""
    # A single object, because one NaN does not equal another.
    return _NAN if math.isnan(value) else max(-_LARGEST, min(value, _LARGEST))


def _plain(name: str) -> str:
    """Replace the characters of a metric's name that MLflow refuses."""
    return _NOT_ALLOWED.sub("_", name)
