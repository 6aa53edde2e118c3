"""How the numbers of a blob are distributed."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.tools.report.pictures import histogram


def test_every_finite_number_is_counted_once():
    found = histogram(np.array([0.0, 0.1, 1.0, np.nan, np.inf, -np.inf]), bins=10)

    assert (sum(found.counts), found.low, found.high) == (3, 0.0, 1.0)
    assert (found.counts[0], found.counts[1], found.counts[-1]) == (1, 1, 1)


def test_integers_in_a_small_range_have_a_bin_each():
    found = histogram(np.array([-128, -127, -127, -120], np.int8))

    assert (found.counts, found.low, found.high) == ((1, 2, 0, 0, 0, 0, 0, 0, 1), -128.5, -119.5)


def test_bools_have_two_bins():
    assert histogram(np.array([True, False, True])).counts == (1, 2)


def test_of_complex_numbers_the_magnitude_counts():
    found = histogram(np.array([3 + 4j, 0j]))

    assert (found.of, found.high) == ("magnitude", 5.0)


def test_the_largest_doubles_and_the_smallest_have_a_place():
    assert sum(histogram(np.array([-1.7e308, 0.0, 1.7e308])).counts) == 3
    assert sum(histogram(np.array([0.0, 5e-324])).counts) == 2


def test_the_largest_integers_have_a_place():
    assert sum(histogram(np.array([0, 2**64 - 1], np.uint64)).counts) == 2
    assert sum(histogram(np.array([-(2**63), 2**63 - 1])).counts) == 2


def test_of_very_many_numbers_some_are_looked_at():
    found = histogram(np.zeros(3 << 20))

    assert (found.step, sum(found.counts)) == (3, 1 << 20)


@pytest.mark.parametrize(
    "value", [3.0, "text", np.float64(1), np.array([1.0]), np.array(["a", "b"]), np.full(9, np.nan)]
)
def test_what_has_no_distribution_has_none(value):
    assert histogram(value) is None
