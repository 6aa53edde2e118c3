"""Render runs and their metrics as HTML for notebooks, without scripts or style sheets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from jobrun.core.text.units import number
from jobrun.tools.report.html import Html, joined, table, tag
from jobrun.tools.runs.metrics import Metrics, Number
from jobrun.tools.runs.summarise_runs import RunSummary

_MOST_RUNS = 50
_MOST_EPOCHS = 20
# Of a curve beside its metric's name, in pixels.
_WIDTH, _HEIGHT, _MOST_POINTS = 160, 24, 160


def render_run(name: str, facts: Sequence[tuple[str, str]], metrics: Metrics) -> Html:
    """Render one run as HTML in a notebook: name, facts, and a small curve for each metric."""
    curves = (
        (metric, draw_curve(metrics.column(metric)), _last(metrics, at))
        for at, metric in enumerate(metrics.names)
    )
    said = table(("metric", "", "last"), curves) if metrics.names else Html("")
    head, values = zip(*facts, strict=True)
    return joined((tag("b", name), table(head, [values]), said))


def render_runs(found: Sequence[RunSummary]) -> Html:
    """Render a notebook's HTML table of the newest runs: params, and last value of each metric."""
    shown = found[-_MOST_RUNS:]
    rows_of = [{**one.params, **one.metrics} for one in shown]
    names = list(dict.fromkeys(name for values in rows_of for name in values))
    rows = (
        (
            one.path,
            one.status,
            str(one.epoch),
            *(number(values[name]) if name in values else "" for name in names),
        )
        for one, values in zip(shown, rows_of, strict=True)
    )
    left_out = len(found) - len(shown)
    note = tag("p", f"{left_out} older runs are not shown") if left_out else Html("")
    return joined((note, table(("run", "status", "epoch", *names), rows)))


def render_metrics(epochs: Sequence[int], columns: Mapping[str, Sequence[Number | None]]) -> Html:
    """Render a notebook's HTML table of metrics over the last epochs, one column each."""
    first = max(0, len(epochs) - _MOST_EPOCHS)
    rows = (
        (
            str(epochs[at]),
            *("" if (one := column[at]) is None else number(one) for column in columns.values()),
        )
        for at in range(first, len(epochs))
    )
    note = tag("p", f"{first} earlier epochs are not shown") if first else Html("")
    return joined((note, table(("epoch", *columns), rows)))


def draw_curve(points: Sequence[tuple[int, float]]) -> Html:
    """Draw a small curve of a metric for a notebook; empty with fewer than two finite points."""
    finite = [(x, y) for x, y in points if math.isfinite(y)]
    shown = finite[:: max(1, len(finite) // _MOST_POINTS)]
    if len(shown) < 2:
        return Html("")
    low, high = min(y for _, y in shown), max(y for _, y in shown)
    # Halved first: the difference of two large numbers may be infinite.
    tall, wide = (high / 2 - low / 2) or 1.0, shown[-1][0] - shown[0][0]
    places = (
        f"{(x - shown[0][0]) / wide * _WIDTH:.1f},"
        f"{1 + (high / 2 - y / 2) / tall * (_HEIGHT - 2):.1f}"
        for x, y in shown
    )
    line = tag("polyline", points=" ".join(places), fill="none", stroke="currentColor")
    return tag("svg", line, width=_WIDTH, height=_HEIGHT, role="img", aria_label="curve")


def _last(metrics: Metrics, at: int) -> str:
    values: list[Number] = [row[at] for _, row in metrics.rows if row[at] is not None]  # type: ignore[misc]
    return number(values[-1]) if values else ""
