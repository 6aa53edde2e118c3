"""Progress as a calm display that redraws itself, for a person at a terminal."""

from __future__ import annotations

from threading import Lock
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from jobrun.cli.output import number, size, span, sparkline
from jobrun.cli.plain import heading, warning
from jobrun.cli.shell import Shell
from jobrun.cli.tally import Tally, log_line
from jobrun.core.events import Event, Logged, Noted, RunStarted

_REDRAWS_PER_S = 4
_MOST_METRICS = 8
_BAR_WIDTH = 48


class LiveProgress:
    """A listener that keeps a few lines up to date while the run lasts.

    What is said once and for all (the start, warnings, the log of groups other than the
    epochs) scrolls above the display; the display disappears at the end.
    """

    def __init__(self, shell: Shell, tally: Tally) -> None:
        self._tally = tally
        self._lock = Lock()
        self._console = Console(stderr=True, no_color=not shell.colours, highlight=False)
        self._live = Live(
            get_renderable=self._view,
            console=self._console,
            refresh_per_second=_REDRAWS_PER_S,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> LiveProgress:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def __call__(self, event: Event) -> None:
        """Take one event."""
        with self._lock:
            self._tally.see(event)
        line = warning(event)
        if line is not None:
            self._console.print(Text(line, style="yellow"))
        elif isinstance(event, RunStarted):
            self._console.print(Text(heading(event)))
        elif isinstance(event, Noted):
            self._console.print(Text(event.text))
        elif isinstance(event, Logged) and self._tally.group != "epoch":
            self._console.print(Text(log_line(event)))

    def _view(self) -> RenderableType:
        with self._lock:
            return view(self._tally)


def view(tally: Tally) -> RenderableType:
    """The display: where the run is, its metrics, its last checkpoint, its last log lines."""
    if tally.started is None:
        return Text("")
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column(no_wrap=True, overflow="ellipsis")
    rows.add_row("epoch", _position(tally))
    total = tally.started.total_epochs
    if total:
        rows.add_row("", ProgressBar(total=total, completed=tally.epoch, width=_BAR_WIDTH))
    for name, values in list(tally.metrics.items())[:_MOST_METRICS]:
        numbers = [float(value) for value in values if isinstance(value, int | float)]
        rows.add_row(name, Text(f"{number(values[-1]):<12}").append(sparkline(numbers), "cyan"))
    rows.add_row("saved", _saved(tally))
    lines = [Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in tally.lines]
    return Group(rows, *(lines if tally.group == "epoch" else []))


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


def _saved(tally: Tally) -> Text:
    if tally.saved is None:
        return Text("nothing yet", style="dim")
    age = span(tally.clock() - tally.saved_at)
    return Text(f"epoch {tally.saved.epoch}, {age} ago, {size(tally.saved.size_bytes)}")
