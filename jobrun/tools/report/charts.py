"""Draw a report's charts as SVG: curves of metrics and times of runs, and the timeline of a run.

The timeline shows epochs, saves, and the end of each process.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from jobrun.core.text.units import number, span
from jobrun.tools.report.html import Html, joined, tag, text
from jobrun.tools.report.report_data import RunReport
from jobrun.tools.report.run_history import KILLED, History, Invocation
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

# In pixels. A gap between two processes has one width, however long it was.
_HEIGHT, _TOP, _LEFT, _RIGHT, _BOTTOM, _GAP = 190, 26, 44, 14, 34, 22
_LEAST_WIDTH = 10
_MOST_INVOCATIONS = 60
# A shape for each kind of end, for readers who cannot distinguish the colours.
_ENDS = {
    "finished": ("M-5 0L-1.5 4 5-5", "good"),
    "stopped": ("M-4-4h8v8h-8z", "warn"),
    "interrupted": ("M-4-4h8v8h-8z", "warn"),
    "failed": ("M-5-5L5 5M5-5L-5 5", "bad"),
    KILLED: ("M1-6L-3 1h5L-1 7", "bad"),
    "running": ("M-4-5L5 0L-4 5z", "good"),
}


class Curve(Struct, frozen=True):
    """One run's values over its epochs; ``points`` may be thinned out of ``count``."""

    run: int
    points: tuple[Point, ...]
    count: int


class Chart(Struct, frozen=True):
    """The curves of one metric, of all runs that have it; ``own`` is False for times."""

    name: str
    curves: tuple[Curve, ...]
    is_metric: bool = True


class Charts(Struct, frozen=True):
    """All charts of a report, and the names of metrics that there was no room for."""

    charts: tuple[Chart, ...]
    left_out: tuple[str, ...] = ()


def build_charts(reports: Sequence[RunReport]) -> Charts:
    """Build a report's charts: of metrics, in the order they first occur, and then of times.

    A metric that is text has none; of a bool the curve is of 0 and 1.
    """
    names = list(dict.fromkeys(name for report in reports for name in report.status.metrics.names))
    curves_by_metric = [
        (name, [metric_points(report.status.metrics, name) for report in reports]) for name in names
    ]
    curves_by_metric = [
        (name, curves) for name, curves in curves_by_metric if any(map(len, curves))
    ]
    left_out = tuple(name for name, _ in curves_by_metric[MOST_CHARTS:])
    curves_by_metric = curves_by_metric[:MOST_CHARTS]
    times = [(name, curves) for name, curves in _times(reports) if any(map(len, curves))]
    drawn = sum(len(curves) for _, curves in (*curves_by_metric, *times))
    most = max(_LEAST_POINTS, MOST_POINTS // max(1, drawn))
    charts = [Chart(name, _curves(curves, most)) for name, curves in curves_by_metric]
    charts += [Chart(name, _curves(curves, most), is_metric=False) for name, curves in times]
    return Charts(tuple(charts), left_out)


def metric_points(metrics: Metrics, name: str) -> list[Point]:
    """List the points of a metric's curve for a chart of the report: epochs and values.

    NaN and infinity are included.

    An integer larger than any double is left out.
    """
    if name not in metrics.names:
        return []
    at = metrics.names.index(name)
    pairs = ((epoch, values[at]) for epoch, values in metrics.rows)
    return [
        (epoch, float(value))
        for epoch, value in pairs
        if isinstance(value, float) or (isinstance(value, int) and value.bit_length() < 1024)
    ]


def _times(reports: Sequence[RunReport]) -> Iterator[tuple[str, list[list[Point]]]]:
    # The last time counts where an epoch ran again.
    epochs = [{event.epoch: event.seconds for event in report.history.epochs} for report in reports]
    saves = [{event.epoch: event.seconds for event in report.history.saves} for report in reports]
    for name, reported in ((EPOCH_SECONDS, epochs), (SAVE_SECONDS, saves)):
        yield name, [sorted(seconds_by_epoch.items()) for seconds_by_epoch in reported]
    for name in _memory_columns(reports):
        process = name.removesuffix(_MEMORY)
        curves = [metric_points(report.resources, name) for report in reports]
        yield (
            f"memory of {process[:-1]}, MiB" if process else "memory, MiB",
            [[(epoch, value / (1 << 20)) for epoch, value in curve] for curve in curves],
        )


def _memory_columns(reports: Sequence[RunReport]) -> list[str]:
    names = dict.fromkeys(name for report in reports for name in report.resources.names)
    return [name for name in names if name.endswith(_MEMORY)][:_MOST_PROCESSES]


def _curves(points_by_run: Sequence[Sequence[Point]], most: int) -> tuple[Curve, ...]:
    return tuple(
        Curve(run, tuple(thin_points(points, most)), len(points))
        for run, points in enumerate(points_by_run)
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
    selected = [points[0]]
    for stretch in range(stretches):
        start = stretch * len(inner) // stretches
        end = (stretch + 1) * len(inner) // stretches
        selected += _extremes(inner[start:end])
    return [*selected, points[-1]]


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


def line_sample(run: int) -> Html:
    """Render a legend sample of the line style of one run in the report's charts, as SVG."""
    line = tag("path", d="M0 5H26", class_=f"s{run % 8} d{run % 4}")
    return tag("svg", line, class_="key", viewBox="0 0 26 10", aria_hidden="true")


def _key_button(run: int, name: str) -> Html:
    return tag(
        "button",
        line_sample(run),
        tag("span", name),
        type="button",
        data_run=run,
        aria_pressed="true",
    )


def _figure(at: int, chart: Chart, names: Sequence[str]) -> Html:
    summary = _summary(chart, names)
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
    caption = tag(
        "figcaption", tag("h3", chart.name), tag("span", summary, class_="summary"), tools
    )
    plot = tag(
        "div",
        class_="plot",
        tabindex="0",
        role="application",
        aria_roledescription="chart",
        aria_label=f"{chart.name}: {summary}",
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


class _Part(Struct, frozen=True):
    """The horizontal extent of one invocation on the timeline."""

    invocation: Invocation
    left_edge: float
    width: float

    def x(self, at: float) -> float:
        """Convert a time to an x coordinate, in one process's part of the timeline chart."""
        length = self.invocation.ended - self.invocation.started
        share = (at - self.invocation.started) / length if length > 0 else 0.0
        return self.left_edge + self.width * min(1.0, max(0.0, share))


def timeline(history: History, width: int, words: str) -> Html:
    """Draw the timeline of a run as an SVG picture of a given width in pixels.

    Args:
        history: What happened.
        width: Of the picture.
        words: What it shows, for those who do not see it.
    """
    parts = _parts(history.invocations[-_MOST_INVOCATIONS:], width)
    top = max(1, max((epoch.epoch for epoch in history.epochs), default=0))
    inside = [*_axes(width, top)]
    for part in parts:
        inside += _part(part, history, top)
    for before, after in pairwise(parts):
        inside += _gap(before, after)
    return tag(
        "svg",
        *inside,
        viewBox=f"0 0 {width} {_HEIGHT}",
        width=width,
        height=_HEIGHT,
        role="img",
        aria_label=words,
        class_="timeline",
    )


def legend() -> Html:
    """Render the legend of the timeline chart as HTML: what each of its marks means."""
    marks = [
        ("save", "M0-5V5", "a save"),
        ("again", "M0-5L5 4h-10z", "went on from an epoch"),
        ("pause", "M-2-6v12M2-6v12", "nothing ran"),
    ]
    outcomes = [(look, path, word) for word, (path, look) in _ENDS.items() if word != "interrupted"]
    items = (
        tag(
            "li",
            tag("svg", _mark(path, look, 8, 8), width=16, height=16, aria_hidden="true"),
            meaning,
        )
        for look, path, meaning in (*marks, *outcomes)
    )
    words = tag("li", "g1, g2 …: a later generation, begun by going back to an epoch")
    return tag("ul", *items, words, class_="marks")


def _parts(invocations: Sequence[Invocation], width: int) -> list[_Part]:
    room = width - _LEFT - _RIGHT - _GAP * max(0, len(invocations) - 1)
    lengths = [max(0.0, invocation.ended - invocation.started) for invocation in invocations]
    # Each has its least width; what remains is shared out by time.
    least = max(0.5, min(_LEAST_WIDTH, room / max(1, len(lengths))))
    spare, total = max(0.0, room - least * len(lengths)), sum(lengths) or 1.0
    parts = []
    x = float(_LEFT)
    for invocation, length in zip(invocations, lengths, strict=True):
        wide = least + spare * length / total
        parts.append(_Part(invocation, x, wide))
        x += wide + _GAP
    return parts


def _axes(width: int, top: int) -> Iterator[Html]:
    for epoch in sorted({0, top // 2, top}):
        y = _y(epoch, top)
        yield tag("path", d=f"M{_LEFT} {y:.1f}H{width - _RIGHT}", class_="grid")
        yield _label(str(epoch), _LEFT - 6, y + 4, "end")
    yield _label("epoch", _LEFT - 6, _TOP - 12, "end")


def _part(part: _Part, history: History, top: int) -> Iterator[Html]:
    invocation = part.invocation
    base, right = _HEIGHT - _BOTTOM, part.left_edge + part.width
    epochs = [
        epoch for epoch in history.epochs if invocation.started <= epoch.at <= invocation.ended
    ]
    points = [(part.left_edge, _y(max(0, invocation.before), top))]
    points += [(part.x(epoch.at), _y(epoch.epoch, top)) for epoch in epochs]
    steps = thin_points(points, max(8, int(part.width)))
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in [*steps, (right, steps[-1][1])])
    yield tag(
        "rect",
        x=f"{part.left_edge:.1f}",
        y=_TOP - 6,
        width=f"{part.width:.1f}",
        height=base - _TOP + 6,
        class_="span",
    )
    yield tag("path", d=f"M{line}", class_="line")
    saves = {
        round(part.x(save.at))
        for save in history.saves
        if invocation.started <= save.at <= invocation.ended
    }
    ticks = "".join(f"M{x} {base + 3}v7" for x in sorted(saves))
    if ticks:
        yield tag("path", d=ticks, class_="save")
    if invocation.before >= 0:
        words = f"went on from epoch {invocation.before}, generation {invocation.generation}"
        yield _mark("M0-5L5 4h-10z", "again", part.left_edge, points[0][1], words)
    path, look = _ENDS.get(invocation.outcome, _ENDS[KILLED])
    yield _mark(
        path, look, right, steps[-1][1], f"{invocation.outcome} {invocation.reason}".strip()
    )
    if part.width > 60:
        yield _label(
            span(invocation.ended - invocation.started),
            part.left_edge + part.width / 2,
            base + 26,
            "middle",
        )


def _gap(before: _Part, after: _Part) -> Iterator[Html]:
    """Draw on the report's timeline a gap between two processes, or a return to an older epoch."""
    middle = (before.left_edge + before.width + after.left_edge) / 2
    away = max(0.0, after.invocation.started - before.invocation.ended)
    words = f"nothing ran for {span(away)}"
    path = tag(
        "path",
        tag("title", words),
        class_="gap",
        d=f"M{middle - 2:.1f} {_TOP - 6}v{_HEIGHT - _BOTTOM - _TOP + 6}"
        f"M{middle + 2:.1f} {_TOP - 6}v{_HEIGHT - _BOTTOM - _TOP + 6}",
    )
    yield path
    if after.invocation.generation != before.invocation.generation:
        yield _label(f"g{after.invocation.generation}", after.left_edge, _TOP - 12, "start")


def _mark(path: str, look: str, x: float, y: float, words: str = "") -> Html:
    title = joined([tag("title", words)]) if words else Html("")
    translation = f"translate({x:.1f} {y:.1f})"
    return tag("g", title, tag("path", d=path), class_=f"mark {look}", transform=translation)


def _label(words: str, x: float, y: float, anchor: str) -> Html:
    return tag("text", text(words), x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def _y(epoch: int, top: int) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * epoch / top
