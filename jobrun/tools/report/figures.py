"""The frames that the page's script draws curves into, and what is told without it. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jobrun.core.quantities import number
from jobrun.tools.report.curves import Chart, Charts
from jobrun.tools.report.html import Html, joined, tag

_HELP = (
    "Point at a curve to see its values. Drag across to zoom, double-click to go back; after a "
    "click the wheel zooms, too. Keys: ← → move, + - zoom, 0 goes back, l switches to logarithms."
)


def chart_section(charts: Charts, names: Sequence[str]) -> Html:
    """A figure for each chart, with a legend where there are several runs."""
    if not charts.charts:
        return tag("p", "Nothing was measured; the spec's 'metrics' say what to measure.")
    parts = [tag("p", _HELP, class_="note help", id="chart-help")]
    if len(names) > 1:
        keys = (tag("li", _key_button(run, name)) for run, name in enumerate(names))
        parts.append(tag("ul", *keys, class_="legend", aria_label="runs: press to hide or show"))
    if len(charts.charts) > 1:
        box = tag("input", type="checkbox", id="together")
        parts.append(tag("label", box, "zoom all charts together", class_="together"))
    told = "The curves are drawn by a script, which does not run here; the numbers are below them."
    parts.append(tag("noscript", tag("p", told)))
    figures = (_figure(at, chart, names) for at, chart in enumerate(charts.charts))
    parts.append(tag("div", *figures, class_="charts"))
    if charts.left_out:
        names_left = ", ".join(charts.left_out[:50])
        words = f"No room for {len(charts.left_out)} more metrics: {names_left}"
        parts.append(tag("p", words, class_="note why"))
    return joined(parts)


def key(run: int) -> Html:
    """The line by which a run is known in all charts."""
    line = tag("path", d="M0 5H26", class_=f"s{run % 8} d{run % 4}")
    return tag("svg", line, class_="key", viewBox="0 0 26 10", aria_hidden="true")


def _key_button(run: int, name: str) -> Html:
    return tag(
        "button", key(run), tag("span", name), type="button", data_run=run, aria_pressed="true"
    )  # fmt: skip


def _figure(at: int, chart: Chart, names: Sequence[str]) -> Html:
    said = _summary(chart, names)
    tools = tag(
        "span",
        tag("button", "log", type="button", class_="log", aria_pressed="false",
            aria_label=f"logarithmic scale of {chart.name}"),
        tag("button", "reset", type="button", class_="reset", disabled=True,
            aria_label=f"show all of {chart.name}"),
        class_="tools",
    )  # fmt: skip
    caption = tag("figcaption", tag("h3", chart.name), tag("span", said, class_="summary"), tools)
    plot = tag(
        "div", class_="plot", tabindex="0", role="application", aria_roledescription="chart",
        aria_label=f"{chart.name}: {said}", aria_describedby="chart-help",
    )  # fmt: skip
    readout = tag("output", class_="readout unseen", aria_live="polite")
    return tag("figure", caption, plot, readout, class_="chart", data_chart=at)


def _summary(chart: Chart, names: Sequence[str]) -> str:
    """Where the only curve ends and lies; of several, how many there are."""
    if len(names) > 1:
        return f"{len(chart.curves)} of {len(names)} runs"
    curve = chart.curves[0]
    finite = [y for _, y in curve.points if math.isfinite(y)]
    words = f"last {number(curve.points[-1][1])}"
    if finite:
        words += f", min {number(min(finite))}, max {number(max(finite))}"
    thinned = len(curve.points) < curve.count
    return words + (f"; {len(curve.points)} of {curve.count} values are drawn" if thinned else "")
