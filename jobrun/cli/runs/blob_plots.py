"""Draw blobs as characters on a terminal: histograms, and matrices in half blocks."""

from __future__ import annotations

from collections.abc import Sequence

from jobrun.checkpoint.checkpoint_file import FileFacts
from jobrun.cli.formatting import number
from jobrun.core.text.fault_text import visible
from jobrun.tools.inspect import Inspection
from jobrun.tools.report.histogram import Histogram
from jobrun.tools.report.pictures import NOT_A_NUMBER, DrawnBlob, Picture, draw_each_blob

_BARS = " ▁▂▃▄▅▆▇█"
_SHADES = " ░▒▓█"
_HEIGHT = 5
_INDENT = "    "
# Of the 256 colours of terminals: where the greys begin, how many there are, and one for NaN.
_GREYS, _GREY_COUNT, _NAN = 232, 24, 162
_NOTHING = -1
_RESET = "\x1b[0m"


def draw_blobs(
    found: Inspection, files: tuple[FileFacts, ...], terminal: tuple[int, int], *, colours: bool
) -> list[str]:
    """Draw all blobs of a checkpoint that can be drawn, as lines of characters.

    Args:
        found: The checkpoint.
        files: What of it is wanted.
        terminal: Its columns and lines.
        colours: Whether it takes them; without, pictures are made of shades.
    """
    columns = max(20, terminal[0] - len(_INDENT) - 1)
    # A picture fits on the screen, under its title; a half block is one row of it.
    lines = max(8, terminal[1] - 4)
    most = (2 * lines if colours else lines, columns)
    blobs = [one for one in draw_each_blob(found, files, most) if one.histogram or one.pictures]
    several = len({one.node for one in blobs}) > 1
    said: list[str] = []
    for one in blobs:
        name = f"{one.node}.{one.facts.name}" if several else one.facts.name
        said += ["", visible(name), *_drawing(one, columns, colours=colours)]
    return said or ["", "nothing to plot: all blobs are scalars or text"]


def _drawing(one: DrawnBlob, columns: int, *, colours: bool) -> list[str]:
    lines = draw_histogram(one.histogram, columns) if one.histogram else []
    for drawn in one.pictures:
        if drawn.shades.shape[1] <= columns:
            lines += ["", *draw_picture(drawn, colours=colours)]
    return [_INDENT + line if line else "" for line in lines]


def draw_histogram(found: Histogram, columns: int) -> list[str]:
    """Draw a blob's histogram in characters as vertical bars, with the ends of the axis below."""
    bars = _pooled(found.counts, columns)
    wide = max(1, min(4, columns // len(bars), 40 // len(bars)))
    eighths = [-(-bar * 8 * _HEIGHT // max(bars)) for bar in bars]
    lines = []
    for line in reversed(range(_HEIGHT)):
        cells = (_BARS[min(8, max(0, one - 8 * line))] * wide for one in eighths)
        lines.append("".join(cells).rstrip())
    low, high = number(found.low), number(found.high)
    gap = max(1, wide * len(bars) - len(low) - len(high))
    notes = [found.of] if found.of else []
    notes += [f"one of {found.step} values"] if found.step > 1 else []
    return [*lines, "  ".join([low + " " * gap + high, *notes])]


def draw_picture(drawn: Picture, *, colours: bool) -> list[str]:
    """Draw a picture in half-block characters, two rows a line; without colours one row a line."""
    # Between tiles there is nothing; elsewhere there is an item that is no number.
    blank = _NOTHING if drawn.tile else NOT_A_NUMBER
    rows = [[int(shade) or blank for shade in row] for row in drawn.shades]
    if not colours:
        return ["".join(_shade(shade) for shade in row).rstrip() for row in rows]
    if len(rows) % 2:
        rows.append([_NOTHING] * len(rows[0]))
    return [_half_blocks(rows[at], rows[at + 1]) for at in range(0, len(rows), 2)]


def _pooled(counts: Sequence[int], columns: int) -> list[int]:
    """Add neighbouring bins of a blob's histogram until it fits the terminal."""
    step = -(-len(counts) // columns)
    return [sum(counts[at : at + step]) for at in range(0, len(counts), step)]


def _half_blocks(upper: Sequence[int], lower: Sequence[int]) -> str:
    return "".join(map(_half_block, upper, lower)) + _RESET


def _half_block(above: int, below: int) -> str:
    # Where nothing is, the ground is the terminal's own.
    if above == below == _NOTHING:
        return f"{_RESET} "
    if above == _NOTHING:
        return f"\x1b[38;5;{_grey(below)};49m▄"
    ground = "49" if below == _NOTHING else f"48;5;{_grey(below)}"
    return f"\x1b[38;5;{_grey(above)};{ground}m▀"


def _grey(shade: int) -> int:
    if shade == NOT_A_NUMBER:
        return _NAN
    return _GREYS + (shade - 1) * (_GREY_COUNT - 1) // 254


def _shade(shade: int) -> str:
    if shade == _NOTHING:
        return " "
    if shade == NOT_A_NUMBER:
        return "?"
    return _SHADES[(shade - 1) * (len(_SHADES) - 1) // 254]
