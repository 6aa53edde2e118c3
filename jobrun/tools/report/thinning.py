"""Fewer points of a long curve, none of its peaks lost. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

Point = tuple[int | float, float]


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """At most ``most`` of the points, in their order, the first and the last among them.

    Of each stretch of the curve its least, its greatest and one value that is no number are
    kept, so that no peak and no NaN disappears.

    Args:
        points: x ascending.
        most: At least 8.
    """
    if len(points) <= most:
        return list(points)
    inner = points[1:-1]
    stretches = (most - 2) // 3
    kept = [points[0]]
    for number in range(stretches):
        start = number * len(inner) // stretches
        end = (number + 1) * len(inner) // stretches
        kept += _extremes(inner[start:end])
    return [*kept, points[-1]]


def _extremes(stretch: Sequence[Point]) -> list[Point]:
    numbers = [at for at, (_, y) in enumerate(stretch) if math.isfinite(y)]
    others = [at for at, (_, y) in enumerate(stretch) if not math.isfinite(y)]
    wanted = set(others[:1])
    if numbers:
        wanted.add(min(numbers, key=lambda at: stretch[at][1]))
        wanted.add(max(numbers, key=lambda at: stretch[at][1]))
    return [stretch[at] for at in sorted(wanted)]
