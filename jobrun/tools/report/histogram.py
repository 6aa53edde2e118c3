"""Count the numbers of a blob in equal bins."""

from __future__ import annotations

from typing import Any

import numpy as np

from jobrun.core.lazy_dataclass import dataclass

Array = np.ndarray[Any, np.dtype[Any]]
# Of a larger blob every n-th number is looked at: its shape is the same to the eye.
_MOST_VALUES = 1 << 20
_WIDEST_INTEGERS = 64


@dataclass(frozen=True, slots=True)
class Histogram:
    """The counts of a blob's finite numbers in equal bins.

    Attributes:
        counts: In bins of equal width from ``low`` to ``high``.
        low: Where the first bin begins; of integers, one of each value, half a unit below it.
        high: Where the last ends.
        step: Every so many numbers were looked at; 1 for all.
        of: What was counted where it is not the numbers themselves: ``magnitude``.
    """

    counts: tuple[int, ...]
    low: float
    high: float
    step: int = 1
    of: str = ""


def histogram(value: Any, bins: int = 40) -> Histogram | None:
    """Compute the histogram of an array; None with fewer than two finite numbers.

    Args:
        value: An array of any shape, or anything else, which has none.
        bins: How many at most.
    """
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biufc" or value.size < 2:
        return None
    step = -(-value.size // _MOST_VALUES)
    # A flat view first: a step over a copy would copy all of it.
    flat = value.reshape(-1)[::step]
    of = "magnitude" if flat.dtype.kind == "c" else ""
    numbers = np.abs(flat) if of else flat
    if numbers.dtype.kind in "biu":
        return _of_integers(numbers, bins, step)
    with np.errstate(over="ignore"):
        numbers = numbers.astype(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if numbers.size < 2:
        return None
    low, high = float(numbers.min()), float(numbers.max())
    return Histogram(_counts(numbers, low, high, bins), low, high, step, of)


def _of_integers(numbers: Array, bins: int, step: int) -> Histogram:
    low, high = int(numbers.min()), int(numbers.max())
    several = high - low + 1
    if several > max(bins, _WIDEST_INTEGERS):
        counts = _counts(numbers.astype(np.float64), float(low), float(high), bins)
        return Histogram(counts, low, high, step)
    wide = numbers.astype(np.uint8) if numbers.dtype.kind == "b" else numbers
    counts = _tally(wide - wide.min(), several)
    return Histogram(counts, low - 0.5, high + 0.5, step)


def _counts(numbers: Array, low: float, high: float, bins: int) -> tuple[int, ...]:
    # Halves: the distance between the ends of doubles may be no double.
    width = high / 2 - low / 2
    if width == 0:
        return (int(numbers.size),)
    places = ((numbers / 2 - low / 2) / width * bins).astype(np.int64)
    return _tally(np.minimum(places, bins - 1), bins)


def _tally(places: Array, bins: int) -> tuple[int, ...]:
    return tuple(map(int, np.bincount(places.astype(np.int64), minlength=bins)))
