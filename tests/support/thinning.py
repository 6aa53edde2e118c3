"""Choose how much of a test is tried all day, with the long tests, and by 'make prove'."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet

# How many times as much 'make prove' tries.
_TIMES = int(os.environ.get("JOBRUN_TIMES", "1"))


def thinned(values: Iterable[Any], step: int, long_step: int = 1) -> list[Any]:
    """Return values for ``parametrize``, of which every ``step``-th one is tried all day.

    Args:
        values: All of them, as 'make prove' tries them.
        step: Of every so many values one is tried all day.
        long_step: Of the others every so many is tried in a long test.
    """
    return [
        value if index % step == 0 else _as_long(value)
        for index, value in enumerate(values)
        if index % step == 0 or index % long_step == 0 or _TIMES > 1
    ]


def examples(count: int) -> int:
    """Return how many random examples a long test tries: so many times as JOBRUN_TIMES says."""
    return count * _TIMES


def _as_long(value: Any) -> ParameterSet:
    if isinstance(value, ParameterSet):
        return pytest.param(*value.values, marks=[*value.marks, pytest.mark.long], id=value.id)
    # A tuple is values of several parameters.
    several = value if isinstance(value, tuple) else (value,)
    return pytest.param(*several, marks=pytest.mark.long)
