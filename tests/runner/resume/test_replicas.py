from __future__ import annotations

import numpy as np
import pytest

from jobrun.runner.resume.resize import describe_difference
from jobrun.values.object_state import ObjectState


def _told(first, second):
    return describe_difference(first, second).format(first="a", second="b")


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (np.array([[1.0, 2.0]]), np.array([[1.0, 2.5]]), "[0, 1] is 2.0 on a, 2.5 on b"),
        (np.array([0.0]), np.array([-0.0]), "[0] is 0.0 on a, -0.0 on b"),
        (np.zeros(2), np.zeros(3), "float64 array of shape (2,) on a, float64 array of shape (3,)"),
        (np.zeros(2, "<f4"), np.zeros(2, "<f8"), "float32 array of shape (2,) on a, float64"),
        (1.0, 2.0, "1.0 on a, 2.0 on b"),
        (1, 1.0, "Python int on a, Python float on b"),
        ("{x}", "{y}", "'{x}' on a, '{y}' on b"),
    ],
)
def test_first_difference_is_described(first, second, message):
    assert _told(first, second).startswith(message)


@pytest.mark.parametrize("value", [np.arange(3.0), 2, "text", {"a": np.zeros(2)}])
def test_the_same_bits_are_no_difference(value):
    assert describe_difference(value, value) == ""


def test_nans_with_equal_bits_are_equal():
    assert describe_difference(np.array([np.nan]), np.array([np.nan])) == ""


def test_states_of_objects_are_compared_part_by_part():
    first, second = (ObjectState("m.C", {"w": np.array([number])}) for number in (1.0, 2.0))

    assert "w" in _told(first, second)
    assert describe_difference(first, first) == ""
