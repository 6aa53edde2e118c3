from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from jobrun.tools.diff.checkpoint_diff import compare_values
from jobrun.values.atomic_counter import Counter


def test_the_same_bits_are_equal():
    assert compare_values(np.array([1.0, math.nan]), np.array([1.0, math.nan])).equal


def test_floats_are_told_by_count_distance_ulps_and_norm():
    first = np.array([3.0, 4.0, 0.0])
    second = first.copy()
    second[1] = np.nextafter(np.nextafter(4.0, 5.0), 5.0)

    found = compare_values(first, second)

    assert (found.count, found.size, found.ulps) == (1, 3, 2)
    assert found.largest == second[1] - 4.0
    assert found.relative == (second[1] - 4.0) / 5.0


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_ulps_are_counted_across_zero(dtype):
    tiny = np.nextafter(np.zeros(1, dtype), np.ones(1, dtype))

    # -tiny, -0.0, 0.0, tiny
    assert compare_values(-tiny, tiny).ulps == 3


def test_both_zeros_differ_by_one_place_and_by_nothing():
    found = compare_values(np.array(0.0), np.array(-0.0))

    assert (found.equal, found.count, found.ulps, found.largest) == (False, 1, 1, 0.0)


def test_integers_at_both_ends_of_their_range_are_as_far_apart_as_they_are():
    found = compare_values(np.array([-(2**63)]), np.array([2**63 - 1]))

    assert found.largest == 2**64 - 1


def test_complex_numbers_and_bools_are_compared_too():
    found = compare_values(np.array([1 + 1j]), np.array([1 + 2j]))
    assert (found.largest, found.count) == (1.0, 1)
    assert compare_values(np.array([True, False]), np.array([True, True])).largest == 1


def test_values_that_are_not_finite_count_but_have_no_distance():
    found = compare_values(np.array([math.nan, 1.0]), np.array([0.0, 1.5]))

    assert (found.count, found.largest, found.relative) == (2, 0.5, None)
    assert compare_values(np.array([math.inf]), np.array([0.0])).largest is None


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (1.0, 1, "Python float 1.0 | Python int 1"),
        (np.zeros(2), np.zeros(3), "float64 array of shape (2,) | float64 array of shape (3,)"),
        (np.zeros(1), np.zeros(1, ">f8"), "float64 array of shape (1,) | >f8 array of shape (1,)"),
        ("a", "b", "'a' | 'b'"),
        ("a" * 90, "b", "other values"),
        (np.array(["a"]), np.array(["b"]), "other values"),
    ],
)
def test_what_is_no_number_is_told_in_words(first, second, words):
    found = compare_values(first, second)

    assert not found.equal
    assert found.words == words


def test_python_numbers_and_counters_have_distances():
    assert compare_values(1.0, 1.5).largest == 0.5
    assert compare_values(Counter(3), Counter(8)).largest == 5
    assert compare_values(np.float32(1), np.float32(2)).relative == 1.0


DTYPES = st.sampled_from(["f2", "f4", "f8", ">f4", "i1", "u2", "i8", "u8", "c8", "?"])


@given(DTYPES.flatmap(lambda dtype: st.tuples(*[nps.arrays(dtype, (4,))] * 2)))
def test_the_count_is_that_of_elements_with_other_bits(pair):
    first, second = pair

    found = compare_values(first, second)

    expected = sum(a.tobytes() != b.tobytes() for a, b in zip(first, second, strict=True))
    assert found.count == expected
    assert found.equal == (expected == 0)
    assert found.largest is None or found.largest >= 0


def test_numbers_of_bfloat16_are_compared_as_numbers():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    one = np.array([1, 2, 3], ml_dtypes.bfloat16)

    how = compare_values(one, np.array([1, 2, 3.5], ml_dtypes.bfloat16))

    assert (how.count, how.size, how.largest, how.ulps) == (1, 3, 0.5, None)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (0.0, np.float64(2.5), "Python float 0.0 | numpy float64 scalar 2.5"),
        (1, True, "Python int 1 | Python bool True"),
    ],
)
def test_numbers_of_other_kinds_are_shown(first, second, words):
    assert compare_values(first, second).words == words
