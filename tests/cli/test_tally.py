"""The picture of a run, from its events."""

from __future__ import annotations

from jobrun.cli.tally import Tally, log_line
from jobrun.core.events import (
    CheckpointFailed,
    GroupRetried,
    GroupStarted,
    Measured,
    TaskEnded,
    TaskFacts,
)
from tests.support.happenings import Clock, ended, epoch, epoch_ended, logged, started


def test_an_epoch_leaves_its_metric_its_checkpoint_and_its_last_line():
    tally = Tally(clock=Clock())
    for event in [started(), *epoch(1, 0.5), *epoch(2, 0.25), ended(2)]:
        tally.see(event)
    assert tally.epoch == 2
    assert list(tally.metrics["loss"]) == [0.5, 0.25]
    assert tally.latest() == {"loss": 0.25}
    assert tally.saved is not None
    assert tally.saved.epoch == 2
    assert list(tally.lines) == ["lloyd: pass 1", "lloyd: pass 2"]
    assert tally.ended is not None


def test_the_rest_is_what_the_epochs_so_far_took_on_average():
    tally = Tally(clock=Clock())
    tally.see(started(total=10))
    assert tally.left is None
    tally.see(epoch_ended(2))
    assert tally.left == 8 * 0.25
    without_limit = Tally(clock=Clock())
    without_limit.see(started(total=None))
    without_limit.see(epoch_ended(2))
    assert without_limit.left is None


def test_a_resumed_run_starts_at_its_epoch():
    tally = Tally(clock=Clock())
    tally.see(started(epoch=7))
    assert (tally.first_epoch, tally.epoch, tally.epochs_seen) == (7, 7, 0)


def test_metrics_of_steps_do_not_crowd_the_display():
    tally = Tally(clock=Clock())
    tally.see(Measured("batch_loss", 1.0, 1, task="sgd", node="local", instance=3))
    assert tally.latest() == {}


def test_failed_saves_are_counted():
    tally = Tally(clock=Clock())
    tally.see(CheckpointFailed(3, "disk full"))
    assert tally.failed_saves == 1


def test_a_log_line_cannot_steer_the_terminal():
    assert log_line(logged("red \x1b[31m\n")) == "lloyd: red \u241b[31m"


def _two(tally):
    tally.see(started(tasks=(TaskFacts("epoch", "a", "x"), TaskFacts("epoch", "b", "x", ("a",)))))
    tally.see(GroupStarted("epoch", 1, ("a", "b")))


def _states(tally):
    return [(one.task, one.state) for one in tally.tasks()]


def test_a_task_runs_as_soon_as_those_it_needs_have_ended():
    tally = Tally(clock=Clock())
    _two(tally)
    assert _states(tally) == [("a", "running"), ("b", "waiting")]

    tally.see(TaskEnded("a", "x", 1, 0.5, failed=False))
    assert _states(tally) == [("a", "ended"), ("b", "running")]

    tally.see(TaskEnded("b", "x", 1, 0.5, failed=True))
    assert _states(tally) == [("a", "ended"), ("b", "failed")]


def test_an_attempt_that_does_not_count_starts_all_tasks_anew():
    tally = Tally(clock=Clock())
    _two(tally)
    tally.see(TaskEnded("a", "x", 1, 0.5, failed=True))

    tally.see(GroupRetried("epoch", 1, 1))

    assert _states(tally) == [("a", "running"), ("b", "waiting")]
    assert tally.tasks()[0].seconds == 0.5


def test_the_time_left_counts_saves_and_counts_down():
    clock = Clock()
    tally = Tally(clock=clock)
    tally.see(started(total=10))
    for number in range(1, 4):
        clock.now += 2
        for event in epoch(number, 0.5):
            tally.see(event)

    # An epoch takes 0.25 s, and 2 s until the next one has ended.
    assert tally.left == 14
    clock.now += 1
    assert tally.left == 13
