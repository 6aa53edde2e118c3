"""Which values of a test are tried all day, and which with the long tests only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def thinned(values: Iterable[Any], step: int) -> list[Any]:
    """All values, for ``parametrize``; only every ``step``-th one, from the first, is not long."""
    return [value if index % step == 0 else _as_long(value) for index, value in enumerate(values)]


def _as_long(value: Any) -> ParameterSet:
    if isinstance(value, ParameterSet):
        return pytest.param(*value.values, marks=[*value.marks, pytest.mark.long], id=value.id)
    # A tuple is values of several parameters.
    several = value if isinstance(value, tuple) else (value,)
    return pytest.param(*several, marks=pytest.mark.long)
