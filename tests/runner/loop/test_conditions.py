"""Whether a run stops, from values alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jobrun.core.errors import TaskFailedError
from jobrun.graph.conditions import (
    Endless,
    Probe,
    StopAfterEpochs,
    StopAfterTime,
    StopWhen,
    StopWithoutImprovement,
)
from jobrun.graph.expressions import Const
from jobrun.runner.loop.conditions import (
    find_stop_reasons,
    is_better,
    total_epochs,
    update_patience,
)
from jobrun.runner.saved_progress import Progress

WHEN = StopWhen(Probe("x < tol", (Const(True),)))


def stops(condition, progress, holds=True):
    return bool(find_stop_reasons((condition,), progress, lambda probe: holds))


def test_epochs_are_a_total():
    assert not stops(StopAfterEpochs(3), Progress(epoch=2))
    assert stops(StopAfterEpochs(3), Progress(epoch=3))
    assert stops(StopAfterEpochs(3), Progress(epoch=4))


def test_a_condition_on_the_state_stops_when_it_holds():
    assert stops(WHEN, Progress(epoch=1))
    assert not stops(WHEN, Progress(epoch=1), holds=False)


def test_time_limit_counts_the_whole_run():
    assert not stops(StopAfterTime(10.0), Progress(epoch=1, elapsed_s=9.9))
    assert stops(StopAfterTime(10.0), Progress(epoch=1, elapsed_s=10.0))


def test_endless_never_stops():
    assert not stops(Endless(), Progress(epoch=10**9))


def test_stop_conditions_are_not_checked_after_init():
    conditions = (WHEN, StopAfterTime(0.0))

    assert find_stop_reasons(conditions, Progress(epoch=0, elapsed_s=1.0), lambda probe: True) == ()


def test_all_reasons_are_given_in_the_order_of_the_spec():
    reasons = find_stop_reasons((WHEN, StopAfterEpochs(1)), Progress(epoch=1), lambda probe: True)

    assert reasons == ("x < tol", "1 epoch has run")


def run_patience(condition, values):
    progress = Progress()
    for epoch, value in enumerate(values, start=1):
        patience = update_patience((condition,), progress.patience, {"loss": value})
        progress = replace(progress, epoch=epoch, patience=patience)
        if stops(condition, progress):
            return epoch
    return None


@pytest.mark.parametrize(
    ("values", "stopped"),
    [
        ([5, 4, 3, 2], None),
        ([5, 5, 5], 3),
        ([5, 4, 4.5, 4, 9], 4),
        ([float("nan"), float("nan")], 2),
        ([5, float("nan"), 4, 4, 4], 5),
    ],
)
def test_patience_ends_after_epochs_without_improvement(values, stopped):
    assert run_patience(StopWithoutImprovement("loss", 2), values) == stopped


def test_gain_below_min_delta_does_not_count():
    condition = StopWithoutImprovement("loss", 1, min_delta=0.5)

    assert run_patience(condition, [5, 4.4, 4.0]) == 3


def test_raised_patience_keeps_the_count():
    few, many = StopWithoutImprovement("loss", 2), StopWithoutImprovement("loss", 3)
    patience = update_patience((few,), (), {"loss": 1.0})
    patience = update_patience((few,), patience, {"loss": 1.0})
    patience = update_patience((many,), patience, {"loss": 1.0})

    assert stops(many, Progress(epoch=3, patience=patience)) is False
    assert stops(few, Progress(epoch=3, patience=patience)) is True


def test_patience_with_text_is_an_error():
    with pytest.raises(TaskFailedError, match="must be a number"):
        update_patience((StopWithoutImprovement("loss", 2),), (), {"loss": "low"})


def test_total_epochs_is_the_smallest():
    assert total_epochs((StopAfterEpochs(9), WHEN, StopAfterEpochs(3))) == 3
    assert total_epochs((WHEN,)) is None


HUGE = 10**400


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("start", [2**60, HUGE, -HUGE], ids=["2**60", "huge", "-huge"])
def test_integers_of_any_length_are_compared_exactly(mode, start):
    step = 1 if mode == "max" else -1
    values = [start + step * number for number in range(6)]

    assert run_patience(StopWithoutImprovement("loss", 1, mode), values) is None
    assert run_patience(StopWithoutImprovement("loss", 1, mode, 0.5), values) is None
    assert run_patience(StopWithoutImprovement("loss", 1, mode, 1.5), values) == 2
    assert run_patience(StopWithoutImprovement("loss", 1, mode), [start] * 3) == 2


def test_an_integer_too_long_for_a_float_is_compared_with_floats():
    assert run_patience(StopWithoutImprovement("loss", 1, "max", 0.5), [1.5, HUGE, -HUGE]) == 3
    assert run_patience(StopWithoutImprovement("loss", 1, "min"), [HUGE, float("inf")]) == 2


def test_conditions_whose_gains_differ_in_a_late_digit_wait_apart():
    few = StopWithoutImprovement("x", 1, "max", 1.0)
    many = StopWithoutImprovement("x", 20, "max", 1.0000001)
    progress = Progress()
    for epoch in range(1, 11):
        patience = update_patience((few, many), progress.patience, {"x": 1.00000005 * epoch})
        progress = replace(progress, epoch=epoch, patience=patience)

        assert not stops(few, progress)


def test_better_is_strictly_better():
    assert is_better(1.0, None, "min")
    assert not is_better(1.0, 1.0, "min")
    assert is_better(2.0, 1.0, "max")
    assert not is_better(float("nan"), None, "max")
