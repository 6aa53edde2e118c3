"""Show the progress of ``jobrun sweep``: ended points as lines, running ones as live display."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from jobrun.cli.formatting import number, span
from jobrun.cli.progress.screen import Screen
from jobrun.cli.runs.chart import sparkline
from jobrun.cli.terminal import Shell
from jobrun.core.lazy_dataclass import dataclass
from jobrun.core.text.fault_text import visible
from jobrun.tools.runs.metrics import read_last_epoch
from jobrun.tools.sweep.process_pool import PointEnded, PointStarted, SweepEvent
from jobrun.tools.sweep.sweep_design import Design, PlannedPoint

_LOOK_EVERY_S = 1.0
_HISTORY = 64
_MOST_SHOWN = 12
_MOST_METRICS = 3
_MOST_FAULTS = 3
_WORDS = {
    0: "finished",
    9: "finished, but an expectation does not hold",
    75: "stopped",
    130: "interrupted",
}
_COLOURS = {0: "green", 75: "yellow", 130: "yellow"}
_BAR_WIDTH = 48


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
        state: Told of everything first.
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
        self._screen.say(Text(render_heading(self._state)))
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
                self._screen.say(Text.from_ansi(line))


@dataclass(slots=True)
class SweepState:
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
                self.failed += event.exit_code not in _WORDS
            case _:
                pass
        if self.clock() >= self.looked_at + _LOOK_EVERY_S:
            self.looked_at = self.clock()
            for _, one in self.running.values():
                one.refresh()

    @property
    def left_s(self) -> float | None:
        """Estimated seconds until all points of the sweep have ended; None while unknown."""
        if not self.ended:
            return None
        return (self.clock() - self.started_at) / self.ended * max(0, self.todo - self.ended)


@dataclass(slots=True)
class RunningPoint:
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
    """Render a line about a point that ended, with its faults, for the sweep's display."""
    word = _WORDS.get(event.exit_code, f"failed with exit code {event.exit_code}")
    if event.exit_code < 0:
        word = f"killed by signal {-event.exit_code}"
    colour = _COLOURS.get(event.exit_code, "red")
    lines = [
        f"[{state.done} of {state.count}] {visible(event.point.label)}: {shell.paint(word, colour)}"
    ]
    if event.exit_code in (0, 75, 130):
        return lines
    for fault in event.faults[:_MOST_FAULTS]:
        place = f"{fault['file']}:{fault['line']}  " if fault.get("line") else ""
        lines.append(visible(f"  error[{fault['code']}] {place}{fault['message']}"))
        if fault.get("mend"):
            lines.append(visible(f"      = {fault['mend']}"))
    if not event.faults:
        lines += [f"  {visible(line)}" for line in event.said]
    return lines


def running_rows(state: SweepState) -> list[tuple[str, str, str]]:
    """List the label, epoch and metrics of each running point, for the sweep's display."""
    rows = []
    for point, one in list(state.running.values())[:_MOST_SHOWN]:
        total = f" of at most {one.total_epochs}" if one.total_epochs else ""
        where = f"epoch {one.epoch}{total}" if one.epoch >= 0 else "starts"
        metrics = [
            f"{visible(name)} {number(values[-1])} {sparkline(values, 12)}".rstrip()
            for name, values in list(one.metrics.items())[:_MOST_METRICS]
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
