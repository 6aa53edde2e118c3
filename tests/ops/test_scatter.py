from __future__ import annotations

import numpy as np
import pytest

from jobrun.ops.scatter import (
    add_at,
    index_add,
    index_set,
    maximum_at,
    minimum_at,
    multiply_at,
    subtract_at,
)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (add_at, [5.0, 1.0, 3.0]),
        (subtract_at, [-3.0, 1.0, -1.0]),
        (multiply_at, [4.0, 1.0, 2.0]),
        (maximum_at, [2.0, 1.0, 2.0]),
        (minimum_at, [1.0, 1.0, 1.0]),
    ],
)
def test_an_index_that_repeats_counts_each_time(function, expected):
    array = np.ones(3)

    assert function(array, [0, 0, 2], 2.0) is None

    assert array.tolist() == expected


def test_several_axes_are_indexed_by_a_tuple():
    array = np.zeros((2, 2))

    add_at(array, (np.array([0, 0]), np.array([1, 1])), [1.0, 2.0])

    assert array.tolist() == [[0.0, 3.0], [0.0, 0.0]]


def test_only_an_array_is_changed_in_place():
    with pytest.raises(TypeError, match="array"):
        add_at([1, 2], 0, 1)


def test_the_pure_forms_leave_their_argument_alone():
    array = np.ones(3, np.float32)

    added = index_add(array, [0, 0], 1)
    changed = index_set(array, [0, 2, 2], [5, 6, 7])

    assert added.tolist() == [3.0, 1.0, 1.0]
    assert changed.tolist() == [5.0, 1.0, 7.0]
    assert added.dtype == changed.dtype == np.float32
    assert array.tolist() == [1.0, 1.0, 1.0]
