"""What is said of index grids and choices is what numpy gives."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.ops.abstract_values import Arguments, Known, MisfitError
from jobrun.ops.operator_table import OPERATORS
from tests.support.rule_checks import check_rule
from tests.support.sampling import known_of
from tests.support.tables import check_each

LINES = [
    "a = ones((2, 3)); select([a < 1, a > 2], [a, a * 10])",
    "a = ones(3); b = ones((2, 1)); select([a < 1, a > 2], [b, b], 1.5)",
    "meshgrid([1, 2], [1.0, 2.0, 3.0])",
    "meshgrid([1, 2], [1.0, 2.0, 3.0], ones(4), indexing='ij')",
    "meshgrid([1, 2])",
    "array_split(arange(7), 3)",
    "array_split(ones((2, 8)), 5, axis=1)",
    "delete(arange(5), [1, 2])",
    "delete(ones((3, 4)), 1, axis=-1)",
    "lexsort([ones(4), ones(4)])",
    "lexsort(ones((2, 4, 3)))",
    "take_along_axis(ones((3, 4)), zeros((3, 2), dtype=int64), 1)",
    "take_along_axis(ones((3, 4)), zeros((1, 2), dtype=int64), 1)",
    "take_along_axis(ones((3, 4)), zeros(5, dtype=int64), None)",
    "compress([True, False], ones((2, 3)), axis=0)",
    "compress([True, False], ones((2, 3)))",
    "choose([0, 1, 0], [ones(3), zeros((2, 3))])",
    "intersect1d([1, 2], [2.0, 3.0])",
    "setxor1d([1, 2], [2, 3])",
    "setdiff1d([1, 2], [2.0, 3.0])",
    "unravel_index([1, 2, 3], (2, 3))",
    "ravel_multi_index(([0, 1], [1, 2]), (2, 3))",
    "ravel_multi_index(zeros((2, 5), dtype=int64), (2, 3))",
    "histogram2d(ones(3), ones(3))",
    "histogram2d(ones(3), ones(3), bins=4)",
    "tril_indices(3, 1)",
    "triu_indices(3, 0, 4)",
    "diag_indices(3)",
]


def test_each_rule_says_what_a_line_gives():
    check_each(LINES, _check_rule)


def _check_rule(line):
    assert check_rule(line)[1] == []


def test_choices_that_do_not_fit_their_conditions_are_reported():
    arguments = {"condlist": known_of([np.ones(3, bool)]), "choicelist": known_of([np.ones(2)])}

    with pytest.raises(MisfitError, match="cannot be broadcast"):
        OPERATORS["select"].rule(Arguments(arguments))


def test_nearly_equal_parts_have_lengths():
    actual, _ = check_rule("array_split(arange(7), 3)")

    assert actual == tuple(Known("int64", (length,)) for length in (3, 2, 2))
