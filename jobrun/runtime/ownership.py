"""Whether a variable of generated code is the only one who has an array. Decides nothing else.

Python counts who holds an object. How many of these are the call itself differs from version to
version, so a call of the same form tells it.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def references(values: Sequence[Any], index: int) -> int:
    """How many references to one of them there are. To be called with ``*values`` of the caller."""
    return sys.getrefcount(values[index])


def is_sole(array: np.ndarray[Any, Any], count: int) -> bool:
    """Whether nobody but one variable, whose call counted so many references, can see the array.

    Nobody who holds it, has a view of it, or would know it again.
    """
    return (
        count == _of_one_variable
        and array.flags.owndata
        and array.flags.writeable
        and weakref.getweakrefcount(array) == 0
    )


class _Counting:
    """Called as a chain is."""

    def __call__(self, worth: object, *leaves: Any) -> int:
        del worth
        return references(leaves, 0)


def _count_of_one(called: Callable[..., int]) -> int:
    array = np.empty(0)
    return called(None, array)


def _measured() -> int:
    """The count for one variable; none that can be where Python does not count so."""
    is_locked: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    # From 3.14 on, variables that are only looked at may not count, here or there.
    if sys.implementation.name != "cpython" or sys.version_info >= (3, 14) or not is_locked():
        return -1
    return _count_of_one(_Counting())


_of_one_variable = _measured()
