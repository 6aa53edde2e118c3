"""Whether an object has changed, seen without a copy of it."""

from __future__ import annotations

import random

import numpy as np
import pytest

from jobrun.values.change_detection import fingerprint


@pytest.mark.parametrize(
    ("item", "change"),
    [
        (random.Random(1), lambda value: value.random()),
        (np.random.default_rng(1), lambda value: value.random()),
        (np.random.RandomState(1), lambda value: value.normal()),
    ],
)
def test_a_draw_changes_a_generator(item, change):
    before = fingerprint(item)

    assert fingerprint(item) == before
    change(item)
    assert fingerprint(item) != before


@pytest.mark.long
def test_modules_and_optimizers_count_their_changes():
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    adam = torch.optim.AdamW(net.parameters())
    before = fingerprint(net), fingerprint(adam)

    net.eval()
    net(torch.ones(4, 3)).sum().backward()
    assert (fingerprint(net), fingerprint(adam)) == before
    adam.step()
    after = fingerprint(net), fingerprint(adam)
    assert after[0] != before[0]
    assert after[1] != before[1]
    net.train()
    net(torch.ones(4, 3))
    assert fingerprint(net) != after[0]
    stochastic = torch.optim.SGD(net.parameters(), lr=0.1)
    again = fingerprint(net)
    stochastic.step()
    assert fingerprint(net) != again
    with torch.no_grad():
        again = fingerprint(net)
        next(net.parameters()).zero_()
    assert fingerprint(net) != again


@pytest.mark.long
def test_fitting_changes_an_estimator_and_predicting_does_not():
    linear = pytest.importorskip("sklearn.linear_model")
    ridge, X, y = linear.Ridge(), np.arange(12.0).reshape(6, 2), np.arange(6.0)  # noqa: N806
    empty = fingerprint(ridge)
    fitted = fingerprint(ridge.fit(X, y))

    ridge.predict(X)

    assert fingerprint(ridge) == fitted
    assert fitted != empty


@pytest.mark.parametrize("enclosing", [lambda n: n, lambda n: [n], lambda n: {"k": (1, [n])}])
def test_an_integer_of_5000_digits_in_a_state_is_seen_to_change(enclosing):
    class Counting:
        def __init__(self):
            self.value = enclosing(10**5000)

        def state_dict(self):
            return {"value": self.value}

        def load_state_dict(self, state):
            self.value = state["value"]

    counting = Counting()
    before = fingerprint(counting)

    assert fingerprint(counting) == before
    counting.value = enclosing(10**5000 + 1)
    assert fingerprint(counting) != before
