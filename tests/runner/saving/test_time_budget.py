from __future__ import annotations

from itertools import pairwise

import pytest

from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.runner.saving import time_budget
from jobrun.runner.saving.time_budget import LONGEST_S, SaveBudget, loss_bound_s
from tests.conftest import ALLOWANCES_S


@pytest.fixture(autouse=True)
def allowance(monkeypatch):
    """What saves may cost for users; other tests have more."""
    monkeypatch.setattr(time_budget, "FIRST_ALLOWANCE_S", ALLOWANCES_S[0])
    monkeypatch.setattr(time_budget, "ALLOWANCE_S", ALLOWANCES_S[1])


class Clock:
    """A clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _epochs(epoch_s: float, save_s: float, count: int) -> tuple[list[int], float]:
    """Run equal epochs with saves of one cost; return what was saved, and the share of waiting."""
    clock = Clock()
    budget = SaveBudget(0.05, clock)
    saved, waited_s = [], 0.0
    for epoch in range(1, count + 1):
        clock.now += epoch_s
        if budget.is_due():
            saved.append(epoch)
            clock.now += save_s
            waited_s += save_s
            budget.spend(save_s)
    return saved, waited_s / clock.now


def test_each_epoch_is_saved_while_saves_are_cheap():
    saved, _ = _epochs(epoch_s=1.0, save_s=0.04, count=1000)

    assert saved == list(range(1, 1001))


def test_waiting_takes_five_percent_of_a_long_run():
    saved, share = _epochs(epoch_s=0.001, save_s=0.01, count=500_000)

    assert 0.049 < share < 0.053
    # All of them while the allowance lasts, and evenly from then on.
    gaps = [after - before for before, after in pairwise(saved[150:])]
    assert max(gaps) - min(gaps) <= 2


@pytest.mark.parametrize("save_s", [0.003, 0.09])
def test_a_short_job_has_each_epoch_saved_also_on_a_slow_disk(save_s):
    saved, _ = _epochs(epoch_s=0.001, save_s=save_s, count=time_budget.FIRST_SAVES)

    assert saved == list(range(1, time_budget.FIRST_SAVES + 1))


def test_thousands_of_short_epochs_take_no_longer_than_with_seldom_saves():
    saved, _ = _epochs(epoch_s=0.0002, save_s=0.003, count=2000)

    assert 0.003 * len(saved) < 0.2 * 2000 * 0.0002


def test_the_first_epoch_after_a_resume_is_saved_whatever_that_costs():
    saved, _ = _epochs(epoch_s=1.0, save_s=100.0, count=10)

    assert saved == [1]


def test_a_save_that_costs_more_than_its_share_comes_after_ten_minutes():
    saved, _ = _epochs(epoch_s=10.0, save_s=3600.0, count=200)

    assert [after - before for before, after in pairwise(saved)] == [LONGEST_S / 10.0] * (
        len(saved) - 1
    )


def test_a_long_run_does_not_wait_for_a_save_that_is_being_written():
    clock = Clock()
    budget = SaveBudget(0.05, clock)
    for _ in range(time_budget.FIRST_SAVES):
        budget.spend(0.001)
    assert budget.is_due(busy_s=0.03)
    clock.now = 100.0

    assert not budget.is_due(busy_s=2.0)
    assert budget.is_due()
    clock.now = LONGEST_S
    assert budget.is_due(busy_s=2.0)


def test_processor_time_of_the_background_counts_as_waiting():
    clock = Clock()
    budget = SaveBudget(0.05, clock)
    for _ in range(time_budget.FIRST_SAVES):
        budget.spend(0.001)
    budget.spend_background(0.1)

    assert not budget.is_due()
    clock.now = 5.0
    assert budget.is_due()


@pytest.mark.parametrize(
    ("policy", "bound_s"),
    [
        (CheckpointPolicy(every_epochs=1), 2.0 + 0.5),
        (CheckpointPolicy(every_epochs=3), 6.0 + 0.5),
        (CheckpointPolicy(every_s=10.0), 10.0 + 2.0 + 0.5),
        (CheckpointPolicy(), 20 * 0.1 + 2.0 + 0.5),
        (CheckpointPolicy(every_records=5), 2.0 + 0.5),
    ],
)
def test_a_kill_loses_what_ran_since_the_last_durable_epoch(policy, bound_s):
    assert loss_bound_s(policy, epoch_s=2.0, save_s=0.5, wait_s=0.1) == pytest.approx(bound_s)


def test_a_kill_loses_ten_minutes_and_an_epoch_where_saves_are_slow():
    assert loss_bound_s(CheckpointPolicy(), 2.0, 100.0, 100.0) == LONGEST_S + 2.0 + 100.0
