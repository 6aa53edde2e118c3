"""Define abstract values: what is known of a value before a run (dtype, shape), and join them.

A rule here says what numpy does or says that it does not know; it never guesses.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from jobrun.core.lazy_dataclass import dataclass
from jobrun.ops.dtype_promotion import CODES, join_dtypes, join_pair, promote_weak

Shape = tuple[int | None, ...]
Sequence = Literal["", "list", "tuple"]

# Words in the place of a dtype for values that no array holds.
TEXT, NONE, DTYPE, COUNTER = "text", "none", "a dtype", "counter"


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a value before it exists: dtype, shape, value; None for unknown.

    Attributes:
        dtype: numpy's name of it, or one of the words ``TEXT NONE DTYPE COUNTER``.
        shape: Lengths, each of which may be unknown.
        value: The value itself, for Python scalars and text that are the same in every run;
            of ``DTYPE`` the dtype meant.
        weak: It is a Python scalar, whose dtype gives way to that of its partner; None where
            it may be one or not.
        items: Of a tuple or list, what is known of each item; such a value has no dtype yet.
        sequence: ``list`` or ``tuple`` for one, of known items or not; empty for all others.
    """

    dtype: str | None = None
    shape: Shape | None = None
    value: bool | int | float | str | None = None
    weak: bool | None = False
    items: tuple[Known, ...] | None = None
    sequence: Sequence = ""

    @property
    def size_bytes(self) -> int | None:
        """The memory of an abstract value, if its dtype and shape are known, else None."""
        if self.dtype not in CODES or self.shape is None:
            return None
        total = CODES[self.dtype][1]
        for length in self.shape:
            if length is None:
                return None
            total *= length
        return total


UNKNOWN = Known()


def scalar(value: object) -> Known:
    """Return what is known before a run of a Python scalar: dtype, shape () and value."""
    match value:
        case bool():
            return Known("bool", (), value, weak=True)
        case int():
            # Beyond 64 bits no dtype is sure.
            small = -(2**63) <= value < 2**63
            return Known("int64" if small else None, (), value, weak=True)
        case float():
            return Known("float64", (), value, weak=True)
        case complex():
            return Known("complex128", (), weak=True)
        case str():
            return Known(TEXT, (), value, weak=True)
        case None:
            return Known(NONE, ())
        case _:
            return UNKNOWN


def as_array(known: Known) -> Known:
    """Convert what is known of a value to what is known of it as an array."""
    if known.items is None:
        return UNKNOWN if known.sequence else known
    items = [as_array(item) for item in known.items]
    if not items:
        return Known("float64", (0,))
    shapes = {item.shape for item in items}
    shape = shapes.pop() if len(shapes) == 1 else None
    sure = shape is not None and None not in shape
    return Known(
        join_dtypes(item.dtype for item in items),
        (len(items), *shape) if sure and shape is not None else None,
    )


def items_in(shape: Shape) -> int | None:
    """Return the number of items in a shape that is known, or None if a length is unknown."""
    if 0 in shape:
        return 0
    return None if None in shape else math.prod(one for one in shape if one is not None)


def promote(left: Known, right: Known) -> str | None:
    """Combine the dtypes of two abstract values as numpy would; None if not sure."""
    if left.dtype not in CODES or right.dtype not in CODES:
        return None
    if None in (left.weak, right.weak):
        found = {promote(one, two) for one in _either(left) for two in _either(right)}
        return found.pop() if len(found) == 1 else None
    if left.weak != right.weak:
        weak, strong = (left, right) if left.weak else (right, left)
        return promote_weak(str(weak.dtype), str(strong.dtype))
    return join_pair(left.dtype, right.dtype)


def _either(known: Known) -> tuple[Known, ...]:
    """List the two abstract values that a value may be: a Python scalar (weak), or not."""
    if known.weak is not None:
        return (known,)
    return (replace(known, weak=True), replace(known, weak=False))


def broadcast(left: Shape | None, right: Shape | None) -> Shape | None:
    """Combine the shapes of two abstract values by broadcasting; None if it is not sure."""
    if left is None or right is None:
        return None
    rank = max(len(left), len(right))
    padded = [(1,) * (rank - len(shape)) + shape for shape in (left, right)]
    lengths: list[int | None] = []
    for one, other in zip(*padded, strict=True):
        if one == 1 or other in (1, one):
            lengths.append(other if one == 1 else one)
        elif one is None or other is None:
            lengths.append(one if other is None else other)
        else:
            return None
    return tuple(lengths)


def elementwise(left: Known, right: Known) -> Known:
    """Combine two abstract values into that of their elementwise result, such as a sum."""
    return Known(
        promote(left, right),
        broadcast(left.shape, right.shape),
        weak=bool(left.weak and right.weak),
    )


def join(left: Known, right: Known) -> Known:
    """Join what is known of a value that may be either of two, after a branch."""
    if left == right:
        return left
    if left.sequence or right.sequence or left.items is not None or right.items is not None:
        return Known(sequence=left.sequence) if left.sequence == right.sequence else UNKNOWN
    dtype = left.dtype if left.dtype == right.dtype else None
    shape = left.shape
    if left.shape is None or right.shape is None or len(left.shape) != len(right.shape):
        shape = None
    elif left.shape != right.shape:
        pairs = zip(left.shape, right.shape, strict=True)
        shape = tuple(one if one == other else None for one, other in pairs)
    return Known(dtype, shape, weak=left.weak if left.weak == right.weak else None)


def without_value(known: Known) -> Known:
    """Return an abstract value without the constant known of it; dtype and shape stay."""
    if known.items is not None:
        return replace(known, items=tuple(map(without_value, known.items)))
    return known if known.value is None else replace(known, value=None)
