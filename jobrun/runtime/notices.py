"""What numpy warns of (division by zero, overflow, invalid) becomes one notice per place.

Values are as numpy makes them; nothing is stopped, and the standard error stays quiet.
"""

from __future__ import annotations

import sys
from contextvars import Context, copy_context
from types import FrameType
from typing import Any

import numpy as np

from jobrun.core.events import Listener, Noted
from jobrun.runtime.codegen import PLACES
from jobrun.runtime.positions import place_at


class Notices:
    """Tells each kind of event at each place once."""

    def __init__(self, emit: Listener) -> None:
        self._emit = emit
        self._told: set[tuple[str, str]] = set()

    def heeding(self) -> np.errstate:
        """A context, for one thread, in which floating-point events are told."""
        return np.errstate(
            divide="call", over="call", under="ignore", invalid="call", call=self.note
        )

    def context(self) -> Context:
        """A copy of the caller's context in which such events are told; a copy of it is to run in.

        That costs less than to enter what ``heeding`` gives, and to leave it.
        """
        context = copy_context()
        context.run(self.heeding().__enter__)
        return context

    def note(self, kind: str, flags: int) -> None:
        """Called by numpy, in the thread and below the frame where it happened."""
        del flags
        path, where = _place(sys._getframe(1))
        if (kind, path) in self._told:
            return
        self._told.add((kind, path))
        place = f"{path} ({where})" if where else path
        self._emit(Noted(f"{kind} in {place}; told once for this place", level="warning"))


def _place(frame: FrameType | None) -> tuple[str, str]:
    while frame is not None:
        places: Any = frame.f_globals.get(PLACES)
        if places:
            place = place_at(frame.f_code, frame.f_lasti, places)
            return place.path, str(place.origin) if place.origin.line else ""
        frame = frame.f_back
    return "an expression", ""
