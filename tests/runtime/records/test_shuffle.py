from __future__ import annotations

import numpy as np
import pytest

from jobrun.runtime.records import row_iterators
from jobrun.runtime.records.row_iterators import MOST_DRAWN, shuffle_order

SIZES = [1, 2, 1000, MOST_DRAWN + 1]
# Also computed, to try more lengths in less time.
COMPUTED = [3, 10, 1000, 65_536, 65_537, 100_003]


@pytest.mark.parametrize("length", SIZES)
def test_each_row_has_one_place(length):
    rows = shuffle_order(length, 7, "r", 1).rows(0, length)

    assert rows.dtype == np.int64
    assert np.array_equal(np.sort(rows), np.arange(length))


@pytest.mark.parametrize("length", COMPUTED)
def test_each_row_has_one_place_where_places_are_computed(length, monkeypatch):
    monkeypatch.setattr(row_iterators, "MOST_DRAWN", 2)
    rows = shuffle_order(length, 7, "r", 1).rows(0, length)

    assert np.array_equal(np.sort(rows), np.arange(length))


@pytest.mark.parametrize("most", [2, MOST_DRAWN])
def test_a_part_of_the_order_is_a_part_of_the_whole(most, monkeypatch):
    monkeypatch.setattr(row_iterators, "MOST_DRAWN", most)
    length = 30_003
    order = shuffle_order(length, 7, "r", 1)
    whole = order.rows(0, length)

    parts = [order.rows(at, min(at + 999, length)) for at in range(0, length, 999)]

    assert np.array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("most", [2, MOST_DRAWN])
@pytest.mark.parametrize("other", [(8, "r", 1), (7, "q", 1), (7, "r", 2)])
def test_seed_reader_and_pass_each_make_another_order(most, other, monkeypatch):
    monkeypatch.setattr(row_iterators, "MOST_DRAWN", most)
    length = 1000
    first, second = shuffle_order(length, 7, "r", 1), shuffle_order(length, *other)

    assert np.mean(first.rows(0, length) == second.rows(0, length)) < 0.1
    assert np.array_equal(first.rows(0, length), shuffle_order(length, 7, "r", 1).rows(0, length))


def test_a_large_order_looks_random(monkeypatch):
    monkeypatch.setattr(row_iterators, "MOST_DRAWN", 2)
    length = 200_000
    rows = shuffle_order(length, 7, "r", 1).rows(0, length)

    for correlation in (np.corrcoef(rows, np.arange(length)), np.corrcoef(rows[1:], rows[:-1])):
        assert abs(correlation[0, 1]) < 0.01
    halves = rows[: length // 2] < length // 2
    assert abs(halves.mean() - 0.5) < 0.01
