from __future__ import annotations

import itertools

import numpy as np
import pytest

from jobrun.ops.numpy_implementations import (
    add_at,
    index_add,
    index_set,
    maximum_at,
    minimum_at,
    multiply_at,
    subtract_at,
)
from tests.support.tables import each_case


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


UFUNCS = {
    add_at: np.add, subtract_at: np.subtract, multiply_at: np.multiply, maximum_at: np.maximum,
    minimum_at: np.minimum,
}  # fmt: skip


def _rows(shape, dtype, seed=0):
    values = np.random.default_rng(seed).normal(scale=9, size=shape).astype(dtype)
    if values.dtype.kind == "f":
        values.flat[::7] = -0.0
        values.flat[::53] = np.nan
    return values


@each_case("function", UFUNCS)
def test_many_rows_get_the_bits_that_numpy_gives(function):
    dtypes = ("float64", "float32", "int64", "uint8")
    rows = ((1,), (3,), (2, 5), (40,))
    for dtype, row, index in itertools.product(dtypes, rows, ("int64", "int32")):
        _check_rows(function, dtype, row, index)


def _check_rows(function, dtype, row, index):
    places = np.random.default_rng(1).integers(-20, 20, 1500).astype(index)
    array, values = _rows((20, *row), dtype), _rows((1500, *row), dtype, 2)
    expected = array.copy()
    with np.errstate(all="ignore"):
        UFUNCS[function].at(expected, places, values)
        function(array, places, values)

    assert array.tobytes() == expected.tobytes(), (dtype, row, index)


@pytest.mark.parametrize("wrong", [20, -21])
def test_nothing_is_added_where_an_index_is_outside(wrong):
    array, values = _rows((20, 3), "float64"), np.ones((5000, 3))
    places = np.zeros(5000, np.intp)
    places[-1] = wrong
    before = array.tobytes()

    with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for axis 0 with size 20"):
        add_at(array, places, values)

    assert array.tobytes() == before


@each_case(
    "change",
    [
        lambda array, places, values: (array, places, values[0]),
        lambda array, places, values: (array, places, values.astype(np.float32)),
        lambda array, places, values: (array, places, values[:, ::-1]),
        lambda array, places, values: (array[:, ::2], places, values[:, ::2]),
        lambda array, places, values: (np.asfortranarray(array), places, values),
        lambda array, places, values: (array, places > 0, 1.0),
        lambda array, places, values: (array, places.astype(np.uint64) % 5, values),
        lambda array, places, values: (array, places.reshape(2, -1), 2.0),
        lambda array, places, values: (array, places[:200] * 0, array[:200]),
    ],
)
def test_other_rows_get_the_bits_that_numpy_gives_too(change):
    make = lambda: change(  # noqa: E731 - twice the same
        _rows((400, 4), "float64"), np.arange(400) % 7, _rows((400, 4), "float64", 2)
    )
    array, places, values = make()
    other, _, its_values = make()
    np.add.at(other, places, its_values)
    add_at(array, places, values)

    assert array.tobytes() == other.tobytes()


def test_rows_are_added_in_the_pure_form_too():
    array, values = _rows((50, 4), "float64"), _rows((300, 4), "float64", 2)
    places = np.arange(300) % 50
    expected = array.copy()
    np.add.at(expected, places, values)

    assert index_add(array, places, values).tobytes() == expected.tobytes()
