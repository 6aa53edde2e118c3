"""Who else has an item is counted alike, however often, and from wherever, it is asked."""

from __future__ import annotations

import numpy as np

from jobrun.runtime.snapshots.kept_references import count_others
from tests.support.tables import each_case

# Code that runs often is run in other ways.
OFTEN = 5000


def started(array):
    """A generator that has the array in a variable, and nowhere else."""

    def hold(retained):
        yield
        yield retained

    held = hold(array)
    next(held)
    return held


HOLDERS = (
    lambda value: [value],
    lambda value: {"a": value},
    lambda value: lambda: value,
    started,
    lambda value: value[1:],
)


def count_in_a_generator(owner, key):
    while True:
        yield count_others(owner, key)


@each_case("key", [0, -1, "a"])
def test_what_only_its_container_has_has_no_other_owner(key):
    owner = {key: np.zeros(3)} if key == "a" else [np.zeros(3)]
    within = count_in_a_generator(owner, key)

    assert {count_others(owner, key) for _ in range(OFTEN)} == {0}
    assert {next(within) for _ in range(OFTEN)} == {0}


@each_case("holder", HOLDERS)
def test_another_owner_counts(holder):
    owner = [np.zeros(3)]
    held = holder(owner[0])
    within = count_in_a_generator(owner, 0)

    assert {count_others(owner, 0) for _ in range(OFTEN)} == {1}
    assert {next(within) for _ in range(OFTEN)} == {1}
    del held
    assert count_others(owner, 0) == 0


def test_a_variable_of_a_caller_counts():
    owner = [np.zeros(3)]

    def ask(value):
        assert value is owner[0]
        return count_others(owner, 0)

    def hold():
        mine = owner[0]
        return [ask(mine) for _ in range(OFTEN)]

    assert min(hold()) >= 1
    assert count_others(owner, 0) == 0
