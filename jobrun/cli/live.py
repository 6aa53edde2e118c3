"""Progress as a calm display that redraws itself, for a person at a terminal."""

from __future__ import annotations

from threading import Lock
from types import TracebackType

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from jobrun.cli.output import TASK_MARKS, number, size, span, sparkline
from jobrun.cli.plain import heading, warning
from jobrun.cli.screen import Screen
from jobrun.cli.shell import Shell
from jobrun.cli.tally import Tally, TaskState, log_line
from jobrun.core.events import Event, Logged, Noted, RunStarted
from jobrun.core.excerpt import visible

_MOST_METRICS = 8
_MOST_NODES = 6
# Cells: the bar, and a sparkline behind its number.
_WIDEST_BAR, _WIDEST_SPARKLINE = 48, 60
_NUMBER = 12
# Tasks of shorter epochs would only flicker: their mean times stand there instead.
_CALM_S = 1.0
_STYLES = {"waiting": "dim", "running": "bold cyan", "ended": "green", "failed": "red"}


class LiveProgress:
    """A listener that keeps a few lines up to date while the run lasts.

    What is said once and for all (the start, warnings, the log of groups other than the
    epochs) scrolls above the display; the display disappears at the end.
    """

    def __init__(self, shell: Shell, tally: Tally) -> None:
        self._tally = tally
        self._lock = Lock()
        console = Console(stderr=True, no_color=not shell.colours, highlight=False)
        self._screen = Screen(console, lambda: View(tally, self._lock))

    def __enter__(self) -> LiveProgress:
        self._screen.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._screen.__exit__(kind, error, trace)

    def __call__(self, event: Event) -> None:
        """Take one event."""
        with self._lock:
            self._tally.see(event)
        line = warning(event)
        if line is not None:
            self._screen.say(Text(line, style="yellow"))
        elif isinstance(event, RunStarted):
            self._screen.say(Text(heading(event)))
        elif isinstance(event, Noted):
            self._screen.say(Text(event.text))
        elif isinstance(event, Logged) and self._tally.group != "epoch":
            self._screen.say(Text(log_line(event)))


class View:
    """The display: where the run is, its tasks, metrics, last checkpoint and last log lines.

    Args:
        tally: What is known.
        lock: Held while it is looked at.
    """

    def __init__(self, tally: Tally, lock: Lock) -> None:
        self._tally = tally
        self._lock = lock

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """For the width at hand."""
        del console
        with self._lock:
            yield from view(self._tally, options.max_width)


def view(tally: Tally, width: int) -> list[RenderableType]:
    """What to show, so wide at most."""
    if tally.started is None:
        return []
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column(no_wrap=True, overflow="ellipsis")
    rows.add_row("epoch", _position(tally))
    total = tally.started.total_epochs
    if total:
        bar = min(_WIDEST_BAR, max(10, width // 2))
        rows.add_row("", ProgressBar(total=total, completed=tally.epoch, width=bar))
    for node, text in _nodes(tally):
        rows.add_row(node, text)
    room = min(_WIDEST_SPARKLINE, max(8, width - 40))
    for name, values in list(tally.metrics.items())[:_MOST_METRICS]:
        numbers = [float(value) for value in values if isinstance(value, int | float)]
        text = Text(f"{number(values[-1]):<{_NUMBER}}").append(sparkline(numbers, room), "cyan")
        rows.add_row(visible(name), text)
    rows.add_row("saved", _saved(tally))
    lines = [Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in tally.lines]
    return [rows, *(lines if tally.group == "epoch" else [])]


def _position(tally: Tally) -> Text:
    total = tally.started.total_epochs if tally.started else None
    text = Text(str(tally.epoch), style="bold")
    if total:
        text.append(f" of at most {total}", "default not bold")
    text.append(f"   {span(tally.elapsed)}", "default not bold")
    if tally.left is not None:
        text.append(f", at most {span(tally.left)} left", "default not bold")
    if tally.group not in ("", "epoch"):
        text.append(f"   {tally.group}", "cyan")
    return text


def _nodes(tally: Tally) -> list[tuple[str, Text]]:
    """One row per node: its tasks, and how each stands. None for a group of a single task."""
    found: dict[str, list[TaskState]] = {}
    for one in tally.tasks():
        found.setdefault(one.node, []).append(one)
    if sum(map(len, found.values())) < 2:
        return []
    calm = tally.group == "epoch" and bool(tally.seconds) and tally.seconds[-1] < _CALM_S
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


def _saved(tally: Tally) -> Text:
    if tally.saved is None:
        return Text("nothing yet", style="dim")
    age = span(tally.clock() - tally.saved_at)
    return Text(f"epoch {tally.saved.epoch}, {age} ago, {size(tally.saved.size_bytes)}")
