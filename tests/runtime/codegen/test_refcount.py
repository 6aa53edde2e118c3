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
        is_only_reference = ASKED(None, array)
        assert is_only_reference is COUNTS_REFERENCES


@each_case(
    "holder",
    [lambda array: array, lambda array: [array], lambda array: {"a": array},
     lambda array: array[1:],
     lambda array: array.T, memoryview, weakref.ref, lambda array: lambda: array],
)  # fmt: skip
def test_every_other_reference_counts(holder):
    array = np.ones(3)
    held = holder(array)

    for _ in range(5000):
        is_only_reference = ASKED(None, array)
        assert not is_only_reference
    assert held is not None


def test_views_and_read_only_arrays_are_never_reused():
    base = np.ones(3)
    view = base[:2]
    closed = np.ones(3)
    closed.flags.writeable = False

    actual = ASKED(None, view), ASKED(None, closed)

    assert actual == (False, False)


def test_a_temporary_is_not_counted_as_a_variable():
    is_only_reference = ASKED(None, np.ones(3) + 1)

    assert not is_only_reference
