from __future__ import annotations

import numpy as np
import pytest

from jobrun.ops.numpy_implementations import (
    array,
    astype,
    log_softmax,
    logsumexp,
    one_hot,
    pad,
    relu,
    sigmoid,
    softmax,
    to_bool,
    to_float,
    to_int,
)
from jobrun.values.kinds.counter import Counter
from tests.support.tables import each_case


def test_sigmoid_neither_overflows_nor_loses_small_values():
    actual = sigmoid(np.array([-1000.0, -40.0, 0.0, 40.0, 1000.0]))

    assert actual[0] == 0.0
    assert actual[1] == pytest.approx(np.exp(-40.0), rel=1e-12)
    assert list(actual[2:]) == [0.5, 1.0, 1.0]


@each_case("function", [sigmoid, softmax, log_softmax, relu])
@each_case("dtype", [np.float32, np.float64])
def test_the_dtype_of_floats_is_kept(function, dtype):
    actual = function(np.array([0.5, -1.0], dtype))

    assert actual.dtype == dtype
    assert actual.shape == (2,)


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
    actual = one_hot([[2, 0]], 3, np.int8)

    assert actual.dtype == np.int8
    assert actual.tolist() == [[[0, 0, 1], [1, 0, 0]]]
    assert one_hot(np.zeros(0, int), 3).shape == (0, 3)


@pytest.mark.parametrize("labels", [[3], [-1]])
def test_one_hot_refuses_labels_out_of_range(labels):
    with pytest.raises(ValueError, match="0 … 2"):
        one_hot(labels, 3)


def test_one_hot_refuses_labels_that_are_no_integers():
    with pytest.raises(TypeError, match="float64"):
        one_hot([1.0], 3)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("edge", [1, 1, 2, 3, 3]),
        ("reflect", [2, 1, 2, 3, 2]),
        ("symmetric", [1, 1, 2, 3, 3]),
        ("wrap", [3, 1, 2, 3, 1]),
        ("constant", [0, 1, 2, 3, 0]),
    ],
)
def test_a_border_is_made_by_mode(mode, expected):
    assert pad(np.array([1, 2, 3]), 1, mode).tolist() == expected


def test_a_constant_border_has_the_value_given():
    assert pad([[1]], ((0, 1), (1, 0)), constant_values=9).tolist() == [[9, 1], [9, 9]]


@pytest.mark.parametrize("mode", ["empty", "mean", print])
def test_other_modes_are_refused(mode):
    with pytest.raises(ValueError, match="constant, edge"):
        pad([1, 2], 1, mode)


def test_an_array_is_new_and_of_the_dtype_asked_for():
    inputs = np.arange(3)

    assert array([[1, 2]], np.float32).dtype == np.float32
    assert not np.shares_memory(array(inputs), inputs)


@pytest.mark.parametrize("items", [[None], [object()], [2**70], [{}]])
def test_an_array_of_python_objects_is_refused(items):
    with pytest.raises(TypeError, match="numbers, bools or text"):
        array(items)


def test_a_cast_keeps_shape_and_axis_order():
    inputs = np.asfortranarray(np.arange(6.0).reshape(2, 3))

    actual = astype(inputs, np.int64)

    assert actual.dtype == np.int64
    assert actual.flags.f_contiguous
    assert not np.shares_memory(astype(inputs, np.float64), inputs)


def test_a_cast_scalar_stays_a_scalar_and_an_array_of_none_an_array():
    assert type(astype(1.5, np.float32)) is np.float32
    assert type(astype(np.float64(1.5), np.int64)) is np.int64
    assert astype(np.array(1.5), np.float32).shape == ()
    assert isinstance(astype(np.array(1.5), np.float32), np.ndarray)


def test_no_cast_makes_objects():
    with pytest.raises(TypeError, match="numbers"):
        astype(np.arange(3), np.dtype("O"))


@pytest.mark.parametrize("value", [2.9, np.float32(2.9), np.array(2.9), np.array([[2.9]])])
def test_one_number_becomes_a_python_number(value):
    assert type(to_int(value)) is int
    assert to_int(value) == 2
    assert type(to_float(value)) is float
    assert to_bool(value) is True


def test_a_counter_and_text_have_a_number():
    assert to_int(Counter(7)) == 7
    assert to_float("2.5") == 2.5


def test_several_numbers_are_not_one():
    with pytest.raises(TypeError):
        to_float(np.arange(3))
