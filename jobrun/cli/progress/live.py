"""Show the progress of a run as a live display, redrawn at the bottom of a terminal.

Everything that is said meanwhile scrolls above it. It is written in one piece, and only when it
has changed, so nothing flickers; after the window has become narrower, the lines that its terminal
has folded are taken away, too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from threading import Event as Flag
from threading import Lock, Thread
from types import TracebackType
from typing import Self

from rich.cells import cell_len
from rich.console import (
    Console,
    ConsoleDimensions,
    ConsoleOptions,
    RenderableType,
    RenderResult,
)
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from jobrun.cli.formatting import TASK_MARKS, number, size, span
from jobrun.cli.progress.lines import render_heading, render_warning
from jobrun.cli.progress.run_state import RunState, TaskState, render_log
from jobrun.cli.runs.chart import sparkline
from jobrun.cli.terminal import Shell
from jobrun.core.captured_output import STREAMS
from jobrun.core.events import Event, Logged, Noted, RunStarted
from jobrun.core.text.patterns import lazy_pattern
from jobrun.core.text.terminal_text import keep_colours, terminal_line, visible

_MOST_METRICS = 8
_MOST_NODES = 6
# Cells: the bar, and a sparkline behind its number.
_WIDEST_BAR, _WIDEST_SPARKLINE = 48, 60
_NUMBER = 12
# Tasks of shorter epochs would only flicker: their mean times stand there instead.
_CALM_S = 1.0
_EVERY_S = 0.25
_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"
# Terminals that know it show nothing of what lies between; the others pass over it (mode 2026).
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_STYLE_CODE = lazy_pattern(r"\x1b\[[0-9;]*m")
# The last row stays empty: a line end there would scroll.
_ROWS_LEFT_FREE = 2
_STYLES = {"waiting": "dim", "running": "bold cyan", "ended": "green", "failed": "red"}


class LiveProgress:
    """A listener that keeps a display of a few lines up to date while the run lasts.

    What is said once and for all (the start, warnings, the log of groups other than the
    epochs) scrolls above the display; the display disappears at the end.
    """

    def __init__(self, shell: Shell, state: RunState) -> None:
        self._state = state
        self._lock = Lock()
        console = TerminalConsole(stderr=True, no_color=not shell.colours, highlight=False)
        self._screen = Screen(console, lambda: LiveView(state, self._lock))

    def __enter__(self) -> LiveProgress:
        STREAMS.is_shown = False
        self._screen.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._screen.__exit__(kind, error, trace)
        STREAMS.is_shown = True

    def __call__(self, event: Event) -> None:
        """Update the live display by an event of the run."""
        with self._lock:
            self._state.update(event)
        line = render_warning(event)
        if line is not None:
            self._screen.say(line, "yellow")
        elif isinstance(event, RunStarted):
            self._screen.say(render_heading(event))
        elif isinstance(event, Noted):
            self._screen.say(event.text)
        elif isinstance(event, Logged) and event.printed:
            # It is not on the terminal yet, whose last lines are the display.
            self._screen.say(keep_colours(event.text))
        elif isinstance(event, Logged) and self._state.group != "epoch":
            self._screen.say(render_log(event))


class LiveView:
    """The display: where the run is, its tasks, metrics, last checkpoint and last log lines.

    Args:
        state: What is known.
        lock: Held while it is looked at.
    """

    def __init__(self, state: RunState, lock: Lock) -> None:
        self._state = state
        self._lock = lock

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the live display for the width of the console."""
        del console
        with self._lock:
            yield from render_display(self._state, options.max_width)


def render_display(state: RunState, width: int) -> list[RenderableType]:
    """Render the rows of the live display of a run, at most ``width`` columns wide."""
    if state.started is None:
        return []
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column(no_wrap=True, overflow="ellipsis")
    rows.add_row("epoch", _position(state))
    total = state.started.total_epochs
    if total:
        bar = min(_WIDEST_BAR, max(10, width // 2))
        rows.add_row("", ProgressBar(total=total, completed=state.epoch, width=bar))
    for node, text in _nodes(state):
        rows.add_row(node, text)
    room = min(_WIDEST_SPARKLINE, max(8, width - 40))
    for name, values in list(state.metrics.items())[:_MOST_METRICS]:
        numbers = [float(value) for value in values if isinstance(value, int | float)]
        text = Text(f"{visible(number(values[-1])):<{_NUMBER}}").append(
            sparkline(numbers, room), "cyan"
        )
        rows.add_row(visible(name), text)
    rows.add_row("saved", _saved(state))
    lines = [
        Text.from_ansi(terminal_line(line), style="dim", no_wrap=True, overflow="ellipsis")
        for line in state.lines
    ]
    return [rows, *(lines if state.group == "epoch" else [])]


def _position(state: RunState) -> Text:
    total = state.started.total_epochs if state.started else None
    text = Text(str(state.epoch), style="bold")
    if total:
        text.append(f" of at most {total}", "default not bold")
    text.append(f"   {span(state.elapsed)}", "default not bold")
    if state.remaining_s is not None:
        text.append(f", at most {span(state.remaining_s)} left", "default not bold")
    if state.group not in ("", "epoch"):
        text.append(f"   {state.group}", "cyan")
    return text


def _nodes(state: RunState) -> list[tuple[str, Text]]:
    """Render the live display's rows of nodes with the states of their tasks."""
    states_by_node: dict[str, list[TaskState]] = {}
    for task_state in state.tasks():
        states_by_node.setdefault(task_state.node, []).append(task_state)
    if sum(map(len, states_by_node.values())) < 2:
        return []
    calm = state.group == "epoch" and bool(state.seconds) and state.seconds[-1] < _CALM_S
    # Nodes that work come first: a person looks for them.
    order = sorted(
        states_by_node,
        key=lambda node: calm or all(s.state != "running" for s in states_by_node[node]),
    )
    rows = [
        (visible(node), _tasks(states_by_node[node], calm=calm)) for node in order[:_MOST_NODES]
    ]
    if len(order) > _MOST_NODES:
        rows.append(("", Text(f"and {len(order) - _MOST_NODES} more nodes", "dim")))
    return rows


def _tasks(states: list[TaskState], *, calm: bool) -> Text:
    text = Text()
    for state in states:
        took = "" if state.seconds is None else f" {span(state.seconds)}"
        if text:
            text.append("   ")
        if calm:
            text.append(visible(state.task)).append(took, "dim")
        else:
            text.append(f"{TASK_MARKS[state.state]} {visible(state.task)}", _STYLES[state.state])
            text.append(took if state.state in ("ended", "failed") else "", "dim")
    return text


def _saved(state: RunState) -> Text:
    if state.saved is None:
        return Text("nothing yet", style="dim")
    age = span(state.clock() - state.saved_at)
    return Text(f"epoch {state.saved.epoch}, {age} ago, {size(state.saved.size_bytes)}")


class TerminalConsole(Console):
    """A console that knows its size also while standard descriptors lead elsewhere."""

    @property
    def size(self) -> ConsoleDimensions:
        """Return the live display's size: COLUMNS and LINES if set, else the terminal's."""
        if not {"COLUMNS", "LINES"} & os.environ.keys():
            with contextlib.suppress(OSError):
                return ConsoleDimensions(*os.get_terminal_size(STREAMS.original(2)))
        return super().size

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size


class Screen:
    """Draws a display at the end of a terminal, four times a second.

    Args:
        console: Of the terminal.
        view: Gives what to draw; called from a thread of its own, too.
    """

    def __init__(self, console: Console, view: Callable[[], RenderableType]) -> None:
        self._console = console
        self._view = view
        # Width in cells of each line that is drawn.
        self._widths: list[int] = []
        self._drawn: tuple[str, int] = "", 0
        self._lock = Lock()
        self._over = Flag()
        self._thread = Thread(target=self._run, name="screen", daemon=True)

    def __enter__(self) -> Self:
        self._write(_HIDE)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        with self._lock:
            self._write(self._erasure() + _SHOW)

    def say(self, line: str, style: str = "") -> None:
        """Print a line above the live display, which stays at the bottom of the terminal."""
        text = Text.from_ansi(terminal_line(line), style=style)
        with contextlib.suppress(OSError, ValueError), self._lock:
            lines, _ = self._render(text, cut=False)
            drawn, widths = self._render(self._view())
            away = self._erasure()
            self._widths = widths
            self._drawn = drawn, self._console.width
            self._write(f"{_BEGIN}{away}{lines}{drawn}{_END}")

    def refresh(self) -> None:
        """Draw the live display at the bottom of the terminal again if it has changed."""
        with self._lock:
            lines, widths = self._render(self._view())
            if (lines, self._console.width) == self._drawn:
                return
            away = self._erasure()
            self._drawn, self._widths = (lines, self._console.width), widths
            self._write(f"{_BEGIN}{away}{lines}{_END}")

    def _run(self) -> None:
        # A terminal that goes away ends the display, never the work.
        with contextlib.suppress(OSError, ValueError):
            while not self._over.wait(_EVERY_S):
                self.refresh()

    def _render(self, text: RenderableType, *, cut: bool = True) -> tuple[str, list[int]]:
        """Render the live display, or text above it; return its lines and their widths."""
        with self._console.capture() as caught:
            self._console.print(text)
        lines = caught.get().splitlines()
        if cut:
            lines = lines[: max(1, self._console.height - _ROWS_LEFT_FREE)]
        written = "".join(f"{line}\n" for line in lines)
        return written, [cell_len(_STYLE_CODE.sub("", line)) for line in lines]

    def _erasure(self) -> str:
        """Return the escape sequence that erases the live display from the terminal."""
        width = max(1, self._console.width)
        rows = sum(max(1, -(-cells // width)) for cells in self._widths)
        self._widths = []
        return f"\r\x1b[{rows}A\x1b[J" if rows else ""

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._console.file.write(text)
            self._console.file.flush()
