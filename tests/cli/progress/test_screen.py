from __future__ import annotations

import io
import re
import time

import pytest
from rich.console import Console, Group
from rich.text import Text

from jobrun.cli.progress.screen import Screen

_CONTROL = re.compile(r"\x1b\[[?0-9;]*[a-zA-Z]")


class Terminal:
    """What a terminal of some size shows of all that was written; it folds lines that are long."""

    def __init__(self, width=40, height=24):
        self.file = io.StringIO()
        self.console = Console(
            file=self.file, force_terminal=True, width=width, height=height, color_system=None
        )

    def resize(self, width):
        self.console.width = width

    def rows(self, width=None):
        """The rows there are, as if everything had been written at one width."""
        width = width or self.console.width
        rows, at = [""], 0
        for part in re.split(r"(\x1b\[[?0-9;]*[a-zA-Z]|\n|\r)", self.file.getvalue()):
            if part == "\n":
                at += 1
                if at == len(rows):
                    rows.append("")
            elif part.endswith("A") and _CONTROL.fullmatch(part):
                at = max(0, at - int(part[2:-1]))
            elif part == "\x1b[J":
                rows[at:] = [""]
            elif part and part != "\r" and not _CONTROL.fullmatch(part):
                folded = [part[i : i + width] for i in range(0, len(part), width)]
                rows[at : at + 1] = folded
                at += len(folded) - 1
        return rows[:-1] if not rows[-1] else rows


@pytest.fixture
def terminal():
    return Terminal()


def test_what_is_said_stays_above_what_is_redrawn(terminal):
    lines = ["one\ntwo"]
    screen = Screen(terminal.console, lambda: Text(lines[0]))

    screen.refresh()
    screen.say(Text("said"))
    lines[0] = "three"
    screen.refresh()

    assert terminal.rows() == ["said", "three"]


def test_nothing_is_written_as_long_as_nothing_changes(terminal):
    screen = Screen(terminal.console, lambda: Text("same"))
    screen.refresh()
    before = terminal.file.getvalue()

    screen.refresh()

    assert terminal.file.getvalue() == before


def test_a_window_that_became_narrower_leaves_nothing_behind(terminal):
    view = Group(Text("x" * 40, no_wrap=True, overflow="ellipsis"))
    screen = Screen(terminal.console, lambda: view)
    screen.say(Text("said"))

    terminal.resize(15)
    screen.refresh()

    # The terminal has folded the old line into three.
    assert terminal.rows(15) == ["said", "x" * 14 + "…"]


def test_a_window_of_few_rows_is_not_overrun():
    terminal = Terminal(height=6)

    Screen(terminal.console, lambda: Text("\n".join("abcdefgh"))).refresh()

    assert terminal.rows() == list("abcd")


def test_it_is_gone_at_the_end_and_the_cursor_is_back(terminal):
    with Screen(terminal.console, lambda: Text("here")) as screen:
        screen.say(Text("said"))
        deadline = time.monotonic() + 10
        while "here" not in terminal.file.getvalue():
            assert time.monotonic() < deadline

    assert terminal.rows() == ["said"]
    assert terminal.file.getvalue().endswith("\x1b[?25h")


def test_a_terminal_that_goes_away_ends_the_display_only(terminal):
    with Screen(terminal.console, lambda: Text("here")) as screen:
        terminal.file.close()
        screen.say(Text("said"))
