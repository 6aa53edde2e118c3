"""Metrics and times as curves."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from jobrun.tools.report import charts
from jobrun.tools.report.charts import build_charts, metric_points
from jobrun.tools.report.report_json import chart_values
from jobrun.tools.runs.metrics import Metrics
from tests.support.reports import a_report


def _measured(report, metrics):
    return replace(report, status=replace(report.status, metrics=metrics))


def test_several_runs_share_a_chart():
    one = a_report()
    found = build_charts([one, one])

    assert [chart.name for chart in found.charts] == [
        "halve.odd",
        "x",
        "seconds per epoch",
        "seconds per save",
        "memory, MiB",
    ]
    assert [curve.run for curve in found.charts[1].curves] == [0, 1]


def test_values_that_are_no_numbers_stay_in_their_place():
    metrics = Metrics(("a",), ((1, (1.0,)), (2, (math.nan,)), (3, ("text",)), (4, (True,))))

    assert [x for x, _ in metric_points(metrics, "a")] == [1, 2, 4]


def test_an_integer_beyond_all_doubles_is_left_out():
    assert metric_points(Metrics(("a",), ((1, (10**400,)),)), "a") == []


def test_a_text_has_no_chart():
    report = _measured(a_report(), Metrics(("a",), ((1, ("word",)),)))

    assert "a" not in [chart.name for chart in build_charts([report]).charts]


@pytest.mark.long
def test_the_points_of_a_page_are_bounded():
    names = tuple(f"m{number}" for number in range(100))
    rows = tuple((epoch, (0.5,) * 100) for epoch in range(10_000))
    report = _measured(a_report(), Metrics(names, rows))
    found = build_charts([report])

    drawn = sum(len(curve.points) for chart in found.charts for curve in chart.curves)
    assert drawn <= charts.MOST_POINTS
    assert len(found.left_out) == 100 - charts.MOST_CHARTS


def test_ten_thousand_epochs_of_one_metric_are_all_there():
    rows = tuple((epoch, (0.5,)) for epoch in range(10_000))
    report = _measured(a_report(), Metrics(("m",), rows))

    assert len(build_charts([report]).charts[0].curves[0].points) == 10_000


def test_json_has_no_nan():
    values = chart_values(build_charts([a_report()]))

    assert json.loads(json.dumps(values, allow_nan=False))[0]["curves"][0]["y"][1] == "nan"
