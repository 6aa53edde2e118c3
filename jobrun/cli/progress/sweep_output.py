"""Show the progress of ``jobrun sweep``, and print its results: a table, a plot, the best point.

While it runs, points that ended are lines, and the running ones a live display.
"""

from __future__ import annotations

import math
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import Struct, field
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from jobrun.cli.formatting import STATUS_COLOURS, number, shorten_path, span, wrap_line
from jobrun.cli.progress.live import Screen
from jobrun.cli.runs.chart import draw_chart, sparkline
from jobrun.cli.terminal import Shell
from jobrun.core.text.terminal_text import align_cells, keep_colours, visible
from jobrun.tools.runs.metrics import read_last_epoch
from jobrun.tools.sweep.axes import shown_value
from jobrun.tools.sweep.point_outcomes import (
    OVER,
    UNEXPECTED,
    Objective,
    Outcome,
    rank_outcomes,
    score,
)
from jobrun.tools.sweep.process_pool import PointEnded, PointStarted, SweepEvent
from jobrun.tools.sweep.sweep_design import Design, PlannedPoint

_LOOK_EVERY_S = 1.0
_HISTORY = 64
_MOST_SHOWN = 12
_MOST_METRICS = 3
_MOST_FAULTS = 3
_ENDINGS = {
    0: "finished",
    9: "finished, but an expectation does not hold",
    75: "stopped",
    130: "interrupted",
}
_ENDING_COLOURS = {0: "green", 75: "yellow", 130: "yellow"}
_BAR_WIDTH = 48

_STATE_COLOURS = STATUS_COLOURS | {UNEXPECTED: "red", "not started": "dim"}
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
_MOST_LABELS, _MOST_CHANGES = 6, 3


def create_display(shell: Shell, design: Design, todo: int, jobs: int) -> Any:
    """Create the context manager that shows a sweep's progress: live, or plain lines."""
    count = len(design.points)
    state = SweepState(count, count - todo, todo, jobs)
    if shell.live and todo:
        return LiveSweep(shell, state)
    return PlainSweep(shell, state)


class PlainSweep:
    """Prints a line for each point that has ended.

    Args:
        shell: Where to.
        state: Updated by each event first.
    """

    def __init__(self, shell: Shell, state: SweepState) -> None:
        self._shell = shell
        self._state = state

    def __enter__(self) -> Self:
        self._state.started_at = self._state.clock()
        self._say(render_heading(self._state))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing at the end of a sweep's plain display, whose last line is printed already."""

    def listen(self, event: SweepEvent) -> None:
        """Show an event of a sweep in the plain display."""
        self._state.update(event)
        if isinstance(event, PointEnded):
            for line in render_ended(event, self._state, self._shell):
                self._say(line)

    def _say(self, text: str) -> None:
        self._shell.say(text)


class LiveSweep:
    """Prints a line for each point that has ended, above a live display of the running ones."""

    def __init__(self, shell: Shell, state: SweepState) -> None:
        self._shell = shell
        self._state = state
        console = Console(stderr=True, no_color=not shell.colours, highlight=False)
        self._screen = Screen(console, lambda: render_display(state))

    def __enter__(self) -> Self:
        self._state.started_at = self._state.clock()
        self._screen.__enter__()
        self._screen.say(render_heading(self._state))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._screen.__exit__(kind, error, trace)

    def listen(self, event: SweepEvent) -> None:
        """Show an event of a sweep in the live display."""
        self._state.update(event)
        if isinstance(event, PointEnded):
            for line in render_ended(event, self._state, self._shell):
                self._screen.say(line)


class SweepState(Struct):
    """The state of a running sweep, updated by its events.

    Attributes:
        count: How many points there are.
        done: How many are over, before or now.
        todo: How many there were to run.
        jobs: How many run at a time.
    """

    count: int
    done: int
    todo: int
    jobs: int
    clock: Callable[[], float] = time.monotonic
    running: dict[str, tuple[PlannedPoint, RunningPoint]] = field(default_factory=dict)
    ended: int = 0
    failed: int = 0
    started_at: float = 0.0
    looked_at: float = 0.0

    def update(self, event: SweepEvent) -> None:
        """Update the displayed state of a sweep by an event."""
        match event:
            case PointStarted():
                self.running[event.point.job] = (
                    event.point,
                    RunningPoint(event.run, event.total_epochs),
                )
            case PointEnded():
                self.running.pop(event.point.job, None)
                self.ended += 1
                self.done += event.exit_code in (0, 9)
                self.failed += event.exit_code not in _ENDINGS
            case _:
                pass
        if self.clock() >= self.looked_at + _LOOK_EVERY_S:
            self.looked_at = self.clock()
            for _, point in self.running.values():
                point.refresh()

    @property
    def left_s(self) -> float | None:
        """Estimated seconds until all points of the sweep have ended; None while unknown."""
        if not self.ended:
            return None
        return (self.clock() - self.started_at) / self.ended * max(0, self.todo - self.ended)


class RunningPoint(Struct):
    """The progress of one running point, read from the files of its run."""

    run: Path
    total_epochs: int | None
    epoch: int = -1
    metrics: dict[str, list[float]] = field(default_factory=dict)

    def refresh(self) -> None:
        """Update a running point's progress in the sweep's display from files of its run."""
        epoch, values = read_last_epoch(self.run)
        if epoch == self.epoch:
            return
        self.epoch = epoch
        for name, value in values.items():
            if isinstance(value, int | float):
                history = self.metrics.setdefault(name, [])
                history.append(float(value))
                del history[:-_HISTORY]


def render_heading(state: SweepState) -> str:
    """Render the heading of a sweep's display: ``12 points: 3 finished before, 9 to run``."""
    before = f"{state.done} finished before, " if state.done else ""
    points = "1 point" if state.count == 1 else f"{state.count} points"
    if not state.todo:
        return f"{points}: all finished before"
    return f"{points}: {before}{state.todo} to run, {min(state.jobs, state.todo)} at a time"


def render_ended(event: PointEnded, state: SweepState, shell: Shell) -> list[str]:
    """Render a line about a point that ended, with its errors, for the sweep's display."""
    word = _ENDINGS.get(event.exit_code, f"failed with exit code {event.exit_code}")
    if event.exit_code < 0:
        word = f"killed by signal {-event.exit_code}"
    colour = _ENDING_COLOURS.get(event.exit_code, "red")
    lines = [f"[{state.done} of {state.count}] {event.point.label}: {shell.paint(word, colour)}"]
    if event.exit_code in (0, 75, 130):
        return lines
    for fault in event.faults[:_MOST_FAULTS]:
        position = f"{fault['file']}:{fault['line']}  " if fault.get("line") else ""
        path = f"{fault['path']}: " if fault.get("path") else ""
        lines.append(f"  error[{fault['code']}] {position}{path}{fault['message']}")
        if fault.get("mend"):
            lines.append(f"      = {fault['mend']}")
    if not event.faults:
        lines += [f"  {line}" for line in event.last_lines]
    return lines


def running_rows(state: SweepState) -> list[tuple[str, str, str]]:
    """List the label, epoch and metrics of each running point, for the sweep's display."""
    rows = []
    for point, running in list(state.running.values())[:_MOST_SHOWN]:
        total = f" of at most {running.total_epochs}" if running.total_epochs else ""
        where = f"epoch {running.epoch}{total}" if running.epoch >= 0 else "starts"
        metrics = [
            f"{visible(name)} {visible(number(values[-1]))} {sparkline(values, 12)}".rstrip()
            for name, values in list(running.metrics.items())[:_MOST_METRICS]
        ]
        rows.append((visible(point.label), where, "  ".join(metrics)))
    return rows


def render_counts(state: SweepState) -> str:
    """Render the counts in a sweep's display: ``3 of 12 finished, 2 running, 1 failed``."""
    text = f"{state.done} of {state.count} finished, {len(state.running)} running"
    if state.failed:
        text += f", {state.failed} failed"
    return text if state.left_s is None else f"{text}   about {span(state.left_s)} left"


def render_display(state: SweepState) -> RenderableType:
    """Render a sweep's live display: running points, a progress bar, and counts."""
    rows = Table.grid(padding=(0, 2))
    for style in ("cyan", "", ""):
        rows.add_column(style=style, no_wrap=True, overflow="ellipsis")
    for row in running_rows(state):
        rows.add_row(*map(Text, row))
    bar = Table.grid()
    # In a row: by itself it would not end its line.
    bar.add_row(ProgressBar(total=max(1, state.count), completed=state.done, width=_BAR_WIDTH))
    line = Text(render_counts(state), no_wrap=True, overflow="ellipsis")
    return Group(*([rows] if rows.row_count else []), bar, line)


def print_results(outcomes: Sequence[Outcome], aim: Objective, shell: Shell) -> None:
    """Print a finished sweep's table of points and its plot, and say which point is best."""
    best = rank_outcomes(outcomes, aim)
    width = min(shell.result_width, _PIPE_WIDTH)
    coloured = shell.result_colours
    console = Console(
        width=width,
        highlight=False,
        force_terminal=coloured,
        color_system="standard" if coloured else None,
    )
    names = metrics_of(outcomes, aim)
    shown = list(names)
    # Unbounded, to measure what the cells need.
    options = console.options.update(width=_PIPE_WIDTH)
    while True:
        table = build_table(outcomes, best[:1], aim, shown)
        room = width - Measurement.get(console, options, table).maximum
        if room >= 0 or len(shown) <= 1:
            break
        shown.pop()
    with console.capture() as caught:
        console.print(build_table(outcomes, best[:1], aim, shown, room))
    lines = [keep_colours(line.rstrip()) for line in caught.get().splitlines()]
    if hidden := names[len(shown) :]:
        text = f"no room for: {', '.join(_head(name) for name in hidden)} (--csv prints all)"
        lines += textwrap.wrap(text, width, break_on_hyphens=False)
    lines += render_reasons(outcomes) if room < _LEAST_ROOM else []
    shell.print(*lines, *render_plot(best, aim, width))
    verdict = render_verdict(outcomes, best, aim)
    shell.print("", *(part for line in verdict for part in wrap_line(line, width, 2)))


def build_table(
    outcomes: Sequence[Outcome],
    best: Sequence[Outcome],
    aim: Objective,
    names: Sequence[str] | None = None,
    room: int = 0,
) -> Table:
    """Build the table of a sweep's points to print, a row for each; mark the best point.

    Args:
        outcomes: The points.
        best: The best of them, or none.
        aim: What is judged by.
        names: The metrics to show; all without it.
        room: Columns of the terminal for why points are not finished; too few for none of it.
    """
    axes = list(outcomes[0].point.values) if outcomes else []
    names = metrics_of(outcomes, aim) if names is None else names
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("", *map(_head, axes)):
        grid.add_column(head, no_wrap=True)
    for head in ("state", "epoch", *map(_head, names)):
        grid.add_column(head, no_wrap=True, justify="left" if head == "state" else "right")
    whys = [_why(outcome) for outcome in outcomes] if room >= _LEAST_ROOM else []
    if any(whys):
        grid.add_column("why", no_wrap=True, overflow="ellipsis", max_width=room - _GAP)
    for at, outcome in enumerate(outcomes):
        cells = [
            Text("*" if outcome in best else ""),
            *(Text(visible(shown_value(value))) for value in outcome.point.values.values()),
            Text(visible(_state(outcome)), _STATE_COLOURS.get(outcome.state, "dim")),
            Text(str(outcome.epoch) if outcome.epoch >= 0 else "-"),
            *(
                Text(visible(number(outcome.metrics[name])) if name in outcome.metrics else "-")
                for name in names
            ),
        ]
        cells += [Text(whys[at])] if any(whys) else []
        grid.add_row(*cells, style="bold" if outcome in best else "")
    return grid


def _state(outcome: Outcome) -> str:
    return f"{outcome.state}, outdated" if outcome.outdated else outcome.state


def metrics_of(outcomes: Sequence[Outcome], aim: Objective) -> list[str]:
    """List the metrics of a sweep's points; the one by which points are ranked comes first."""
    names = list(dict.fromkeys(name for outcome in outcomes for name in outcome.metrics))
    return sorted(names, key=lambda name: name != aim.metric)


def _head(name: str) -> str:
    text = visible(name)
    return text if len(text) <= _LONGEST_HEAD else f"{text[: _LONGEST_HEAD - 1]}…"


def render_reasons(outcomes: Sequence[Outcome]) -> list[str]:
    """Render the lines of a sweep's results that say why points are not finished."""
    return [
        f"  {visible(outcome.point.label)}: {why}" for outcome in outcomes if (why := _why(outcome))
    ]


def _why(outcome: Outcome) -> str:
    why = "" if outcome.state in ("finished", "running") else visible(outcome.reason)
    return why if len(why) <= _MOST_WHY else f"{why[: _MOST_WHY - 1]}…"


def render_verdict(
    outcomes: Sequence[Outcome], best: Sequence[Outcome], aim: Objective
) -> list[str]:
    """Render the last lines of a sweep's results: how many points finished, and the best one."""
    over = sum(outcome.state in OVER for outcome in outcomes)
    text = f"{over} of {len(outcomes)} points finished"
    bad = [outcome.state for outcome in outcomes if outcome.state not in OVER]
    text += "".join(f", {bad.count(state)} {state}" for state in dict.fromkeys(bad))
    lines = [text, *_render_outdated(outcomes)]
    if not best:
        return lines
    word = "greatest" if aim.mode == "max" else "least"
    value = number(best[0].metrics[aim.metric])
    where = shorten_path(str(best[0].run))
    outdated = "  (outdated)" if best[0].outdated else ""
    label = best[0].point.label
    return [*lines, f"best ({word} {aim.metric}): {label}  {value}  {where}{outdated}"]


def _render_outdated(outcomes: Sequence[Outcome]) -> list[str]:
    """Render the lines that say which points are of other code, data or versions than now."""
    by_change: dict[tuple[str, ...], list[str]] = {}
    for outcome in outcomes:
        if outcome.outdated:
            by_change.setdefault(outcome.outdated, []).append(outcome.point.label)
    lines = []
    for changes, labels in by_change.items():
        points = "; ".join(labels[:_MOST_LABELS])
        points += f" and {len(labels) - _MOST_LABELS} more" if len(labels) > _MOST_LABELS else ""
        change_words = "; ".join(changes[:_MOST_CHANGES])
        change_words += (
            f" and {len(changes) - _MOST_CHANGES} more" if len(changes) > _MOST_CHANGES else ""
        )
        lines.append(f"outdated, changed since they finished: {points}: {change_words}")
    return lines


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
    pairs = [(outcome.point.values[axes[0]], score(outcome, aim)) for outcome in best]
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
    values = [value for outcome in shown if (value := score(outcome, aim)) is not None]
    # From zero where that says something; else from a little below the least.
    low, high = min(values), max(values)
    start = 0.0 if low >= 0 and high < 4 * (high - low) else low - (high - low) / 4
    names = align_cells([(visible(outcome.point.label), "") for outcome in shown])
    whole = (high - start) or 1.0
    return [
        f"  {name}  {_bar((value - start) / whole, room)} {number(value)}"
        for (name, _), value in zip(names, values, strict=True)
    ]


def _bar(part: float, room: int) -> str:
    eighths = max(1, round(part * room * 8))
    whole, remainder = divmod(eighths, 8)
    return _PARTS[-1] * whole + (_PARTS[remainder - 1] if remainder else "")


def _left_out(count: int) -> list[str]:
    return [f"  and {count - _MOST_BARS} more"] if count > _MOST_BARS else []
