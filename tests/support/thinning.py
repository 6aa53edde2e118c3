"""Choose how much of a test is tried all day, with the long tests, and by 'make prove'."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def thinned(values: Iterable[Any], step: int) -> list[Any]:
    """Return all values, for ``parametrize``; only every ``step``-th one is not long."""
    return [value if index % step == 0 else _as_long(value) for index, value in enumerate(values)]


def examples(count: int) -> int:
    """Return how many random examples a long test tries: so many times as JOBRUN_TIMES says."""
    return count * int(os.environ.get("JOBRUN_TIMES", "1"))


def _as_long(value: Any) -> ParameterSet:
    if isinstance(value, ParameterSet):
        return pytest.param(*value.values, marks=[*value.marks, pytest.mark.long], id=value.id)
    # A tuple is values of several parameters.
    several = value if isinstance(value, tuple) else (value,)
    return pytest.param(*several, marks=pytest.mark.long)
