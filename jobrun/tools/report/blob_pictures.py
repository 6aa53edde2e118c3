"""Draw the blobs of a checkpoint: matrices as grey pictures and PNG files, others as histograms."""

from __future__ import annotations

import struct
import zlib
from math import isqrt
from typing import Any

import numpy as np
from msgspec import Struct

from jobrun.checkpoint.checkpoint_file import BlobFacts, FileFacts
from jobrun.tools.inspection import Inspection

Array = np.ndarray[Any, np.dtype[Any]]
# The shade of NaN; numbers have the shades 1 to 255.
NOT_A_NUMBER = 0
_SHADES = 255
# Dark violet, blue, green, yellow: the same order for all kinds of colour vision, and in grey.
_RAMP = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))
_NAN_COLOUR = (220, 40, 160)
_TILES = (16, 4096)
_MOST_TILES = 64
# A matrix with at most this many columns, and this many times as many rows, is a table.
_FEW, _LONG = 4, 16


# Draw at most this many blobs; each further one is a line, so that a page stays small.
MOST_DRAWN = 120

# Sample every n-th number of a larger blob: the drawing looks the same.
_MOST_VALUES = 1 << 20
_WIDEST_INTEGERS = 64


class Picture(Struct, frozen=True):
    """A matrix as shades of grey.

    Attributes:
        shades: uint8, shape (rows, columns): 0 for what is no number, 1 the least, 255 the
            greatest.
        steps: Every so many rows, and columns, were taken; 1 for all.
        tile: Side of the squares that rows were folded into; 0 when they were not.
    """

    shades: Array
    steps: tuple[int, int] = (1, 1)
    tile: int = 0


def picture(value: Any, most: tuple[int, int] = (160, 160)) -> Picture | None:
    """Convert a real matrix to a small grey-level picture in a report; None if unsuitable.

    Args:
        value: An array; one of two dimensions, each of at least 2, has a picture. A few long
            columns (or rows) are a table, such as points in space: of it nothing would be seen.
        most: How many rows and columns it may have; of a larger matrix every n-th is taken.
    """
    if not _is_matrix(value) or _is_table(value):
        return None
    down, across = (-(-length // side) for length, side in zip(value.shape, most, strict=True))
    return Picture(_shades(value[::down, ::across]), (down, across))


def tiles(value: Any, across: int = 8) -> Picture | None:
    """Draw a matrix as pictures side by side, each of its rows folded into a square.

    So pictures that were flattened look like pictures again. None where rows have no square
    number of items, are very short, very long or very many, or the matrix itself is square.

    Args:
        value: An array.
        across: How many squares stand in a line.
    """
    if not _is_matrix(value) or value.shape[0] == value.shape[1]:
        return None
    count, length = value.shape
    side = isqrt(length)
    if side * side != length or not _TILES[0] <= length <= _TILES[1] or count > _MOST_TILES:
        return None
    shades = _shades(value).reshape(count, side, side)
    lines = -(-count // across)
    width = min(count, across)
    # A line of nothing between squares.
    sheet = np.full((lines * (side + 1) - 1, width * (side + 1) - 1), NOT_A_NUMBER, np.uint8)
    for number in range(count):
        y, x = number // across * (side + 1), number % across * (side + 1)
        sheet[y : y + side, x : x + side] = shades[number]
    return Picture(sheet, tile=side)


def png(drawn: Picture) -> bytes:
    """Encode a report's picture as PNG, a pixel for each item; gaps in it are transparent."""
    height, width = drawn.shades.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), drawn.shades], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"PLTE", _palette())]
    if drawn.tile:
        chunks.append((b"tRNS", b"\0"))
    chunks += [(b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def _is_matrix(value: Any) -> bool:
    return (
        isinstance(value, np.ndarray)
        and value.ndim == 2
        and value.dtype.kind in "biuf"
        and min(value.shape) >= 2
    )


def _is_table(value: Array) -> bool:
    few, many = min(value.shape), max(value.shape)
    return bool(few <= _FEW and many > _LONG * few)


def _shades(value: Array) -> Array:
    with np.errstate(over="ignore"):
        numbers = value.astype(np.float64)
    finite = np.isfinite(numbers)
    shades = np.full(numbers.shape, NOT_A_NUMBER, np.uint8)
    # Infinite values are drawn as the extremes.
    shades[numbers == np.inf], shades[numbers == -np.inf] = _SHADES, 1
    if finite.any():
        low, high = numbers[finite].min() / 2, numbers[finite].max() / 2
        width = high - low
        scaled = (numbers[finite] / 2 - low) / width if width else 0.5
        shades[finite] = 1 + np.rint(np.multiply(scaled, _SHADES - 1)).astype(np.uint8)
    return shades


def _palette() -> bytes:
    at = np.linspace(0, len(_RAMP) - 1, _SHADES)
    channels = np.array(_RAMP, np.float64).T
    ramp = [np.interp(at, np.arange(len(_RAMP)), channel) for channel in channels]
    shades: bytes = np.rint(np.stack(ramp, axis=1)).astype(np.uint8).tobytes()
    return bytes(_NAN_COLOUR) + shades


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)


class DrawnBlob(Struct, frozen=True):
    """A blob of a node, with what can be drawn of it.

    Attributes:
        histogram: None for what is no array of numbers, and beyond ``MOST_DRAWN``.
        pictures: Of a matrix itself, and of its rows where they may be pictures.
    """

    node: str
    facts: BlobFacts
    histogram: Histogram | None = None
    pictures: tuple[Picture, ...] = ()


def draw_each_blob(
    inspection: Inspection,
    files: tuple[FileFacts, ...] = (),
    most: tuple[int, int] = (160, 160),
    most_drawn: int = MOST_DRAWN,
) -> tuple[DrawnBlob, ...]:
    """Draw pictures and a histogram of each blob of a checkpoint, node by node.

    Args:
        inspection: The checkpoint.
        files: Only these; empty for all.
        most: How many rows and columns a picture may have.
        most_drawn: How many blobs get a drawing.
    """
    blobs = [(file.header.node, blob) for file in files or inspection.files for blob in file.blobs]
    return tuple(
        _drawn(node, blob, most) if number < most_drawn else DrawnBlob(node, blob)
        for number, (node, blob) in enumerate(blobs)
    )


def _drawn(node: str, blob: BlobFacts, most: tuple[int, int]) -> DrawnBlob:
    both = (picture(blob.value, most), tiles(blob.value))
    return DrawnBlob(
        node, blob, histogram(blob.value), tuple(drawing for drawing in both if drawing)
    )


class Histogram(Struct, frozen=True):
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
    """Compute the histogram to draw of a blob's array; None if it has too few finite numbers.

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
