"""The picture of a run, from its events."""

from __future__ import annotations

from jobrun.cli.progress.run_state import RunState, render_log
from jobrun.core.events import (
    CheckpointFailed,
    EpochEnded,
    GroupRetried,
    GroupStarted,
    Measured,
    TaskEnded,
    TaskFacts,
)
from jobrun.core.text.terminal_text import terminal_line
from tests.support.sample_events import Clock, ended, epoch, logged, started


def test_an_epoch_leaves_its_metric_its_checkpoint_and_its_last_line():
    state = RunState(clock=Clock())
    for event in [started(), *epoch(1, 0.5), *epoch(2, 0.25), ended(2)]:
        state.update(event)
    assert state.epoch == 2
    assert list(state.metrics["loss"]) == [0.5, 0.25]
    assert state.latest() == {"loss": 0.25}
    assert state.saved is not None
    assert state.saved.epoch == 2
    assert list(state.lines) == ["lloyd: pass 1", "lloyd: pass 2"]
    assert state.ended is not None


def test_remaining_time_is_the_average_of_the_epochs_so_far():
    state = RunState(clock=Clock())
    state.update(started(total=10))
    assert state.remaining_s is None
    state.update(EpochEnded(2, 2.5, (), ()))
    assert state.remaining_s == 8 * 2.5
    without_limit = RunState(clock=Clock())
    without_limit.update(started(total=None))
    without_limit.update(EpochEnded(2, 2.5, (), ()))
    assert without_limit.remaining_s is None


def test_a_resumed_run_starts_at_its_epoch():
    state = RunState(clock=Clock())
    state.update(started(epoch=7))
    assert (state.first_epoch, state.epoch, state.epochs_seen) == (7, 7, 0)


def test_metrics_of_steps_do_not_crowd_the_display():
    state = RunState(clock=Clock())
    state.update(Measured("batch_loss", 1.0, 1, task="sgd", node="local", instance=3))
    assert state.latest() == {}


def test_failed_saves_are_counted():
    state = RunState(clock=Clock())
    state.update(CheckpointFailed(3, "disk full"))
    assert state.failed_saves == 1


def test_a_log_line_keeps_its_colours_and_cannot_steer_the_terminal():
    line = terminal_line(render_log(logged("\x1b[31mred\x1b[2J\n")))

    assert line == "lloyd: \x1b[31mred\u241b[2J\x1b[0m"


def _two(state):
    state.update(
        started(tasks=(TaskFacts("epoch", "a", "x"), TaskFacts("epoch", "b", "x", ("a",))))
    )
    state.update(GroupStarted("epoch", 1, ("a", "b")))


def _states(state):
    return [(task.task, task.state) for task in state.tasks()]


def test_a_task_runs_as_soon_as_those_it_needs_have_ended():
    state = RunState(clock=Clock())
    _two(state)
    assert _states(state) == [("a", "running"), ("b", "waiting")]

    state.update(TaskEnded("a", "x", 1, 0.5, failed=False))
    assert _states(state) == [("a", "ended"), ("b", "running")]

    state.update(TaskEnded("b", "x", 1, 0.5, failed=True))
    assert _states(state) == [("a", "ended"), ("b", "failed")]


def test_a_discarded_attempt_starts_all_tasks_again():
    state = RunState(clock=Clock())
    _two(state)
    state.update(TaskEnded("a", "x", 1, 0.5, failed=True))

    state.update(GroupRetried("epoch", 1, 1))

    assert _states(state) == [("a", "running"), ("b", "waiting")]
    assert state.tasks()[0].seconds == 0.5


def test_the_time_left_does_not_jump_with_each_save_of_short_epochs():
    clock = Clock()
    state = RunState(clock=clock)
    state.update(started(total=10_000))
    estimates = []
    for number in range(1, 5001):
        clock.now += 0.002 + (0.4 if number % 400 == 0 else 0.0)
        state.update(EpochEnded(number, 0.002, (), ()))
        if state.remaining_s is not None:
            estimates.append(state.remaining_s + clock.now)

    # Each epoch takes 3 ms in the mean, so all take 30 s.
    assert len(estimates) > 4000
    assert max(abs(end - 1030) for end in estimates[len(estimates) // 4 :]) < 4


def test_no_time_left_is_estimated_by_the_first_short_epochs():
    clock = Clock()
    state = RunState(clock=clock)
    state.update(started(total=10_000))
    for number in range(1, 100):
        clock.now += 0.01
        state.update(EpochEnded(number, 0.01, (), ()))

    assert state.remaining_s is None


def test_the_time_left_counts_saves_and_counts_down():
    clock = Clock()
    state = RunState(clock=clock)
    state.update(started(total=10))
    for number in range(1, 4):
        clock.now += 2
        for event in epoch(number, 0.5):
            state.update(event)

    # An epoch takes 0.25 s, and 2 s until the next one has ended.
    assert state.remaining_s == 14
    clock.now += 1
    assert state.remaining_s == 13
