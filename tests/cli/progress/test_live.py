"""The display that redraws itself."""

from __future__ import annotations

import io

from rich.console import Console, Group

from jobrun.cli.progress.live import LiveProgress, render_display
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


def test_what_is_said_once_stays_on_the_screen(capsys):
    progress = LiveProgress(Shell({}), RunState(clock=Clock()))
    with progress:
        for event in [started(), Noted("uses the checkpoint of epoch 3"), *epoch(1, 0.5)]:
            progress(event)
        progress(GroupStarted("exit", 1, ("result",)))
        progress(logged("purity 79%", "exit"))
    said = capsys.readouterr().err
    assert "job/brisk-heron starts" in said
    assert "uses the checkpoint of epoch 3" in said
    assert "lloyd: purity 79%" in said
    assert "pass 1" not in said


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


def test_each_node_shows_its_tasks_and_how_they_stand():
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
    assert "n0 " not in drawn
    assert "and 14 more nodes" in drawn


def test_a_wide_terminal_shows_more_of_a_metric():
    state = RunState(clock=Clock())
    state.update(started())
    for number in range(60):
        for event in epoch(number + 1, 1.0 / (number + 1)):
            state.update(event)

    assert _drawn(state, 200).count("▁") > _drawn(state, 80).count("▁")
    assert max(len(line) for line in _drawn(state, 40).splitlines()) <= 40
