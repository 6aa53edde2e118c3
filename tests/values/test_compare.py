"""How two values differ: the place inside them, and what it is that differs."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.values.compare import find_difference, same_bits
from jobrun.values.object_state import ObjectState
from tests.support.tables import each_case

SQUARE = np.arange(4.0).reshape(2, 2)
SHARED = np.zeros(2)


def words(expected, actual):
    return str(find_difference(expected, actual) or "")


@each_case(
    ("expected", "actual", "reported"),
    [
        (1, 1.0, "is Python float, not Python int"),
        (np.zeros(3), np.zeros(3, np.float32), "is float32 array of shape (3,), not float64 array"),
        (SQUARE, np.asfortranarray(SQUARE), "has its axes in Fortran order in memory, not in C"),
        (SQUARE, SQUARE + 1, "is float64 array of shape (2, 2) of other bits"),
        ({"a": [0.5, SQUARE]}, {"a": [0.5, SQUARE + 1]}, "'a/1' is float64 array"),
        ({"a": 1}, {}, "'a' is not there"),
        ({}, {"a": 1}, "'a' should not be there; it is Python int"),
        (
            {"a": SHARED, "b": SHARED},
            {"a": SHARED, "b": SHARED.copy()},
            "'b' is a thing of its own, and should be the same thing as 'a'",
        ),
        ([1, "a"], (1, "a"), "is put together in another way"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "is put together in another way"),
    ],
)
def test_the_first_difference_is_named_with_its_place(expected, actual, reported):
    assert reported in words(expected, actual)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (SQUARE, SQUARE.copy()),
        (np.zeros((3, 1)), np.zeros((3, 1), order="F")),
        ({"a": [SHARED, SHARED]}, {"a": [SHARED + 0] * 2}),
        (float("nan"), float("nan")),
    ],
)
def test_equal_values_do_not_differ(first, second):
    assert find_difference(first, second) is None


@pytest.mark.parametrize("path", [0, 7, 1 << 20, (3 << 20) - 1, (3 << 20) + 4])
def test_one_bit_anywhere_in_a_large_array_is_a_difference(path):
    first = np.zeros((3 << 20) + 5, np.uint8)
    second = first.copy()
    assert same_bits(first, second)

    second[path] = 1

    assert not same_bits(first, second)


def test_of_the_states_of_objects_the_order_of_keys_does_not_count():
    object_state = ObjectState("x", {"a": 1, "b": np.zeros(2)})

    assert words(object_state, ObjectState("y", {"b": np.zeros(2), "a": 1})) == ""
    assert "'b'" in words(object_state, ObjectState("x", {"a": 1, "b": np.ones(2)}))
    assert "'b' is not there" in words(object_state, ObjectState("x", {"a": 1}))
    assert "'c' should not be there" in words(
        object_state, ObjectState("x", {**object_state.tree, "c": 1})
    )
