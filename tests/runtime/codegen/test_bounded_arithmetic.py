from __future__ import annotations

import numpy as np
import pytest

from jobrun.runtime.codegen import bounded_arithmetic


def test_powers_are_those_of_python_and_numpy():
    assert bounded_arithmetic.power(2, 10) == 1024
    assert bounded_arithmetic.power(2, -1) == 0.5
    assert bounded_arithmetic.power(np.array([2.0]), 2).tolist() == [4.0]
    assert bounded_arithmetic.shift_left(1, 4) == 16
    array = np.array([2, 3])
    assert bounded_arithmetic.IN_PLACE["**"](array, 2) is array
    assert bounded_arithmetic.IN_PLACE["<<"](array, 1) is array
    assert array.tolist() == [8, 18]


@pytest.mark.parametrize("function", [bounded_arithmetic.power, bounded_arithmetic.IN_PLACE["**"]])
def test_integers_that_would_take_minutes_are_refused(function):
    with pytest.raises(OverflowError, match="bits"):
        function(9, 9**9)


@pytest.mark.parametrize(
    "function", [bounded_arithmetic.shift_left, bounded_arithmetic.IN_PLACE["<<"]]
)
def test_shifts_that_would_take_all_memory_are_refused(function):
    with pytest.raises(OverflowError, match="bits"):
        function(1, 10**12)
