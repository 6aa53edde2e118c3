"""Show the progress of a run as a live display on a terminal."""

from __future__ import annotations

from threading import Lock
from types import TracebackType

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from jobrun.cli.formatting import TASK_MARKS, number, size, span
from jobrun.cli.progress.lines import render_heading, render_warning
from jobrun.cli.progress.run_state import RunState, TaskState, render_log
from jobrun.cli.progress.screen import Screen, TerminalConsole
from jobrun.cli.runs.chart import sparkline
from jobrun.cli.terminal import Shell
from jobrun.core.captured_output import STREAMS
from jobrun.core.events import Event, Logged, Noted, RunStarted
from jobrun.core.text.fault_text import visible

_MOST_METRICS = 8
_MOST_NODES = 6
# Cells: the bar, and a sparkline behind its number.
_WIDEST_BAR, _WIDEST_SPARKLINE = 48, 60
_NUMBER = 12
# Tasks of shorter epochs would only flicker: their mean times stand there instead.
_CALM_S = 1.0
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
            self._screen.say(Text(line, style="yellow"))
        elif isinstance(event, RunStarted):
            self._screen.say(Text(render_heading(event)))
        elif isinstance(event, Noted):
            self._screen.say(Text(event.text))
        elif isinstance(event, Logged) and event.printed:
            # It is not on the terminal yet, whose last lines are the display.
            self._screen.say(Text(visible(event.text)))
        elif isinstance(event, Logged) and self._state.group != "epoch":
            self._screen.say(Text(render_log(event)))


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
        text = Text(f"{number(values[-1]):<{_NUMBER}}").append(sparkline(numbers, room), "cyan")
        rows.add_row(visible(name), text)
    rows.add_row("saved", _saved(state))
    lines = [Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in state.lines]
    return [rows, *(lines if state.group == "epoch" else [])]


def _position(state: RunState) -> Text:
    total = state.started.total_epochs if state.started else None
    text = Text(str(state.epoch), style="bold")
    if total:
        text.append(f" of at most {total}", "default not bold")
    text.append(f"   {span(state.elapsed)}", "default not bold")
    if state.left is not None:
        text.append(f", at most {span(state.left)} left", "default not bold")
    if state.group not in ("", "epoch"):
        text.append(f"   {state.group}", "cyan")
    return text


def _nodes(state: RunState) -> list[tuple[str, Text]]:
    """Render the live display's rows of nodes with the states of their tasks."""
    found: dict[str, list[TaskState]] = {}
    for one in state.tasks():
        found.setdefault(one.node, []).append(one)
    if sum(map(len, found.values())) < 2:
        return []
    calm = state.group == "epoch" and bool(state.seconds) and state.seconds[-1] < _CALM_S
    # Those that work first: they are what a person looks for.
    order = sorted(found, key=lambda node: calm or all(s.state != "running" for s in found[node]))
    rows = [(visible(node), _tasks(found[node], calm=calm)) for node in order[:_MOST_NODES]]
    if len(order) > _MOST_NODES:
        rows.append(("", Text(f"and {len(order) - _MOST_NODES} more nodes", "dim")))
    return rows


def _tasks(states: list[TaskState], *, calm: bool) -> Text:
    text = Text()
    for one in states:
        took = "" if one.seconds is None else f" {span(one.seconds)}"
        if text:
            text.append("   ")
        if calm:
            text.append(visible(one.task)).append(took, "dim")
        else:
            text.append(f"{TASK_MARKS[one.state]} {visible(one.task)}", _STYLES[one.state])
            text.append(took if one.state in ("ended", "failed") else "", "dim")
    return text


def _saved(state: RunState) -> Text:
    if state.saved is None:
        return Text("nothing yet", style="dim")
    age = span(state.clock() - state.saved_at)
    return Text(f"epoch {state.saved.epoch}, {age} ago, {size(state.saved.size_bytes)}")
