from __future__ import annotations

import weakref

import numpy as np

from jobrun.runtime.codegen.fused_kernel import count_references, has_one_reference
from tests.support.step_bench import COUNTS_REFERENCES
from tests.support.tables import each_case


class Asked:
    """Called with a variable, says whether it is the only one who has the array."""

    def __call__(self, worth, *leaves):
        count = count_references(leaves, 0)
        return has_one_reference(leaves[0], count)


ASKED = Asked()


def test_one_variable_is_the_only_one():
    array = np.ones(3)

    # Many times: calls that are made often are done in other ways.
    for _ in range(5000):
        found = ASKED(None, array)
        assert found is COUNTS_REFERENCES


@each_case(
    "holder",
    [lambda one: one, lambda one: [one], lambda one: {"a": one}, lambda one: one[1:],
     lambda one: one.T, memoryview, weakref.ref, lambda one: lambda: one],
)  # fmt: skip
def test_whoever_else_has_it_counts(holder):
    array = np.ones(3)
    held = holder(array)

    for _ in range(5000):
        found = ASKED(None, array)
        assert not found
    assert held is not None


def test_memory_of_others_or_for_reading_only_is_nobodys():
    base = np.ones(3)
    view = base[:2]
    closed = np.ones(3)
    closed.flags.writeable = False

    found = ASKED(None, view), ASKED(None, closed)

    assert found == (False, False)


def test_a_temporary_is_not_counted_as_a_variable():
    found = ASKED(None, np.ones(3) + 1)

    assert not found
