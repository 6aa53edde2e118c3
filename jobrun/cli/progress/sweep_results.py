"""Print the results of ``jobrun sweep``: a table of its points, a plot, and the best point."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from jobrun.cli.formatting import STATUS_COLOURS, number, shorten_path, wrap_line
from jobrun.cli.runs.chart import draw_chart
from jobrun.cli.terminal import Shell
from jobrun.core.text.fault_text import visible
from jobrun.tools.sweep.axes import shown_value
from jobrun.tools.sweep.point_outcomes import (
    OVER,
    UNEXPECTED,
    Objective,
    Outcome,
    rank_outcomes,
    score,
)

_COLOURS = STATUS_COLOURS | {UNEXPECTED: "red", "not started": "dim"}
_MOST_BARS = 20
_PLOT_WIDTH = (30, 72)
_PIPE_WIDTH = 500
_PARTS = "▏▎▍▌▋▊▉█"
# Beyond it a linear axis would show nothing of the small ones.
_LOG_FROM = 50.0
_MOST_WHY = 72
_LEAST_ROOM = 30
_LONGEST_HEAD = 24
_GAP = 4


def print_results(found: Sequence[Outcome], aim: Objective, shell: Shell) -> None:
    """Print a sweep's table of points, its plot, and which point is best."""
    best = rank_outcomes(found, aim)
    width = min(shell.result_width, _PIPE_WIDTH)
    coloured = shell.result_colours
    console = Console(
        width=width,
        highlight=False,
        force_terminal=coloured,
        color_system="standard" if coloured else None,
    )
    names = metrics_of(found, aim)
    shown = list(names)
    # Unbounded, to measure what the cells need.
    options = console.options.update(width=_PIPE_WIDTH)
    while True:
        table = build_table(found, best[:1], aim, shown)
        room = width - Measurement.get(console, options, table).maximum
        if room >= 0 or len(shown) <= 1:
            break
        shown.pop()
    with console.capture() as caught:
        console.print(build_table(found, best[:1], aim, shown, room))
    lines = [line.rstrip() for line in caught.get().splitlines()]
    if left := names[len(shown) :]:
        text = f"no room for: {', '.join(_head(name) for name in left)} (--csv prints all)"
        lines += textwrap.wrap(text, width, break_on_hyphens=False)
    lines += render_reasons(found) if room < _LEAST_ROOM else []
    shell.print("\n".join([*lines, *render_plot(best, aim, width)]))
    verdict = render_verdict(found, best, aim).splitlines()
    shell.print("\n".join(["", *(part for line in verdict for part in wrap_line(line, width, 2))]))


def build_table(
    found: Sequence[Outcome],
    best: Sequence[Outcome],
    aim: Objective,
    names: Sequence[str] | None = None,
    room: int = 0,
) -> Table:
    """Build the printed table of a sweep's points, one row each; the best one is marked.

    Args:
        found: The points.
        best: The best of them, or none.
        aim: What is judged by.
        names: The metrics to show; all without it.
        room: Columns of the terminal for why points are not finished; too few for none of it.
    """
    axes = list(found[0].point.values) if found else []
    names = metrics_of(found, aim) if names is None else names
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("", *map(_head, axes)):
        grid.add_column(head, no_wrap=True)
    for head in ("state", "epoch", *map(_head, names)):
        grid.add_column(head, no_wrap=True, justify="left" if head == "state" else "right")
    whys = [_why(one) for one in found] if room >= _LEAST_ROOM else []
    if any(whys):
        grid.add_column("why", no_wrap=True, overflow="ellipsis", max_width=room - _GAP)
    for at, one in enumerate(found):
        cells = [
            Text("*" if one in best else ""),
            *(Text(visible(shown_value(value))) for value in one.point.values.values()),
            Text(one.state, _COLOURS.get(one.state, "dim")),
            Text(str(one.epoch) if one.epoch >= 0 else "-"),
            *(Text(number(one.metrics[name]) if name in one.metrics else "-") for name in names),
        ]
        cells += [Text(whys[at])] if any(whys) else []
        grid.add_row(*cells, style="bold" if one in best else "")
    return grid


def metrics_of(found: Sequence[Outcome], aim: Objective) -> list[str]:
    """List the metrics of a sweep's points; the one by which points are ranked comes first."""
    names = list(dict.fromkeys(name for one in found for name in one.metrics))
    return sorted(names, key=lambda name: name != aim.metric)


def _head(name: str) -> str:
    text = visible(name)
    return text if len(text) <= _LONGEST_HEAD else f"{text[: _LONGEST_HEAD - 1]}…"


def render_reasons(found: Sequence[Outcome]) -> list[str]:
    """Render the lines of a sweep's results that say why points are not finished."""
    return [f"  {visible(one.point.label)}: {why}" for one in found if (why := _why(one))]


def _why(one: Outcome) -> str:
    why = "" if one.state in ("finished", "running") else visible(one.reason)
    return why if len(why) <= _MOST_WHY else f"{why[: _MOST_WHY - 1]}…"


def render_verdict(found: Sequence[Outcome], best: Sequence[Outcome], aim: Objective) -> str:
    """Render the last line of a sweep's results: how many points finished, and the best one."""
    over = sum(one.state in OVER for one in found)
    text = f"{over} of {len(found)} points finished"
    bad = [one.state for one in found if one.state not in OVER]
    text += "".join(f", {bad.count(state)} {state}" for state in dict.fromkeys(bad))
    if not best:
        return text
    word = "greatest" if aim.mode == "max" else "least"
    value = number(best[0].metrics[aim.metric])
    where = shorten_path(str(best[0].run))
    point = visible(best[0].point.label)
    return f"{text}\nbest ({word} {visible(aim.metric)}): {point}  {value}  {where}"


def render_plot(best: Sequence[Outcome], aim: Objective, width: int) -> list[str]:
    """Render the plot below a sweep's printed results: a curve over a numeric axis, else bars.

    Args:
        best: Those with a score, in the order of their rank.
        aim: What is shown.
        width: Of the terminal.
    """
    if len(best) < 2:
        return []
    least, most = _PLOT_WIDTH
    room = min(most, max(least, width - 30))
    points, title = _over_axis(best, aim)
    if len(points) > 2:
        return ["", title, *draw_chart(points, room)]
    return ["", visible(aim.metric), *_bars(best[:_MOST_BARS], aim, room), *_left_out(len(best))]


def _over_axis(best: Sequence[Outcome], aim: Objective) -> tuple[list[tuple[float, float]], str]:
    """Return the plot points of a sweep along its numeric axis, and a title; [] without one."""
    axes = list(best[0].point.values)
    pairs = [(one.point.values[axes[0]], score(one, aim)) for one in best]
    points = sorted(
        (float(x), y)
        for x, y in pairs
        if isinstance(x, int | float) and not isinstance(x, bool) and y is not None
    )
    if len(axes) != 1 or len(points) < len(best):
        return [], ""
    title = f"{visible(aim.metric)} over {visible(axes[0])}"
    first, last = points[0][0], points[-1][0]
    if first > 0 and last / first >= _LOG_FROM:
        return [(math.log10(x), y) for x, y in points], f"{title} (powers of 10)"
    return points, title


def _bars(shown: Sequence[Outcome], aim: Objective, room: int) -> list[str]:
    values = [value for one in shown if (value := score(one, aim)) is not None]
    # From zero where that says something; else from a little below the least.
    low, high = min(values), max(values)
    start = 0.0 if low >= 0 and high < 4 * (high - low) else low - (high - low) / 4
    names = [visible(one.point.label) for one in shown]
    margin = max(map(len, names))
    whole = (high - start) or 1.0
    return [
        f"  {name:<{margin}}  {_bar((value - start) / whole, room)} {number(value)}"
        for name, value in zip(names, values, strict=True)
    ]


def _bar(part: float, room: int) -> str:
    eighths = max(1, round(part * room * 8))
    whole, rest = divmod(eighths, 8)
    return _PARTS[-1] * whole + (_PARTS[rest - 1] if rest else "")


def _left_out(count: int) -> list[str]:
    return [f"  and {count - _MOST_BARS} more"] if count > _MOST_BARS else []
