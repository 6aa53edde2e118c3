"""What specs of these tests call."""

from __future__ import annotations

import numpy as np


def turned(x: np.ndarray) -> np.ndarray:
    """Return the items in reverse order; a view would be refused where its source changes."""
    return x[::-1].copy()


def grow(x: np.ndarray, by: int) -> None:
    """Changes its argument."""
    x += by
