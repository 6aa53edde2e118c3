"""The frames of the curves, and what is told without a script."""

from __future__ import annotations

from jobrun.tools.report.charts import Chart, Charts, Curve, chart_section

ONE = Chart("loss", (Curve(0, ((1, 4.0), (2, 1.0)), 2),))


def test_a_chart_tells_its_numbers_without_a_script():
    found = chart_section(Charts((ONE,)), ["a"])

    assert 'aria-label="loss: last 1, min 1, max 4"' in found
    assert "legend" not in found


def test_thinned_curves_say_so():
    chart = Chart("loss", (Curve(0, ((1, 4.0), (9, 1.0)), 9),))

    assert "2 of 9 values are drawn" in chart_section(Charts((chart,)), ["a"])


def test_several_runs_have_a_legend_of_buttons():
    found = chart_section(Charts((ONE,)), ["a", "<b>"])

    assert found.count("data-run=") == 2
    assert "&lt;b&gt;" in found


def test_metrics_without_room_are_named():
    assert "No room for 1 more metrics: other" in chart_section(Charts((ONE,), ("other",)), ["a"])


def test_a_run_that_measured_nothing_says_what_to_do():
    assert "the spec&#x27;s &#x27;metrics&#x27;" in chart_section(Charts(()), ["a"])
