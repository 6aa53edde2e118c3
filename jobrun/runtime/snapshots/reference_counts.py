"""Count who else has a value: the references to it beside the one container that must have it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def count_others(owner: dict[str, Any] | list[Any], key: Any) -> int:
    """Count the references to an item of a dict or list, beside the owner's own.

    It is asked by its place: from Python 3.14 on, a variable that is only looked at, or handed on
    to a function, counts or does not, as the compiler sees fit. To take an item out of a container
    makes a reference, in every version.
    """
    return sys.getrefcount(owner[key]) - _of_owner


_of_owner = 0
_of_owner = count_others([np.empty(0)], 0)
