"""Metrics and times as curves."""

from __future__ import annotations

import json
import math
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from jobrun.tools.report import charts
from jobrun.tools.report.charts import (
    Chart,
    Charts,
    Curve,
    build_charts,
    chart_section,
    legend,
    metric_points,
    thin_points,
    timeline,
)
from jobrun.tools.report.report_json import chart_values
from jobrun.tools.report.run_history import Epoch, History, Invocation, Saved
from jobrun.tools.runs.metrics import Metrics
from tests.support.reports import a_report


def _measured(report, metrics):
    return replace(report, status=replace(report.status, metrics=metrics))


def test_several_runs_share_a_chart():
    report = a_report()
    built = build_charts([report, report])

    assert [chart.name for chart in built.charts] == [
        "halve.odd",
        "x",
        "seconds per epoch",
        "seconds per save",
        "memory, MiB",
    ]
    assert [curve.run for curve in built.charts[1].curves] == [0, 1]


def test_values_that_are_no_numbers_stay_in_their_place():
    metrics = Metrics(("a",), ((1, (1.0,)), (2, (math.nan,)), (3, ("text",)), (4, (True,))))

    assert [x for x, _ in metric_points(metrics, "a")] == [1, 2, 4]


def test_an_integer_beyond_all_doubles_is_left_out():
    assert metric_points(Metrics(("a",), ((1, (10**400,)),)), "a") == []


def test_a_text_has_no_chart():
    def chart_names(value):
        report = _measured(a_report(), Metrics(("a",), ((1, (value,)),)))
        return [chart.name for chart in build_charts([report]).charts]

    assert [name for name in chart_names(1.5) if name not in chart_names("word")] == ["a"]


@pytest.mark.long
def test_the_points_of_a_page_are_bounded():
    names = tuple(f"m{number}" for number in range(100))
    rows = tuple((epoch, (0.5,) * 100) for epoch in range(10_000))
    report = _measured(a_report(), Metrics(names, rows))
    built = build_charts([report])

    drawn = sum(len(curve.points) for chart in built.charts for curve in chart.curves)
    assert drawn <= charts.MOST_POINTS
    assert len(built.left_out) == 100 - charts.MOST_CHARTS


def test_ten_thousand_epochs_of_one_metric_are_all_there():
    rows = tuple((epoch, (0.5,)) for epoch in range(10_000))
    report = _measured(a_report(), Metrics(("m",), rows))

    assert len(build_charts([report]).charts[0].curves[0].points) == 10_000


def test_json_has_no_nan():
    values = chart_values(build_charts([a_report()]))

    assert json.loads(json.dumps(values, allow_nan=False))[0]["curves"][0]["y"][1] == "nan"


ONE = Chart("loss", (Curve(0, ((1, 4.0), (2, 1.0)), 2),))


def test_a_chart_shows_its_numbers_without_a_script():
    section = chart_section(Charts((ONE,)), ["a"])

    assert 'aria-label="loss: last 1, min 1, max 4"' in section
    assert "legend" not in section


def test_thinned_curves_say_so():
    chart = Chart("loss", (Curve(0, ((1, 4.0), (9, 1.0)), 9),))

    assert "2 of 9 values are drawn" in chart_section(Charts((chart,)), ["a"])


def test_several_runs_have_a_legend_of_buttons():
    section = chart_section(Charts((ONE,)), ["a", "<b>"])

    assert section.count("data-run=") == 2
    assert "&lt;b&gt;" in section


def test_metrics_without_room_are_named():
    assert "No room for 1 more metrics: other" in chart_section(Charts((ONE,), ("other",)), ["a"])


def test_a_run_that_measured_nothing_says_what_to_do():
    assert "the spec&#x27;s &#x27;metrics&#x27;" in chart_section(Charts(()), ["a"])


CURVE = [(x, math.sin(x / 50)) for x in range(10_000)]


def test_a_short_curve_stays_as_it_is():
    assert thin_points(CURVE[:20], 20) == CURVE[:20]


def test_a_long_one_keeps_its_ends_and_no_more_than_was_asked_for():
    points = thin_points(CURVE, 300)

    assert (points[0], points[-1]) == (CURVE[0], CURVE[-1])
    assert len(points) <= 300
    assert points == sorted(points)


def test_no_peak_is_lost():
    curve = [*CURVE[:7000], (7000, 99.0), *CURVE[7001:8000], (8000, -99.0), *CURVE[8001:]]
    points = thin_points(curve, 100)

    assert (7000, 99.0) in points
    assert (8000, -99.0) in points


def test_a_value_that_is_no_number_is_not_lost():
    curve = [*CURVE[:500], (500, math.nan), *CURVE[501:]]

    assert 500 in [x for x, _ in thin_points(curve, 50)]


TWO = History(
    (
        Invocation(0.0, 10.0, -1, 5, 0, "killed"),
        Invocation(100.0, 110.0, 3, 8, 1, "finished", "</svg><script>"),
    ),
    tuple(Epoch(number, 2.0 * number, 1.0, 0) for number in range(1, 6)),
    (Saved(1, 2.0, 10, 0.1), Saved(2, 4.0, 10, 0.1)),
)


def _titles(history, width=900):
    root = ElementTree.fromstring(timeline(history, width, "words"))
    return [title.text for title in root.iter("title")]


def test_ends_gaps_and_new_starts_are_marked():
    assert _titles(TWO) == [
        "killed",
        "went on from epoch 3, generation 1",
        "finished </svg><script>",
        "nothing ran for 1 m 30 s",
    ]


def test_it_is_well_formed_with_very_many_processes_on_a_narrow_screen():
    many = History(tuple(Invocation(9.0 * n, 9.0 * n + 1, n, n, 0) for n in range(500)))
    root = ElementTree.fromstring(timeline(many, 340, "words"))
    spans = [rectangle for rectangle in root.iter("rect") if rectangle.get("class") == "span"]

    assert len(spans) == 60


def test_a_long_run_has_no_more_points_than_pixels():
    epochs = tuple(Epoch(n, n / 1000, 0.001, 0) for n in range(10_000))
    long = History((Invocation(0.0, 10.0, -1, 9999, 0),), epochs)

    assert len(timeline(long, 900, "words")) < 30_000


def test_a_run_that_did_nothing_is_drawn():
    assert _titles(History((Invocation(5.0, 5.0, -1, -1, 0, "failed", "why"),))) == ["failed why"]


def test_the_legend_names_each_mark():
    for word in ("a save", "finished", "failed", "killed"):
        assert word in legend()
