"""Spare the cyclic garbage collector while many values are made and none is thrown away."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Values made, and not released again, from which on it pays to leave them out of a search.
_MANY = 20_000
# A command has imported and made half as many before its first task.
_MORE_THAN_A_START = 200_000
# The thresholds before start-up changed them, once it has.
_usual: list[tuple[int, int, int]] = []


def collect_seldom() -> None:
    """Make garbage collection rare while a command starts, as imported code is never freed."""
    _usual.append(gc.get_threshold())
    gc.set_threshold(_MORE_THAN_A_START)


def collect_as_usual() -> None:
    """Restore the garbage collector's usual thresholds, which ``collect_seldom`` had raised."""
    if _usual:
        _count_as_old()
    while _usual:
        gc.set_threshold(*_usual.pop())


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause garbage collection inside the block; treat the objects made there as old ones.

    Reading and compiling a spec make millions of small values and no cycles among them: to search
    them again and again, or once at the end, takes as long as making them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            _count_as_old()
            gc.enable()


def _count_as_old() -> None:
    """Move all objects made so far to the garbage collector's oldest generation.

    The next collection of the youngest would search all of them.
    """
    # get_freeze_count() walks all that is frozen, which takes milliseconds.
    if gc.get_count()[0] > _MANY and not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
