"""Two ways to one mutable thing: found in memory, among generators, and among objects."""

from __future__ import annotations

import random
import time

import numpy as np

from jobrun.values.shared_places import find_overlapping, find_shared_parts, render_place
from tests.support.tables import each_case

BUF = np.arange(24.0)
TABLE = np.zeros(3, "i1,f8")
SQUARE = np.arange(64.0).reshape(8, 8)


class Estimator:
    def __init__(self, **parts):
        vars(self).update(parts)

    def get_params(self, deep=True):
        return {}

    def set_params(self):
        pass

    def fit(self):
        pass


class Stateful:
    def __init__(self, **parts):
        vars(self).update(parts)

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


@each_case(
    ("first", "second", "shares"),
    [
        (BUF, BUF[:2], True),
        (BUF[:3], BUF[2:], True),
        (BUF[:3], BUF[3:], False),
        (BUF[::2], BUF[1::2], False),
        (SQUARE[:, 0], SQUARE[:, 1], False),
        (SQUARE[::-1, ::-2], SQUARE[2:4, 1], True),
        (TABLE, TABLE[1], True),
        (TABLE[1], TABLE[1], True),
        (TABLE[0], TABLE[1], False),
        (BUF, BUF, True),
        (BUF, BUF.copy(), False),
        (BUF.view(np.uint8), BUF, True),
        (np.zeros((0, 3)), BUF, False),
        (np.frombuffer(b"abc", np.uint8), np.frombuffer(b"abc", np.uint8), False),
    ],
)
def test_arrays_with_elements_in_common_are_found(first, second, shares):
    found = find_overlapping({("a",): first, ("b", "x"): second, ("c",): 3})

    assert found == ([(("a",), ("b", "x"))] if shares else [])


def test_one_array_at_two_places_may_be_meant():
    assert find_overlapping({("a",): BUF, ("b",): BUF}, identical=False) == []


def test_many_columns_are_looked_at_in_little_time():
    wide = np.zeros((50, 2000))
    arrays = {("t", str(at)): wide[:, at] for at in range(2000)}
    begun = time.process_time()

    assert find_overlapping(arrays) == []
    assert [second for _, second in find_overlapping({**arrays, ("u",): wide[3]})] == [("u",)]
    assert time.process_time() - begun < 5


def test_a_generator_that_two_objects_have_is_found():
    r = np.random.RandomState(0)

    (pair,) = find_shared_parts({"r": r, "k": Estimator(random_state=r)})

    assert sorted(map(render_place, pair)) == ["'k'.random_state", "'r'"]


def test_generators_with_one_bit_generator_are_one():
    bits = np.random.PCG64(1)
    roots = {"g": np.random.Generator(bits), "r": np.random.RandomState(bits)}

    assert len(find_shared_parts(roots)) == 1
    assert find_shared_parts({"g": np.random.default_rng(1), "r": np.random.default_rng(1)}) == []


def test_what_objects_hold_is_followed_through_containers_and_other_objects():
    inner, draws = Stateful(), random.Random(1)
    deep = Stateful(parts=[{"x": Stateful(rng=draws)}], inner=inner)

    found = find_shared_parts({"inner": inner, "deep": deep, "draws": draws})

    assert {render_place(place) for pair in found for place in pair} == {
        "'deep'.inner",
        "'inner'",
        "'deep'.parts.0.x.rng",
        "'draws'",
    }


def test_two_names_of_an_estimator_for_its_own_generator_are_kept_by_its_state():
    r = np.random.RandomState(0)

    assert find_shared_parts({"k": Estimator(random_state=r, random_state_=r)}) == []
    assert len(find_shared_parts({"k": Estimator(random_state=r, random_state_=r), "r": r})) == 1
