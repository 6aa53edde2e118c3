"""Borders round arrays: numpy's ``pad``, without the modes that take a function."""

from __future__ import annotations

from typing import Any

import numpy as np

_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Any:
    """``array`` with ``pad_width`` further items before and after along each axis.

    Raises:
        ValueError: The mode is none of constant, edge, reflect, symmetric, wrap.
    """
    if mode not in _MODES:
        raise ValueError(f"mode must be one of {', '.join(_MODES)}")
    if mode == "constant":
        return np.pad(array, pad_width, "constant", constant_values=constant_values)
    return np.pad(array, pad_width, mode)  # type: ignore[call-overload]
