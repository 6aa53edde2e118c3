from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.checkpoint.stores.retention import epochs_to_delete
from jobrun.graph.checkpoint_policy import CheckpointPolicy

EPOCHS = st.sets(st.integers(0, 200))
POLICIES = st.builds(
    CheckpointPolicy,
    keep_last=st.integers(0, 10),
    keep_every=st.integers(0, 10),
    keep_best=st.tuples(
        st.sampled_from(["", "loss"]), st.sampled_from(["min", "max"]), st.integers(1, 4)
    ),
)
BEST = st.dictionaries(st.integers(0, 200), st.floats())


def test_a_policy_without_rules_keeps_all():
    assert epochs_to_delete(CheckpointPolicy(), range(100)) == ()


def test_the_newest_stay():
    assert epochs_to_delete(CheckpointPolicy(keep_last=3), range(7)) == (1, 2, 3)


def test_keep_every_keeps_each_nth_epoch():
    policy = CheckpointPolicy(keep_last=2, keep_every=3)

    assert epochs_to_delete(policy, range(9)) == (1, 2, 4, 5)


def test_the_best_stay_and_the_earlier_of_equals():
    policy = CheckpointPolicy(keep_last=2, keep_best=("loss", "min", 2))

    chosen = epochs_to_delete(policy, range(8), {1: 0.5, 2: 0.5, 3: math.nan, 4: 0.5, 5: 0.9})

    assert chosen == (3, 4, 5)


def test_the_highest_are_the_best_with_mode_max():
    policy = CheckpointPolicy(keep_last=2, keep_best=("score", "max", 1))

    assert epochs_to_delete(policy, range(6), {1: 0.1, 2: math.inf, 3: 0.9}) == (1, 3)


def test_rules_without_keep_last_also_keep_the_two_newest():
    assert epochs_to_delete(CheckpointPolicy(keep_every=10), range(25)) == tuple(
        epoch for epoch in range(23) if epoch % 10
    )


@pytest.mark.parametrize(("mode", "best_epoch"), [("min", 1), ("max", 2)])
def test_integers_too_long_for_a_float_are_among_the_values(mode, best_epoch):
    policy = CheckpointPolicy(keep_last=2, keep_best=("x", mode, 1))
    best = {1: -(10**400), 2: 10**400, 3: 0.5}

    assert set(range(6)) - set(epochs_to_delete(policy, range(6), best)) == {0, best_epoch, 4, 5}


@given(POLICIES, EPOCHS, BEST, EPOCHS)
def test_epoch_0_the_two_newest_and_the_pinned_are_never_chosen(policy, epochs, best, pinned):
    chosen = set(epochs_to_delete(policy, epochs, best, pinned))

    assert not chosen & {0, *pinned, *sorted(epochs)[-2:]}
    assert chosen <= epochs


@given(POLICIES, EPOCHS, BEST)
def test_each_rule_keeps_its_epochs(policy, epochs, best):
    remaining = sorted(epochs - set(epochs_to_delete(policy, epochs, best)))

    if policy.keep_last:
        assert remaining[-policy.keep_last :] == sorted(epochs)[-policy.keep_last :]
    if policy.keep_every:
        assert all(epoch in remaining for epoch in epochs if epoch % policy.keep_every == 0)
    if policy.keep_best[0]:
        _, mode, count = policy.keep_best
        ranked = [best[epoch] for epoch in epochs if not math.isnan(best.get(epoch, math.nan))]
        ranked.sort(reverse=mode == "max")
        scores = [best[epoch] for epoch in remaining if epoch in best]
        assert all(value in scores for value in ranked[:count])


@given(POLICIES, EPOCHS, BEST)
def test_choosing_again_after_the_deletion_chooses_nothing(policy, epochs, best):
    remaining = epochs - set(epochs_to_delete(policy, epochs, best))

    assert epochs_to_delete(policy, remaining, best) == ()


@given(POLICIES, st.lists(st.integers(0, 200), unique=True))
def test_the_order_of_the_epochs_does_not_matter(policy, epochs):
    assert epochs_to_delete(policy, epochs) == epochs_to_delete(policy, sorted(epochs))


def test_damaged_epochs_stay_and_do_not_count():
    policy = CheckpointPolicy(keep_last=2)

    assert epochs_to_delete(policy, range(10), damaged=(9, 7)) == (1, 2, 3, 4, 5)
