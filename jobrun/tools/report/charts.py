"""Build a report's charts: curves of metrics and times of runs, and the figures that show them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from jobrun.core.lazy_dataclass import dataclass
from jobrun.core.text.units import number
from jobrun.tools.report.html import Html, joined, tag
from jobrun.tools.report.report_data import RunReport
from jobrun.tools.runs.metrics import Metrics

# About 20 bytes each: all curves of a page together stay below 3 MB.
MOST_POINTS = 120_000
MOST_CHARTS = 60
_LEAST_POINTS = 400
# Each process has a chart of its own.
_MEMORY, _MOST_PROCESSES = "resident_bytes", 8
EPOCH_SECONDS = "seconds per epoch"
SAVE_SECONDS = "seconds per save"


_HELP = (
    "Point at a curve to see its values. Drag across to zoom, double-click to go back; after a "
    "click the wheel zooms, too. Keys: ← → move, + - zoom, 0 goes back, l switches to logarithms."
)


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
    """All charts of a report, and the names of metrics that there was no room for."""

    charts: tuple[Chart, ...]
    left_out: tuple[str, ...] = ()


def build_charts(reports: Sequence[RunReport]) -> Charts:
    """Build a report's charts: of metrics, in the order they first occur, and then of times.

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
    """List the points of a metric's curve for a chart of the report, by epoch.

    NaN and infinity are included.

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


def _times(reports: Sequence[RunReport]) -> Iterator[tuple[str, list[list[Point]]]]:
    # Of an epoch that was run again, the last time counts.
    epochs = [{one.epoch: one.seconds for one in report.history.epochs} for report in reports]
    saves = [{one.epoch: one.seconds for one in report.history.saves} for report in reports]
    for name, found in ((EPOCH_SECONDS, epochs), (SAVE_SECONDS, saves)):
        yield name, [sorted(one.items()) for one in found]
    for name in _memory_columns(reports):
        process = name.removesuffix(_MEMORY)
        points = [metric_points(one.resources, name) for one in reports]
        yield (
            f"memory of {process[:-1]}, MiB" if process else "memory, MiB",
            [[(epoch, value / (1 << 20)) for epoch, value in one] for one in points],
        )


def _memory_columns(reports: Sequence[RunReport]) -> list[str]:
    names = dict.fromkeys(name for one in reports for name in one.resources.names)
    return [name for name in names if name.endswith(_MEMORY)][:_MOST_PROCESSES]


def _curves(found: Sequence[Sequence[Point]], most: int) -> tuple[Curve, ...]:
    return tuple(
        Curve(run, tuple(thin_points(points, most)), len(points))
        for run, points in enumerate(found)
        if points
    )


Point = tuple[int | float, float]


def thin_points(points: Sequence[Point], most: int) -> list[Point]:
    """Select at most ``most`` points of a chart's curve, including the first and the last.

    Of each stretch of the curve its least, its greatest and one value that is no number are
    kept, so that no peak and no NaN disappears.

    Args:
        points: x ascending.
        most: At least 8.
    """
    if len(points) <= most:
        return list(points)
    inner = points[1:-1]
    stretches = (most - 2) // 3
    kept = [points[0]]
    for stretch in range(stretches):
        start = stretch * len(inner) // stretches
        end = (stretch + 1) * len(inner) // stretches
        kept += _extremes(inner[start:end])
    return [*kept, points[-1]]


def _extremes(stretch: Sequence[Point]) -> list[Point]:
    numbers = [at for at, (_, y) in enumerate(stretch) if math.isfinite(y)]
    others = [at for at, (_, y) in enumerate(stretch) if not math.isfinite(y)]
    wanted = set(others[:1])
    if numbers:
        wanted.add(min(numbers, key=lambda at: stretch[at][1]))
        wanted.add(max(numbers, key=lambda at: stretch[at][1]))
    return [stretch[at] for at in sorted(wanted)]


def chart_section(charts: Charts, names: Sequence[str]) -> Html:
    """Render the charts of a report as HTML: a figure for each, and a legend of compared runs."""
    if not charts.charts:
        return tag("p", "Nothing was measured; the spec's 'metrics' say what to measure.")
    parts = [tag("p", _HELP, class_="note help", id="chart-help")]
    if len(names) > 1:
        keys = (tag("li", _key_button(run, name)) for run, name in enumerate(names))
        parts.append(tag("ul", *keys, class_="legend", aria_label="runs: press to hide or show"))
    if len(charts.charts) > 1:
        box = tag("input", type="checkbox", id="together")
        parts.append(tag("label", box, "zoom all charts together", class_="together"))
    hint = "The curves are drawn by a script, which does not run here; the numbers are below them."
    parts.append(tag("noscript", tag("p", hint)))
    figures = (_figure(at, chart, names) for at, chart in enumerate(charts.charts))
    parts.append(tag("div", *figures, class_="charts"))
    if charts.left_out:
        names_left = ", ".join(charts.left_out[:50])
        words = f"No room for {len(charts.left_out)} more metrics: {names_left}"
        parts.append(tag("p", words, class_="note why"))
    return joined(parts)


def key(run: int) -> Html:
    """Render a legend sample of the line style of one run in the report's charts, as SVG."""
    line = tag("path", d="M0 5H26", class_=f"s{run % 8} d{run % 4}")
    return tag("svg", line, class_="key", viewBox="0 0 26 10", aria_hidden="true")


def _key_button(run: int, name: str) -> Html:
    return tag(
        "button", key(run), tag("span", name), type="button", data_run=run, aria_pressed="true"
    )


def _figure(at: int, chart: Chart, names: Sequence[str]) -> Html:
    said = _summary(chart, names)
    tools = tag(
        "span",
        tag(
            "button",
            "log",
            type="button",
            class_="log",
            aria_pressed="false",
            aria_label=f"logarithmic scale of {chart.name}",
        ),
        tag(
            "button",
            "reset",
            type="button",
            class_="reset",
            disabled=True,
            aria_label=f"show all of {chart.name}",
        ),
        class_="tools",
    )
    caption = tag("figcaption", tag("h3", chart.name), tag("span", said, class_="summary"), tools)
    plot = tag(
        "div",
        class_="plot",
        tabindex="0",
        role="application",
        aria_roledescription="chart",
        aria_label=f"{chart.name}: {said}",
        aria_describedby="chart-help",
    )
    readout = tag("output", class_="readout unseen", aria_live="polite")
    return tag("figure", caption, plot, readout, class_="chart", data_chart=at)


def _summary(chart: Chart, names: Sequence[str]) -> str:
    """Describe a chart in words: one curve by its range and end, several by their number."""
    if len(names) > 1:
        return f"{len(chart.curves)} of {len(names)} runs"
    curve = chart.curves[0]
    finite = [y for _, y in curve.points if math.isfinite(y)]
    words = f"last {number(curve.points[-1][1])}"
    if finite:
        words += f", min {number(min(finite))}, max {number(max(finite))}"
    thinned = len(curve.points) < curve.count
    return words + (f"; {len(curve.points)} of {curve.count} values are drawn" if thinned else "")
