"""Define abstract values, what is known of values and of a call's arguments before a run.

A rule here says what numpy does or says that it does not know; it never guesses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from jobrun.core.codes import Code
from jobrun.ops.dtype_promotion import CODES, join_dtypes, join_pair, kind_of, promote_weak

Shape = tuple[int | None, ...]
Sequence = Literal["", "list", "tuple"]

# Names used instead of a dtype for values that no array holds.
TEXT, NONE, DTYPE, COUNTER = "text", "none", "a dtype", "counter"

_T = TypeVar("_T")

# Error codes of misfits.
SHAPES: Final = "E290"
KINDS: Final = "E291"
INDICES: Final = "E292"


class Known(Struct, frozen=True):
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
    """Build the abstract value of a Python scalar: dtype, shape () and value."""
    match value:
        case bool():
            return Known("bool", (), value, weak=True)
        case int():
            # Beyond 64 bits the dtype is uncertain.
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
    """Convert an abstract value to that of the array which numpy would make of it."""
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
    """Return the number of items in an abstract shape, or None if a length is unknown."""
    if 0 in shape:
        return 0
    return None if None in shape else math.prod(length for length in shape if length is not None)


def promote(lhs: Known, rhs: Known) -> str | None:
    """Infer the dtype of a result from two abstract values; None if it is not certain."""
    if lhs.dtype not in CODES or rhs.dtype not in CODES:
        return None
    if None in (lhs.weak, rhs.weak):
        dtypes = {
            promote(lhs_case, rhs_case) for lhs_case in _either(lhs) for rhs_case in _either(rhs)
        }
        return dtypes.pop() if len(dtypes) == 1 else None
    if lhs.weak != rhs.weak:
        weak, strong = (lhs, rhs) if lhs.weak else (rhs, lhs)
        return promote_weak(str(weak.dtype), str(strong.dtype))
    return join_pair(lhs.dtype, rhs.dtype)


def _either(known: Known) -> tuple[Known, ...]:
    """List the cases of an abstract value: Python scalar, numpy value, or both if unknown."""
    if known.weak is not None:
        return (known,)
    return (replace(known, weak=True), replace(known, weak=False))


def broadcast(lhs: Shape | None, rhs: Shape | None) -> Shape | None:
    """Broadcast the shapes of two abstract values; None if that is unknown or impossible."""
    if lhs is None or rhs is None:
        return None
    rank = max(len(lhs), len(rhs))
    padded = [(1,) * (rank - len(shape)) + shape for shape in (lhs, rhs)]
    lengths: list[int | None] = []
    for length, other in zip(*padded, strict=True):
        if length == 1 or other in (1, length):
            lengths.append(other if length == 1 else length)
        elif length is None or other is None:
            lengths.append(length if other is None else other)
        else:
            return None
    return tuple(lengths)


def elementwise(lhs: Known, rhs: Known) -> Known:
    """Combine two abstract values into that of their elementwise result, such as a sum."""
    return Known(
        promote(lhs, rhs), broadcast(lhs.shape, rhs.shape), weak=bool(lhs.weak and rhs.weak)
    )


def join(lhs: Known, rhs: Known) -> Known:
    """Join the abstract values that a variable has after two branches to one that covers both."""
    if lhs == rhs:
        return lhs
    if lhs.sequence or rhs.sequence or lhs.items is not None or rhs.items is not None:
        return Known(sequence=lhs.sequence) if lhs.sequence == rhs.sequence else UNKNOWN
    dtype = lhs.dtype if lhs.dtype == rhs.dtype else None
    shape = lhs.shape
    if lhs.shape is None or rhs.shape is None or len(lhs.shape) != len(rhs.shape):
        shape = None
    elif lhs.shape != rhs.shape:
        pairs = zip(lhs.shape, rhs.shape, strict=True)
        shape = tuple(length if length == other else None for length, other in pairs)
    return Known(dtype, shape, weak=lhs.weak if lhs.weak == rhs.weak else None)


def without_value(known: Known) -> Known:
    """Return an abstract value with its dtype and shape, but without a constant value."""
    if known.items is not None:
        return replace(known, items=tuple(map(without_value, known.items)))
    return known if known.value is None else replace(known, value=None)


class MisfitError(Exception):
    """The call cannot succeed: the function raises for every value of such arguments.

    Attributes:
        code: ``SHAPES``, ``KINDS`` or ``INDICES``.
        message: What does not fit, without the names of the arguments.
        mend: What to do about it.
    """

    def __init__(self, code: Code, message: str, mend: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.mend = mend


class UnclearError(Exception):
    """Too little is known to say anything."""


class Arguments(Struct, frozen=True):
    """Hold what is known of each argument of a call, by its parameter.

    A parameter that is not passed, or is passed None, is absent. Methods without a default
    raise ``UnclearError`` where the property they return is unknown.

    Attributes:
        by_name: By the parameter's name.
        variadic: Further arguments by position.
    """

    by_name: Mapping[str, Known] = field(default_factory=dict)
    variadic: tuple[Known, ...] = ()

    def has(self, name: str) -> bool:
        """Return whether a call passes an argument, and its abstract value is not None."""
        return name in self.by_name and self.by_name[name].dtype != NONE

    def get(self, name: str) -> Known:
        """Return the abstract value (dtype, shape) of a call's argument; ``UNKNOWN`` if absent."""
        return self.by_name.get(name, UNKNOWN)

    def array(self, name: str) -> Known:
        """Return the abstract value of the array that numpy makes of a call's argument."""
        return as_array(self.get(name))

    def shape(self, name: str) -> Shape:
        """Return the abstract shape of a call's argument; raise ``UnclearError`` if unknown."""
        return sure(self.array(name).shape)

    def dtype(self, name: str) -> str:
        """Return the abstract dtype of a call's argument; raise ``UnclearError`` if no number."""
        dtype = sure(self.array(name).dtype)
        if not kind_of(dtype):
            raise UnclearError
        return dtype

    def integer(self, name: str, default: int) -> int:
        """Return the constant value of a call's int argument, or the default if not passed."""
        return sure(integer(self.by_name[name])) if self.has(name) else default

    def flag(self, name: str) -> bool:
        """Return the constant value of a call's bool argument; False if it was not passed."""
        if not self.has(name):
            return False
        value = self.by_name[name].value
        if not isinstance(value, bool):
            raise UnclearError
        return value

    def word(self, name: str, default: str) -> str:
        """Return the constant value of a call's str argument; the default if it was not passed."""
        return self._named(name, TEXT) if self.has(name) else default

    def asked_dtype(self, name: str = "dtype") -> str | None:
        """Return the dtype named by a call's abstract ``dtype`` argument; None if not passed."""
        return self._named(name, DTYPE) if self.has(name) else None

    def _named(self, name: str, dtype: str) -> str:
        known = self.by_name[name]
        if known.dtype != dtype or not isinstance(known.value, str):
            raise UnclearError
        return known.value

    def lengths(self, name: str) -> Shape:
        """Return an abstract ``shape`` argument, one int or several, as a tuple of ints."""
        known = self.get(name)
        if known.items is not None:
            return tuple(integer(item) for item in known.items)
        if known.shape != ():
            raise UnclearError
        return (integer(known),)

    def axes(self, name: str, rank: int) -> tuple[int, ...] | None:
        """Return an abstract ``axis`` argument as non-negative ints; None if not passed."""
        if not self.has(name):
            return None
        return tuple(axis_of(sure(axis), rank) for axis in self.lengths(name))


Result = Known | tuple[Known, ...]


Rule = Callable[[Arguments], Result]


def sure(value: _T | None) -> _T:
    """Return a part of an abstract value; raise ``UnclearError`` if it is unknown (None)."""
    if value is None:
        raise UnclearError
    return value


def integer(known: Known) -> int | None:
    """Return the constant of an abstract value that is a known int, or None."""
    value = known.value
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def axis_of(axis: int, rank: int) -> int:
    """Convert an axis number of an abstract value, negative or not, to a non-negative one.

    Raises:
        MisfitError: There is no such axis.
    """
    if rank == 0 and axis in (0, -1):
        # Some functions accept a single number as a row of one.
        raise UnclearError
    if not -rank <= axis < rank:
        axes = "no axes" if rank == 0 else f"{rank} {'axis' if rank == 1 else 'axes'}"
        mend = f"give an axis from {-rank} to {rank - 1}" if rank else "take the axis out"
        raise MisfitError(INDICES, f"there is no axis {axis}: the value has {axes}", mend)
    return axis % rank


def joint_shape(lhs: Shape, rhs: Shape) -> Shape:
    """Broadcast the shapes of two abstract values; raise ``MisfitError`` if that is impossible.

    Raises:
        MisfitError: The shapes cannot be broadcast together.
    """
    joint = broadcast(lhs, rhs)
    if joint is None:
        message = f"shapes {shape_text(lhs)} and {shape_text(rhs)} cannot be broadcast together"
        mend = "lengths are compared from the last axis: each pair must be equal, or one of it 1"
        raise MisfitError(SHAPES, message, mend)
    return joint


def shape_text(shape: Shape) -> str:
    """Render the shape of an abstract value for a message, with ``?`` for unknown lengths."""
    lengths = ["?" if length is None else str(length) for length in shape]
    return f"({lengths[0]},)" if len(lengths) == 1 else f"({', '.join(lengths)})"


def clash(lhs: int | None, rhs: int | None) -> bool:
    """Return whether two lengths in abstract shapes are both known and differ."""
    return lhs is not None and rhs is not None and lhs != rhs


def typed(
    dtype: Callable[[Arguments], str | None], shape: Callable[[Arguments], Shape | None]
) -> Rule:
    """Combine a rule for dtype and one for shape to a rule for a result's abstract value."""

    def rule(arguments: Arguments) -> Known:
        return Known(attempt(dtype, arguments), attempt(shape, arguments))

    return rule


def attempt(find: Callable[[Arguments], _T | None], arguments: Arguments) -> _T | None:
    """Infer a part of a result's abstract value; None where too little is known."""
    try:
        return find(arguments)
    except UnclearError:
        return None
