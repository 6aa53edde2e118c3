"""Compare two values of one blob: whether their bits are equal, or how far they are apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jobrun.checkpoint.hdf5.dtypes import is_custom
from jobrun.core.lazy_dataclass import dataclass
from jobrun.core.text.big_integers import integer_text
from jobrun.values.atomic_counter import Counter
from jobrun.values.blob_kinds import Value, describe
from jobrun.values.compare import find_difference

Array = np.ndarray[Any, np.dtype[Any]]
_MOST_LETTERS = 84


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """The difference between two values of a blob.

    Attributes:
        equal: In kind, dtype, shape, axis order and every bit.
        words: What differs when they cannot be compared number by number, else empty.
        count: How many elements differ; of these numbers the rest:
        size: How many elements there are.
        largest: The largest absolute difference, as a Python int or float; None without one.
        ulps: The largest distance in units in the last place, of floats of one dtype; for
            complex numbers of their parts.
        relative: The Euclidean norm of the difference over that of the first value.
    """

    equal: bool
    words: str = ""
    count: int = 0
    size: int = 0
    largest: int | float | None = None
    ulps: int | None = None
    relative: float | None = None


def compare_values(first: Value, second: Value) -> ValueDifference:
    """Compare two values of one blob, the first as the reference, element by element.

    NaN is equal to a NaN of the same bits; where only one side is finite, elements count as
    different and are left out of the distances.
    """
    differs = find_difference(first, second)
    if differs is None:
        return ValueDifference(equal=True)
    if differs.what == "kind" and not differs.path:
        return ValueDifference(equal=False, words=f"{_words(first)} | {_words(second)}")
    if differs.what != "bits" or differs.path:
        return ValueDifference(equal=False, words=str(differs))
    a, b = _array(first), _array(second)
    is_narrow = is_custom(a.dtype) and "float" in a.dtype.name
    if is_narrow:
        # bfloat16 and the like: each of their numbers is one of float32 too.
        a, b = a.astype(np.float32), b.astype(np.float32)
    if a.dtype.kind not in "biufc":
        return ValueDifference(equal=False, words=_other_words(first, second), size=a.size)
    different = _bits(a) != _bits(b)
    differing = different.any(axis=-1) if different.ndim > 1 else different
    x, y = a.reshape(-1)[differing], b.reshape(-1)[differing]
    usable = np.isfinite(x) & np.isfinite(y)
    x, y = x[usable], y[usable]
    return ValueDifference(
        equal=False,
        count=int(differing.sum()),
        size=int(a.size),
        largest=_largest(x, y),
        ulps=None if is_narrow else _ulps(x, y),
        relative=_relative(a, b),
    )


def _array(value: Value) -> Array:
    plain = value.value if isinstance(value, Counter) else value
    array = np.asarray(plain)
    # Byte order has been compared; distances need numbers of the machine.
    return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))


def _words(value: Value) -> str:
    """Describe a value by its kind, and a number, flag or short text by itself too."""
    if type(value) is int:
        return f"{describe(value)} {integer_text(value)}"
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bool | float | complex | str) and len(repr(plain)) <= _MOST_LETTERS:
        return f"{describe(value)} {plain!r}"
    return describe(value)


def _other_words(first: Value, second: Value) -> str:
    if np.ndim(first):
        return "other values"
    texts = [integer_text(one) if type(one) is int else repr(one) for one in (first, second)]
    return " | ".join(texts) if sum(map(len, texts)) <= _MOST_LETTERS else "other values"


def _bits(array: Array) -> Array:
    """View the elements of a value to compare as bytes, along a new last axis."""
    return array.reshape(-1).view(np.uint8).reshape(array.size, array.dtype.itemsize)


def _largest(x: Array, y: Array) -> int | float | None:
    if x.size == 0:
        return None
    if x.dtype.kind == "b":
        return 1
    if x.dtype.kind in "iu":
        # In the unsigned type the difference of any two fits.
        unsigned = np.dtype(f"u{x.dtype.itemsize}")
        over, under = np.maximum(x, y).view(unsigned), np.minimum(x, y).view(unsigned)
        return int((over - under).max())
    with np.errstate(over="ignore"):
        return float(np.abs(x - y).max())


def _ulps(x: Array, y: Array) -> int | None:
    if x.dtype.kind == "c":
        x, y = x.view(x.real.dtype), y.view(y.real.dtype)
    if x.dtype.kind != "f" or x.dtype.itemsize not in (2, 4, 8) or x.size == 0:
        return None
    ranks_x, ranks_y = _rank(x), _rank(y)
    return int((np.maximum(ranks_x, ranks_y) - np.minimum(ranks_x, ranks_y)).max())


def _rank(x: Array) -> Array:
    """Map each float of a value to its rank among all of its dtype: the difference in ULPs.

    Floats of one sign are ordered as their bits are; both zeros get neighbouring places.
    """
    bits = x.view(np.dtype(f"u{x.dtype.itemsize}"))
    sign = bits.dtype.type(1 << (8 * x.dtype.itemsize - 1))
    return np.where(bits & sign, ~bits, bits | sign)


def _relative(a: Array, b: Array) -> float | None:
    x, y = a.reshape(-1), b.reshape(-1)
    if a.dtype.kind == "b" or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return None
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = x.astype(wide), y.astype(wide)
    with np.errstate(over="ignore"):
        norm, distance = float(np.linalg.norm(x)), float(np.linalg.norm(x - y))
    return distance / norm if 0 < norm < math.inf else None
