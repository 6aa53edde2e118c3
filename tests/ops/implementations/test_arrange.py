from __future__ import annotations

import numpy as np
import pytest

from jobrun.ops.implementations.non_numpy_functions import pad


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("edge", [1, 1, 2, 3, 3]),
        ("reflect", [2, 1, 2, 3, 2]),
        ("symmetric", [1, 1, 2, 3, 3]),
        ("wrap", [3, 1, 2, 3, 1]),
        ("constant", [0, 1, 2, 3, 0]),
    ],
)
def test_a_border_is_made_by_mode(mode, expected):
    assert pad(np.array([1, 2, 3]), 1, mode).tolist() == expected


def test_a_constant_border_has_the_value_given():
    assert pad([[1]], ((0, 1), (1, 0)), constant_values=9).tolist() == [[9, 1], [9, 9]]


@pytest.mark.parametrize("mode", ["empty", "mean", print])
def test_other_modes_are_refused(mode):
    with pytest.raises(ValueError, match="constant, edge"):
        pad([1, 2], 1, mode)
