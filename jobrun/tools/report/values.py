"""What a report shows, as values for JSON. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from jobrun.tools.inspection import dtype_name
from jobrun.tools.report.blobs import Drawn
from jobrun.tools.report.curves import chart_values, charts_of
from jobrun.tools.report.data import RunReport
from jobrun.tools.report.sections import environment


def report_values(reports: Sequence[RunReport]) -> dict[str, Any]:
    """The runs, and the curves of their metrics and times; ``run`` of a curve counts from 0."""
    charts = charts_of(reports)
    return {
        "runs": [_run(one) for one in reports],
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
        "expectations": [asdict(one) for one in report.expectations],
        "params": {name: _plain(value) for name, value in params},
        "environment": environment(report),
        "history": asdict(report.history),
        "profile": dict(report.profile),
        "checkpoint_epochs": list(stored.epochs),
        "checkpoint_pinned": list(stored.pinned),
        "checkpoint_fault": stored.fault,
        "checkpoint_epoch": -1 if newest is None else newest.epoch,
        "blobs": [_blob(one) for one in stored.blobs],
        "parents": [asdict(one) for one in report.ancestors],
        "forks": [asdict(one) for one in report.children],
        "spec": report.spec,
        "next": list(report.following),
        "faults": list(report.faults),
    }


def _blob(one: Drawn) -> dict[str, Any]:
    facts = one.facts
    return {
        "node": one.node,
        "name": facts.name,
        "kind": facts.kind,
        "dtype": dtype_name(facts.dtype),
        "shape": list(facts.shape),
        "size_bytes": facts.size_bytes,
        "min": facts.minimum,
        "mean": facts.mean,
        "max": facts.maximum,
        "nan": facts.nans,
        "histogram": None if one.histogram is None else asdict(one.histogram),
    }


def _plain(value: Any) -> Any:
    """A param's value; what JSON has no form for as text."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, bool | int | float | str | None) else str(value)
