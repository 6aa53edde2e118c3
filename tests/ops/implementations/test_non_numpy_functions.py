from __future__ import annotations

import numpy as np
import pytest

from jobrun.ops.implementations.non_numpy_functions import (
    log_softmax,
    logsumexp,
    one_hot,
    relu,
    sigmoid,
    softmax,
)
from tests.support.tables import each_case


def test_sigmoid_neither_overflows_nor_loses_small_values():
    found = sigmoid(np.array([-1000.0, -40.0, 0.0, 40.0, 1000.0]))

    assert found[0] == 0.0
    assert found[1] == pytest.approx(np.exp(-40.0), rel=1e-12)
    assert list(found[2:]) == [0.5, 1.0, 1.0]


@each_case("function", [sigmoid, softmax, log_softmax, relu])
@each_case("dtype", [np.float32, np.float64])
def test_the_dtype_of_floats_is_kept(function, dtype):
    found = function(np.array([0.5, -1.0], dtype))

    assert found.dtype == dtype
    assert found.shape == (2,)


def test_sigmoid_of_a_number_is_a_number_and_nan_stays():
    assert sigmoid(0.0) == 0.5
    assert np.ndim(sigmoid(0)) == 0
    assert np.isnan(sigmoid(np.nan))
    assert np.isnan(relu(np.array([np.nan]))).all()


def test_logsumexp_neither_overflows_nor_underflows():
    rows = np.array([[1000.0, 1000.0], [-1000.0, -1000.0]])

    assert logsumexp(rows, axis=1) == pytest.approx(np.log(2.0) + np.array([1000.0, -1000.0]))
    assert logsumexp(rows, axis=1, keepdims=True).shape == (2, 1)
    assert np.ndim(logsumexp(rows)) == 0


def test_logsumexp_of_nothing_possible_is_minus_infinity():
    assert logsumexp(np.array([-np.inf, -np.inf])) == -np.inf
    assert logsumexp(np.array([np.inf, 0.0])) == np.inf


def test_softmax_sums_to_one_along_its_axis():
    rows = np.array([[1000.0, 1001.0, 999.0], [0.0, 0.0, 0.0]])

    assert softmax(rows).sum(axis=1) == pytest.approx(1.0)
    assert softmax(rows, axis=0).sum(axis=0) == pytest.approx(1.0)
    assert np.exp(log_softmax(rows)) == pytest.approx(softmax(rows))
    assert log_softmax(np.array([0.0, 2000.0]))[0] == -2000.0


def test_one_hot_has_a_one_at_each_label():
    found = one_hot([[2, 0]], 3, np.int8)

    assert found.dtype == np.int8
    assert found.tolist() == [[[0, 0, 1], [1, 0, 0]]]
    assert one_hot(np.zeros(0, int), 3).shape == (0, 3)


@pytest.mark.parametrize("labels", [[3], [-1]])
def test_one_hot_refuses_labels_out_of_range(labels):
    with pytest.raises(ValueError, match="0 … 2"):
        one_hot(labels, 3)


def test_one_hot_refuses_labels_that_are_no_integers():
    with pytest.raises(TypeError, match="float64"):
        one_hot([1.0], 3)
