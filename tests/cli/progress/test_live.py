"""The display that redraws itself."""

from __future__ import annotations

import io
import re
import time

import pytest
from rich.console import Console, Group
from rich.text import Text

from jobrun.cli.progress.live import LiveProgress, Screen, render_display
from jobrun.cli.progress.run_state import RunState
from jobrun.cli.terminal import Shell
from jobrun.core.events import GroupStarted, Noted, TaskEnded, TaskFacts
from tests.support.sample_events import Clock, epoch, logged, started


def _drawn(state, width):
    file = io.StringIO()
    Console(file=file, width=width, color_system=None).print(Group(*render_display(state, width)))
    return file.getvalue()


def test_the_view_holds_epoch_metric_checkpoint_and_log_in_eighty_columns():
    clock = Clock()
    state = RunState(clock=clock)
    state.update(started())
    for number, loss in enumerate((0.5, 0.25, 0.125), start=1):
        clock.now += 2
        for event in epoch(number, loss):
            state.update(event)
    clock.now += 3
    drawn = _drawn(state, 80)
    assert "3 of at most 100   9.0 s, at most 3 m 12 s left" in drawn
    assert "0.125" in drawn
    assert "█▃▁" in drawn
    assert "epoch 3, 3.0 s ago, 2.0 KiB" in drawn
    assert "lloyd: pass 3" in drawn
    assert max(len(line) for line in drawn.splitlines()) <= 80


def test_long_lines_are_cut_not_folded():
    state = RunState(clock=Clock())
    for event in [started(), *epoch(1, 0.5), logged("x" * 300)]:
        state.update(event)
    assert len(_drawn(state, 60).splitlines()) == len(_drawn(state, 400).splitlines())


def test_messages_printed_once_stay_on_the_screen(capsys):
    progress = LiveProgress(Shell({}), RunState(clock=Clock()))
    with progress:
        for event in [started(), Noted("uses the checkpoint of epoch 3"), *epoch(1, 0.5)]:
            progress(event)
        progress(GroupStarted("exit", 1, ("result",)))
        progress(logged("purity 79%", "exit"))
    errors = capsys.readouterr().err
    assert "job/brisk-heron starts" in errors
    assert "uses the checkpoint of epoch 3" in errors
    assert "lloyd: purity 79%" in errors
    assert "pass 1" not in errors


def test_nothing_is_drawn_before_the_run_started():
    assert _drawn(RunState(clock=Clock()), 80).strip() == ""


def _busy(nodes=("a", "b"), seconds=2.0):
    """An epoch in which ``read`` has ended on one node, and ``fit`` waits for the rest."""
    facts = [TaskFacts("epoch", "read", node) for node in nodes]
    facts += [TaskFacts("epoch", "fit", nodes[0], ("read",))]
    state = RunState(clock=Clock())
    events = [started(tasks=tuple(facts)), GroupStarted("epoch", 1, ("read", "fit"))]
    events += [TaskEnded("read", nodes[0], 1, seconds, failed=False)]
    for event in events:
        state.update(event)
    return state


def test_each_node_shows_its_tasks_and_their_states():
    drawn = _drawn(_busy(), 80)

    assert "a      ✓ read 2.0 s   · fit" in drawn
    assert "b      ▸ read" in drawn


def test_tasks_of_short_epochs_are_shown_by_their_mean_times():
    state = _busy(seconds=0.02)
    for event in [epoch(1, 0.5)[-1], GroupStarted("epoch", 2, ("read", "fit"))]:
        state.update(event)

    drawn = _drawn(state, 80)

    assert "a      read 20 ms   fit" in drawn
    assert "▸" not in drawn


def test_of_many_nodes_those_that_work_are_shown():
    nodes = tuple(f"n{number}" for number in range(20))

    drawn = _drawn(_busy(nodes), 80)

    assert "n1     ▸ read" in drawn
    assert not re.search(r"\bn0\b", drawn)
    assert "and 14 more nodes" in drawn


def test_a_wide_terminal_shows_more_of_a_metric():
    state = RunState(clock=Clock())
    state.update(started())
    for number in range(60):
        for event in epoch(number + 1, 1.0 / (number + 1)):
            state.update(event)

    assert _drawn(state, 200).count("▁") > _drawn(state, 80).count("▁")
    assert max(len(line) for line in _drawn(state, 40).splitlines()) <= 40


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


def test_messages_stay_above_the_redrawn_display(terminal):
    lines = ["one\ntwo"]
    screen = Screen(terminal.console, lambda: Text(lines[0]))

    screen.refresh()
    screen.say("said")
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
    screen.say("said")

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
        screen.say("said")
        deadline = time.monotonic() + 10
        while "here" not in terminal.file.getvalue():
            assert time.monotonic() < deadline

    assert terminal.rows() == ["said"]
    assert terminal.file.getvalue().endswith("\x1b[?25h")


def test_a_terminal_that_goes_away_ends_the_display_only(terminal):
    with Screen(terminal.console, lambda: Text("here")) as screen:
        terminal.file.close()
        screen.say("said")
