"""Metrics and times of runs as curves for the page's script, bounded in number. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jobrun.tools.report.data import RunReport
from jobrun.tools.report.thinning import Point, thinned
from jobrun.tools.runs.series import Metrics

# About 20 bytes each: all curves of a page together stay below 3 MB.
MOST_POINTS = 120_000
MOST_CHARTS = 60
_LEAST_POINTS = 400
EPOCH_SECONDS = "seconds per epoch"
SAVE_SECONDS = "seconds per save"


@dataclass(frozen=True, slots=True)
class Curve:
    """One run's values over its epochs; ``points`` may be thinned out of ``count``."""

    run: int
    points: tuple[Point, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Chart:
    """The curves of one metric, of all runs that have it; ``own`` is False for times."""

    name: str
    curves: tuple[Curve, ...]
    own: bool = True


@dataclass(frozen=True, slots=True)
class Charts:
    """All charts, and the names of metrics that there was no room for."""

    charts: tuple[Chart, ...]
    left_out: tuple[str, ...] = ()


def charts_of(reports: Sequence[RunReport]) -> Charts:
    """The charts of some runs, metrics first, in the order of their first value.

    A metric that is text has none; of a bool the curve is of 0 and 1.
    """
    names = list(dict.fromkeys(name for one in reports for name in one.status.metrics.names))
    found = [(name, [metric_points(one.status.metrics, name) for one in reports]) for name in names]
    found = [(name, curves) for name, curves in found if any(map(len, curves))]
    left_out = tuple(name for name, _ in found[MOST_CHARTS:])
    found = found[:MOST_CHARTS]
    times = [(name, curves) for name, curves in _times(reports) if any(map(len, curves))]
    drawn = sum(len(curves) for _, curves in (*found, *times))
    most = max(_LEAST_POINTS, MOST_POINTS // max(1, drawn))
    charts = [Chart(name, _curves(curves, most)) for name, curves in found]
    charts += [Chart(name, _curves(curves, most), own=False) for name, curves in times]
    return Charts(tuple(charts), left_out)


def metric_points(metrics: Metrics, name: str) -> list[Point]:
    """Epoch and value of a metric wherever it is a number, NaN and infinity among them.

    An integer larger than any double is left out.
    """
    if name not in metrics.names:
        return []
    at = metrics.names.index(name)
    found = ((epoch, values[at]) for epoch, values in metrics.rows)
    return [
        (epoch, float(value))
        for epoch, value in found
        if isinstance(value, float) or (isinstance(value, int) and value.bit_length() < 1024)
    ]


def chart_values(charts: Charts) -> list[dict[str, Any]]:
    """The charts as values for JSON: what is no number there is text."""
    return [
        {
            "name": chart.name,
            "own": chart.own,
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


def _times(reports: Sequence[RunReport]) -> Iterator[tuple[str, list[list[Point]]]]:
    # Of an epoch that was run again, the last time counts.
    epochs = [{one.epoch: one.seconds for one in report.history.epochs} for report in reports]
    saves = [{one.epoch: one.seconds for one in report.history.saves} for report in reports]
    for name, found in ((EPOCH_SECONDS, epochs), (SAVE_SECONDS, saves)):
        yield name, [sorted(one.items()) for one in found]


def _curves(found: Sequence[Sequence[Point]], most: int) -> tuple[Curve, ...]:
    return tuple(
        Curve(run, tuple(thinned(points, most)), len(points))
        for run, points in enumerate(found)
        if points
    )
