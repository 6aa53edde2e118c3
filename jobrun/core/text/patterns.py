"""Compile regular expressions when they are first used.

A command imports dozens and uses few of them, and each takes a tenth of a millisecond.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


def lazy_pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a stand-in for ``re.compile(text, flags)`` that compiles at its first use."""
    return cast("re.Pattern[AnyStr]", _LazyPattern(text, flags))


class _LazyPattern:
    """Has each method of a lazy pattern as an attribute of its own, once it was used."""

    def __init__(self, text: Any, flags: int) -> None:
        self._given = (text, flags)

    def __getattr__(self, name: str) -> Any:
        # The module ``re`` keeps what it has compiled for the next method.
        method = getattr(re.compile(*self._given), name)
        setattr(self, name, method)
        return method
