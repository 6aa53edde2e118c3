"""Turn numpy's floating-point warnings (division, overflow, invalid) into one event per location.

Values are as numpy makes them; nothing is stopped, and the standard error stays quiet.
"""

from __future__ import annotations

import sys
from contextvars import Context, copy_context
from types import FrameType
from typing import Any

import numpy as np

from jobrun.core.events import Listener, Noted
from jobrun.runtime.codegen.compiler import PLACES
from jobrun.runtime.codegen.line_table import find_location


class NumpyWarnings:
    """Emits each kind of numpy's floating-point warnings once per location."""

    def __init__(self, emit: Listener) -> None:
        self._emit = emit
        self._reported: set[tuple[str, str]] = set()

    def errstate(self) -> np.errstate:
        """Return a context manager that reports numpy's floating-point warnings of one thread."""
        return np.errstate(
            divide="call", over="call", under="ignore", invalid="call", call=self.report
        )

    def context(self) -> Context:
        """Copy the caller's context, and set the copy to report numpy's floating-point warnings.

        That costs less than to enter what ``errstate`` returns, and to leave it.
        """
        context = copy_context()
        context.run(self.errstate().__enter__)
        return context

    def report(self, kind: str, flags: int) -> None:
        """Emit a floating-point warning of numpy, once per kind and location."""
        del flags
        path, where = _place(sys._getframe(1))
        if (kind, path) in self._reported:
            return
        self._reported.add((kind, path))
        place = f"{path} ({where})" if where else path
        self._emit(Noted(f"{kind} in {place}; reported once for this place", level="warning"))


def _place(frame: FrameType | None) -> tuple[str, str]:
    while frame is not None:
        places: Any = frame.f_globals.get(PLACES)
        if places:
            place = find_location(frame.f_code, frame.f_lasti, places)
            return place.path, str(place.origin) if place.origin.line else ""
        frame = frame.f_back
    return "an expression", ""
