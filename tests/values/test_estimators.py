"""With stand-ins; the real ones, slow to import, are in ``tests/e2e/test_objects.py``."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.values.adapters.registry import UnsavableError
from jobrun.values.estimators import estimator_state, is_estimator, set_estimator_state


class Mean:
    def __init__(self, decay=0.5, inner=None):
        self.decay = decay
        self.inner = inner

    def get_params(self, deep=True):
        return {"decay": self.decay, "inner": self.inner}

    def set_params(self, **params):
        vars(self).update(params)

    def fit(self, rows):
        self.mean_ = np.mean(rows, axis=0)
        self._count = len(rows)
        self._generator = np.random.RandomState(3)
        self.generator_ = self._generator
        if self.inner is not None:
            self.inner.fit(rows)


def test_all_attributes_go_out_and_in():
    mean, other = Mean(0.25, Mean()), Mean(0.5, Mean())
    mean.fit(np.arange(6.0).reshape(3, 2))

    set_estimator_state(other, estimator_state(mean))

    assert other.decay == 0.25
    assert other.mean_.tolist() == [2, 3]
    assert other._count == 3
    assert other.inner.mean_.tolist() == [2, 3]
    assert other._generator is other.generator_
    assert other._generator.random() == np.random.RandomState(3).random()


def test_what_fitting_had_made_is_gone_when_the_state_has_none_of_it():
    fitted, fresh = Mean(), Mean()
    fitted.fit(np.ones((2, 2)))

    set_estimator_state(fitted, estimator_state(fresh))

    assert not hasattr(fitted, "mean_")


def test_one_attribute_that_cannot_be_kept_makes_it_refused():
    mean = Mean()
    mean.tree_ = {"nodes": [object()]}

    with pytest.raises(UnsavableError) as caught:
        estimator_state(mean)

    assert caught.value.path == ("tree_", "nodes", "0")


def test_only_what_has_parameters_and_can_be_fitted_is_one():
    assert is_estimator(Mean())
    assert not is_estimator(Mean)
    assert not is_estimator({})
