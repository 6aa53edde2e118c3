"""Redraw a few lines at the bottom of a terminal while other lines scroll above them.

Everything that is said meanwhile scrolls above them. They are written in one piece, and only
when they have changed, so nothing flickers; after the window has become narrower, the lines that
its terminal has folded are taken away, too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Self

from rich.cells import cell_len
from rich.console import Console, ConsoleDimensions, RenderableType

from jobrun.core.captured_output import STREAMS
from jobrun.core.text.patterns import lazy_pattern

_EVERY_S = 0.25
_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"
# Terminals that know it show nothing of what lies between; the others pass over it (mode 2026).
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_STYLE = lazy_pattern(r"\x1b\[[0-9;]*m")
# Of the last row nothing is used: a line end there would scroll.
_ROWS_LEFT_FREE = 2


class TerminalConsole(Console):
    """A console that knows its size also while standard descriptors lead elsewhere."""

    @property
    def size(self) -> ConsoleDimensions:
        """Return the screen's size: COLUMNS and LINES if set, else that of stderr's terminal."""
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
        self._over = Event()
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

    def say(self, text: RenderableType) -> None:
        """Print lines on the screen above the display that is redrawn at its bottom."""
        with contextlib.suppress(OSError, ValueError), self._lock:
            lines, _ = self._render(text, cut=False)
            drawn, widths = self._render(self._view())
            away = self._erasure()
            self._widths = widths
            self._drawn = drawn, self._console.width
            self._write(f"{_BEGIN}{away}{lines}{drawn}{_END}")

    def refresh(self) -> None:
        """Draw the display at the bottom of the screen again if it has changed."""
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
        """Render the display at the bottom of the screen; return it and the width of each line."""
        with self._console.capture() as caught:
            self._console.print(text)
        lines = caught.get().splitlines()
        if cut:
            lines = lines[: max(1, self._console.height - _ROWS_LEFT_FREE)]
        written = "".join(f"{line}\n" for line in lines)
        return written, [cell_len(_STYLE.sub("", line)) for line in lines]

    def _erasure(self) -> str:
        """Return the escape sequence that erases the display's lines from the screen."""
        width = max(1, self._console.width)
        rows = sum(max(1, -(-cells // width)) for cells in self._widths)
        self._widths = []
        return f"\r\x1b[{rows}A\x1b[J" if rows else ""

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._console.file.write(text)
            self._console.file.flush()
