"""Draw panels side by side as one SVG file: curves, bars, matrices."""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from jobrun.tools.report.blob_pictures import Picture, png

Array = np.ndarray[Any, np.dtype[Any]]
Points = tuple[Sequence[float], Sequence[float]]

WIDTH, HEIGHT = 340, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 24, 30
_COLOURS = ("#2563a8", "#d9702b", "#2a8c55", "#8d4bab", "#b03a48", "#5c6b73")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_IMAGE = re.compile(r"data:image/png;base64,([\w+/=]+)")


@dataclass(frozen=True, slots=True)
class Curves:
    """Lines over a common axis; ``logs`` names the axes (x, y) that are logarithmic."""

    title: str
    along: str
    lines: Mapping[str, Points]
    logs: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """One bar per value, counted from 1."""

    title: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Shades:
    """A matrix, or rows that were folded into squares."""

    title: str
    drawn: Picture | None


Panel = Curves | Bars | Shades


def svg(panels: Sequence[Panel], description: str) -> str:
    """Draw the panels from left to right; ``description`` is the title for screen readers."""
    width = WIDTH * len(panels)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}"'
        f' height="{HEIGHT}" role="img" font-family="sans-serif" font-size="11" fill="#333">',
        f"<title>{description}</title>",
        f'<rect width="{width}" height="{HEIGHT}" rx="8" fill="#fff" stroke="#ddd"/>',
    ]
    for at, panel in enumerate(panels):
        lines += [f'<g transform="translate({at * WIDTH} 0)">', *_panel(panel), "</g>"]
    return "\n".join([*lines, "</svg>"]) + "\n"


def differs(expected: str, actual: str, tolerance: float) -> str:
    """Find where two pictures differ by more than a part of their height; empty if nowhere.

    Another processor may round otherwise; what a picture shows must be the same all the same.
    """
    bare = [_NUMBER.sub("#", _IMAGE.sub("image", text)) for text in (expected, actual)]
    if bare[0] != bare[1]:
        return "their parts are not the same"
    bare = [_IMAGE.sub("", text) for text in (expected, actual)]
    numbers = [np.array([*map(float, _NUMBER.findall(text))]) for text in bare]
    off = float(np.max(abs(numbers[0] - numbers[1]), initial=0))
    if off > tolerance * HEIGHT:
        return f"a line is {off:.1f} away"
    for first_shade, second_shade in zip(_shades(expected), _shades(actual), strict=True):
        off = (
            float(np.mean(abs(first_shade - second_shade)))
            if first_shade.shape == second_shade.shape
            else math.inf
        )
        if off > tolerance * 255:
            return f"shades are {off:.1f} away"
    return ""


def _shades(text: str) -> list[Array]:
    files = [io.BytesIO(base64.b64decode(encoded)) for encoded in _IMAGE.findall(text)]
    return [np.asarray(Image.open(file).convert("L"), np.float64) for file in files]


def _panel(panel: Panel) -> Iterator[str]:
    yield f'<text x="{_LEFT}" y="16" font-weight="bold">{panel.title}</text>'
    match panel:
        case Curves():
            yield from _curves(panel)
        case Bars():
            yield from _bars(panel)
        case Shades():
            yield from _matrix(panel)


def _curves(panel: Curves) -> Iterator[str]:
    xs = _scale([x for line in panel.lines.values() for x in line[0]], "x" in panel.logs)
    ys = _scale([y for line in panel.lines.values() for y in line[1]], "y" in panel.logs)
    yield from _frame(xs, ys, panel.along)
    for number, (name, line) in enumerate(panel.lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        across = _placed(line[0], xs, _LEFT, WIDTH - _RIGHT)
        down = _placed(line[1], ys, HEIGHT - _BOTTOM, _TOP)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        if name:
            x, y = WIDTH - _RIGHT - 4, _TOP + 14 + 14 * number
            yield f'<text x="{x}" y="{y}" text-anchor="end" fill="{colour}">{name}</text>'


def _bars(panel: Bars) -> Iterator[str]:
    xs, ys = (0.5, len(panel.values) + 0.5, False), (0.0, max(panel.values), False)
    yield from _frame((1, len(panel.values), False), ys, "")
    wide = (WIDTH - _RIGHT - _LEFT) / len(panel.values)
    for at, top in enumerate(_placed(panel.values, ys, HEIGHT - _BOTTOM, _TOP), start=1):
        (x,) = _placed([at - 0.4], xs, _LEFT, WIDTH - _RIGHT)
        yield (
            f'<rect x="{x:.1f}" y="{top:.1f}" width="{0.8 * wide:.1f}"'
            f' height="{HEIGHT - _BOTTOM - top:.1f}" fill="{_COLOURS[0]}"/>'
        )


def _matrix(panel: Shades) -> Iterator[str]:
    if panel.drawn is None:
        raise ValueError(f"{panel.title} is no matrix")
    rows, columns = panel.drawn.shades.shape
    unit = min((WIDTH - _LEFT - _RIGHT) / columns, (HEIGHT - _TOP - 12) / rows)
    data = base64.b64encode(png(panel.drawn)).decode()
    yield (
        f'<image x="{_LEFT}" y="{_TOP}" width="{unit * columns:.1f}" height="{unit * rows:.1f}"'
        f' style="image-rendering:pixelated" href="data:image/png;base64,{data}"/>'
    )


def _label(value: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if abs(value) >= 10 * size or (value >= size and unit == "M"):
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def _scale(values: Sequence[float], logarithmic: bool) -> tuple[float, float, bool]:
    drawable = [
        value for value in values if math.isfinite(value) and (value > 0 or not logarithmic)
    ]
    low, high = min(drawable), max(drawable)
    return low, high if high > low else low + 1, logarithmic


def _placed(
    values: Sequence[float], scale: tuple[float, float, bool], first: float, last: float
) -> Array:
    low, high, logarithmic = scale
    numbers = np.clip(np.asarray(values, np.float64), low, high)
    if logarithmic:
        numbers, low, high = np.log(numbers), math.log(low), math.log(high)
    return first + (numbers - low) / (high - low) * (last - first)


def _frame(
    xs: tuple[float, float, bool], ys: tuple[float, float, bool], along: str
) -> Iterator[str]:
    bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    yield f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="#999"/>'
    yield f'<text x="{_LEFT - 4}" y="{_TOP + 8}" text-anchor="end">{_label(ys[1])}</text>'
    yield f'<text x="{_LEFT - 4}" y="{bottom}" text-anchor="end">{_label(ys[0])}</text>'
    yield f'<text x="{_LEFT}" y="{bottom + 14}">{_label(xs[0])}</text>'
    yield f'<text x="{right}" y="{bottom + 14}" text-anchor="end">{_label(xs[1])}</text>'
    yield f'<text x="{(_LEFT + right) // 2}" y="{bottom + 14}" text-anchor="middle">{along}</text>'
