"""Which values of a test are tried all day, and which with the long tests only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def thinned(values: Iterable[Any], step: int) -> list[Any]:
    """All values, for ``parametrize``; only every ``step``-th one, from the first, is not long."""
    return [
        value if index % step == 0 else pytest.param(*_several(value), marks=pytest.mark.long)
        for index, value in enumerate(values)
    ]


def _several(value: Any) -> tuple[Any, ...]:
    """A tuple is values of several parameters."""
    return value if isinstance(value, tuple) else (value,)
