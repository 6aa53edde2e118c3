"""Draw line charts and sparklines of characters on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

# Bits of a braille character, by column and row from the top (Unicode, U+2800).
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_BLANK = 0x2800
_BARS = "▁▂▃▄▅▆▇█"


def draw_chart(
    points: Sequence[tuple[float, float]], width: int = 60, height: int = 10
) -> list[str]:
    """Draw a line chart of characters, with the ends of the axes as numbers.

    Args:
        points: x ascending, both coordinates finite; none gives no lines.
        width: Characters of the plot, without the numbers beside it.
        height: Lines of the plot, without the line of numbers below.
    """
    if not points:
        return []
    low, high = min(y for _, y in points), max(y for _, y in points)
    first, last = points[0][0], points[-1][0]
    canvas = _Canvas(width, height)
    places = [
        (_scaled(x, first, last, 2 * width), _scaled(y, high, low, 4 * height)) for x, y in points
    ]
    canvas.dot(*places[0])
    for start, end in pairwise(places):
        canvas.line(start, end)
    return _framed(canvas.rows(), (low, high), (first, last))


def _scaled(value: float, begin: float, end: float, count: int) -> int:
    """Scale a value to a row or column of the line chart, counted in characters."""
    if begin == end:
        return count // 2
    return round((value - begin) / (end - begin) * (count - 1))


class _Canvas:
    """Dots, two to a character across and four down."""

    def __init__(self, width: int, height: int) -> None:
        self._cells = [[0] * width for _ in range(height)]

    def dot(self, x: int, y: int) -> None:
        """Set one dot of the line chart's canvas, counted from the upper left."""
        self._cells[y // 4][x // 2] |= _DOTS[x % 2][y % 4]

    def line(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        """Draw a straight line from one point of the chart's canvas to another, in dots."""
        steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
        for step in range(steps + 1):
            part = step / steps
            self.dot(
                round(start[0] + (end[0] - start[0]) * part),
                round(start[1] + (end[1] - start[1]) * part),
            )

    def rows(self) -> list[str]:
        """Render the line chart's rows of characters, from the top."""
        return ["".join(chr(_BLANK + cell) for cell in row) for row in self._cells]


def _framed(rows: list[str], limits: tuple[float, float], across: tuple[float, float]) -> list[str]:
    low, high = (f"{end:.4g}" for end in limits)
    margin = max(len(low), len(high))
    labels = [""] * len(rows)
    labels[-1], labels[0] = low, high
    lines = [
        f"{label:>{margin}} ┤{row}".rstrip(chr(_BLANK))
        for label, row in zip(labels, rows, strict=True)
    ]
    first, last = (f"{end:g}" for end in across)
    gap = max(1, len(rows[0]) - len(first) - len(last))
    return [*lines, f"{'':>{margin}}  {first}{' ' * gap}{last}"]


def sparkline(values: list[float], width: int = 16) -> str:
    """Draw the last ``width`` values as a sparkline, a chart of block characters in one line."""
    shown = values[-width:]
    finite = [value for value in shown if math.isfinite(value)]
    if len(finite) < 2:
        return ""
    low, high = min(finite), max(finite)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(
        _BARS[round((value - low) * scale)] if math.isfinite(value) else " " for value in shown
    )
