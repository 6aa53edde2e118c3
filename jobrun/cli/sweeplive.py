"""Progress of a sweep as a display that redraws itself. What it shows is ``sweepprogress``'s."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from jobrun.cli.screen import Screen
from jobrun.cli.shell import Shell
from jobrun.cli.sweepprogress import Board, counts, ended_lines, heading, running_rows
from jobrun.tools.sweeping.pool import Ended, Happening

_BAR_WIDTH = 48


class LiveSweep:
    """Says a line for each point that has ended, above a display of those that run."""

    def __init__(self, shell: Shell, board: Board) -> None:
        self._shell = shell
        self._board = board
        console = Console(stderr=True, no_color=not shell.colours, highlight=False)
        self._screen = Screen(console, lambda: view(board))

    def __enter__(self) -> Self:
        self._board.started_at = self._board.clock()
        self._screen.__enter__()
        self._screen.say(Text(heading(self._board)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._screen.__exit__(kind, error, trace)

    def tell(self, event: Happening) -> None:
        """Something has happened."""
        self._board.see(event)
        if isinstance(event, Ended):
            for line in ended_lines(event, self._board, self._shell):
                self._screen.say(Text.from_ansi(line))


def view(board: Board) -> RenderableType:
    """The display: how many are over, and where those are that run."""
    rows = Table.grid(padding=(0, 2))
    for style in ("cyan", "", ""):
        rows.add_column(style=style, no_wrap=True, overflow="ellipsis")
    for row in running_rows(board):
        rows.add_row(*map(Text, row))
    bar = Table.grid()
    # In a row: by itself it would not end its line.
    bar.add_row(ProgressBar(total=max(1, board.count), completed=board.done, width=_BAR_WIDTH))
    line = Text(counts(board), no_wrap=True, overflow="ellipsis")
    return Group(*([rows] if rows.row_count else []), bar, line)
