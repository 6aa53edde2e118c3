from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.ops.numpy_implementations import segment_max, segment_mean, segment_min, segment_sum
from tests.support.tables import each_case

ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
LABELS = np.array([2, 0, 2])


def test_rows_of_a_segment_are_summed_and_counted():
    sums, counts = segment_sum(ROWS, LABELS, 4)

    assert sums.tolist() == [[3.0, 4.0], [0.0, 0.0], [6.0, 8.0], [0.0, 0.0]]
    assert counts.tolist() == [1, 0, 2, 0]
    assert (sums.dtype, counts.dtype) == (np.float64, np.int64)


def test_a_mean_without_rows_is_nan():
    means = segment_mean(ROWS, LABELS, 4)

    assert means[2].tolist() == [3.0, 4.0]
    assert np.isnan(means[[1, 3]]).all()
    assert segment_mean(np.array([1, 2]), [0, 0], 1).tolist() == [1.5]


def test_extremes_without_rows_are_the_limits():
    assert segment_max(ROWS, LABELS, 3).tolist() == [[3.0, 4.0], [-np.inf] * 2, [5.0, 6.0]]
    assert segment_min(ROWS, LABELS, 3).tolist() == [[3.0, 4.0], [np.inf] * 2, [1.0, 2.0]]
    assert segment_max(np.array([7], np.int8), [0], 2).tolist() == [7, -128]
    assert segment_min(np.array([True]), [1], 2).tolist() == [True, True]
    assert segment_max(np.array([True]), [1], 2).tolist() == [False, True]


@each_case(
    ("dtype", "summed"),
    [
        ("f4", "f4"),
        ("f8", "f8"),
        ("i1", "i8"),
        ("i8", "i8"),
        ("u1", "u8"),
        ("?", "i8"),
        ("c8", "c8"),
    ],
)
def test_dtypes_and_shapes_are_those_of_sum(dtype, summed):
    labels = np.array([0, 1, 1, 0, 1], np.uint8)
    for shape in ((5,), (5, 3), (5, 2, 2)):
        values = np.ones(shape, dtype)
        sums, _ = segment_sum(values, labels, 2)

        assert sums.dtype == np.dtype(summed)
        assert np.array_equal(sums[1], values[labels == 1].sum(axis=0))
        assert segment_mean(values, labels, 2).shape == (2, *shape[1:])


def test_many_segments_and_no_rows_are_fine():
    sums, counts = segment_sum(np.ones((2, 1)), [70_000, 0], 70_001)
    assert (sums[70_000], counts.sum()) == (1.0, 2)

    sums, counts = segment_sum(np.zeros((0, 3)), np.zeros(0, int), 2)
    assert (sums.shape, counts.tolist()) == ((2, 3), [0, 0])
    assert segment_max(np.zeros((0, 3)), [], 2).shape == (2, 3)


def test_whole_numbers_are_summed_exactly():
    sums, _ = segment_sum(np.array([2**60, 1, 1]), [0, 0, 0], 1)

    assert sums.tolist() == [2**60 + 2]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-100, 100)), max_size=30))
def test_sums_agree_with_those_of_selected_rows(pairs):
    labels = np.array([label for label, _ in pairs], int)
    values = np.array([[value, 1] for _, value in pairs], float).reshape(-1, 2)

    sums, counts = segment_sum(values, labels, 5)

    for label in range(5):
        assert np.array_equal(sums[label], values[labels == label].sum(axis=0))
        assert counts[label] == np.sum(labels == label)


@each_case(
    ("labels", "error", "part"),
    [
        ([0, 1, 4], ValueError, "0 … 3"),
        ([0, -1, 1], ValueError, "0 … 3"),
        ([0, 1], ValueError, "one segment for each row"),
        ([[0], [1], [2]], ValueError, "one segment for each row"),
        ([0.0, 1.0, 2.0], TypeError, "integers"),
    ],
)
def test_segments_that_do_not_fit_are_refused(labels, error, part):
    for function in (segment_sum, segment_mean, segment_max, segment_min):
        with pytest.raises(error, match=part):
            function(ROWS, labels, 4)
