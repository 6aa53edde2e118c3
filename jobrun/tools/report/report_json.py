"""Convert a report to JSON values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from msgspec import to_builtins

from jobrun.tools.inspection import dtype_name
from jobrun.tools.report.blob_pictures import DrawnBlob
from jobrun.tools.report.charts import Charts, build_charts
from jobrun.tools.report.report_data import RunReport
from jobrun.tools.report.sections import environment
from jobrun.tools.runs.recorded_usage import usage_values


def report_values(reports: Sequence[RunReport]) -> dict[str, Any]:
    """Convert reported runs and their curves to JSON values; runs are counted from 0."""
    charts = build_charts(reports)
    return {
        "runs": [_run(report) for report in reports],
        "charts": chart_values(charts),
        "metrics_left_out": list(charts.left_out),
    }


def _run(report: RunReport) -> dict[str, Any]:
    record, status, stored = report.run.record, report.status, report.stored
    newest = stored.newest
    params = report.job.params if report.job else ()
    return {
        "run": str(report.run.path),
        "name": report.run.name,
        "run_id": record.run_id,
        "job": record.job,
        "created": record.created,
        "status": status.status,
        "reason": record.reason,
        "exit_code": record.exit_code,
        "generation": record.generation,
        "epoch": status.epoch,
        "saved_epoch": status.saved,
        "total_epochs": status.total_epochs,
        "tags": list(status.tags),
        "metrics_last": report.metrics_last,
        "expectations": [to_builtins(expectation) for expectation in report.expectations],
        "params": {name: _plain(value) for name, value in params},
        "environment": environment(report),
        "history": to_builtins(report.history),
        "profile": dict(report.profile),
        **usage_values(status.usage),
        "checkpoint_epochs": list(stored.epochs),
        "checkpoint_pinned": list(stored.pinned),
        "checkpoint_fault": stored.fault,
        "checkpoint_epoch": -1 if newest is None else newest.epoch,
        "blobs": [_blob(blob) for blob in stored.blobs],
        "parents": [to_builtins(link) for link in report.ancestors],
        "forks": [to_builtins(link) for link in report.children],
        "spec": report.spec,
        "next": list(report.following),
        "faults": list(report.faults),
        "outdated": list(report.outdated),
    }


def _blob(drawn: DrawnBlob) -> dict[str, Any]:
    facts = drawn.facts
    return {
        "node": drawn.node,
        "name": facts.name,
        "kind": facts.kind,
        "dtype": dtype_name(facts.dtype),
        "shape": list(facts.shape),
        "size_bytes": facts.size_bytes,
        "min": facts.minimum,
        "mean": facts.mean,
        "max": facts.maximum,
        "nan": facts.nans,
        "histogram": None if drawn.histogram is None else to_builtins(drawn.histogram),
    }


def _plain(value: Any) -> Any:
    """Convert a param's value for the JSON of a report; to text where JSON cannot hold it."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def chart_values(charts: Charts) -> list[dict[str, Any]]:
    """Convert a report's charts to JSON values; NaN and infinity become text."""
    return [
        {
            "name": chart.name,
            "own": chart.is_metric,
            "curves": [
                {
                    "run": curve.run,
                    "count": curve.count,
                    "x": [x for x, _ in curve.points],
                    "y": [y if math.isfinite(y) else str(y) for _, y in curve.points],
                }
                for curve in chart.curves
            ],
        }
        for chart in charts.charts
    ]
