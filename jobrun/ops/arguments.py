"""Hold what is known of a call's arguments, for the rules that infer dtype and shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final, TypeVar

from jobrun.core.codes import Code
from jobrun.core.lazy_dataclass import dataclass
from jobrun.ops.abstract_values import DTYPE, NONE, TEXT, UNKNOWN, Known, Shape, as_array, broadcast
from jobrun.ops.dtype_promotion import kind_of

_T = TypeVar("_T")

# Codes of what does not fit.
SHAPES: Final = "E290"
KINDS: Final = "E291"
INDICES: Final = "E292"


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


@dataclass(frozen=True, slots=True)
class Arguments:
    """What is known of each argument that a call gives, by its parameter.

    A parameter that is not given, or is given None, is absent. Methods without a default
    raise ``UnclearError`` where what they ask for is not known.

    Attributes:
        given: By the parameter's name.
        rest: Further arguments by position.
    """

    given: Mapping[str, Known] = field(default_factory=dict)
    rest: tuple[Known, ...] = ()

    def has(self, name: str) -> bool:
        """Return whether a call passes the argument of a name, and not None for it."""
        return name in self.given and self.given[name].dtype != NONE

    def get(self, name: str) -> Known:
        """Return the abstract value of a call's argument by name; unknown if it was not passed."""
        return self.given.get(name, UNKNOWN)

    def array(self, name: str) -> Known:
        """Return what is known of one of a call's ``Arguments`` as an array, also of a list."""
        return as_array(self.get(name))

    def shape(self, name: str) -> Shape:
        """Return the shape of an argument of the call."""
        return sure(self.array(name).shape)

    def dtype(self, name: str) -> str:
        """Return the dtype of an argument, which must be numeric."""
        dtype = sure(self.array(name).dtype)
        if not kind_of(dtype):
            raise UnclearError
        return dtype

    def integer(self, name: str, default: int) -> int:
        """Return the constant value of a call's int argument, or the default if not passed."""
        return sure(integer(self.given[name])) if self.has(name) else default

    def flag(self, name: str) -> bool:
        """Return the constant value of a call's bool argument; False if it was not passed."""
        if not self.has(name):
            return False
        value = self.given[name].value
        if not isinstance(value, bool):
            raise UnclearError
        return value

    def word(self, name: str, default: str) -> str:
        """Return the value of a str argument, or the default if it was not passed."""
        if not self.has(name):
            return default
        known = self.given[name]
        if known.dtype != TEXT or not isinstance(known.value, str):
            raise UnclearError
        return known.value

    def asked_dtype(self, name: str = "dtype") -> str | None:
        """Return the dtype that a call's argument ``dtype`` names; None if it was not passed."""
        if not self.has(name):
            return None
        known = self.given[name]
        if known.dtype != DTYPE or not isinstance(known.value, str):
            raise UnclearError
        return known.value

    def lengths(self, name: str) -> Shape:
        """Return an argument that is a shape as a tuple; of a single length a tuple of one."""
        known = self.get(name)
        if known.items is not None:
            return tuple(integer(item) for item in known.items)
        if known.shape != ():
            raise UnclearError
        return (integer(known),)

    def axes(self, name: str, rank: int) -> tuple[int, ...] | None:
        """Return an axis argument as axes counted from 0, in their order, or None."""
        if not self.has(name):
            return None
        return tuple(axis_of(sure(one), rank) for one in self.lengths(name))


Result = Known | tuple[Known, ...]
Rule = Callable[[Arguments], Result]


def sure(value: _T | None) -> _T:
    """Require that a fact about a call's arguments is known; else raise ``UnclearError``."""
    if value is None:
        raise UnclearError
    return value


def integer(known: Known) -> int | None:
    """Return the value of an argument that is a known int, or None."""
    value = known.value
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def axis_of(axis: int, rank: int) -> int:
    """Convert an axis argument, which may be negative, to an axis counted from 0.

    Raises:
        MisfitError: There is no such axis.
    """
    if rank == 0 and axis in (0, -1):
        # Some functions take a single number for a row of one.
        raise UnclearError
    if not -rank <= axis < rank:
        axes = "no axes" if rank == 0 else f"{rank} {'axis' if rank == 1 else 'axes'}"
        mend = f"give an axis from {-rank} to {rank - 1}" if rank else "take the axis out"
        raise MisfitError(INDICES, f"there is no axis {axis}: the value has {axes}", mend)
    return axis % rank


def joint_shape(left: Shape, right: Shape) -> Shape:
    """Broadcast the shapes of two of a call's arguments together, or refuse the arguments.

    Raises:
        MisfitError: They cannot be.
    """
    together = broadcast(left, right)
    if together is None:
        message = f"shapes {shape_text(left)} and {shape_text(right)} cannot be broadcast together"
        mend = "lengths are compared from the last axis: each pair must be equal, or one of it 1"
        raise MisfitError(SHAPES, message, mend)
    return together


def shape_text(shape: Shape) -> str:
    """Render the shape of a call's argument for a message, with ``?`` for unknown lengths."""
    lengths = ["?" if length is None else str(length) for length in shape]
    return f"({lengths[0]},)" if len(lengths) == 1 else f"({', '.join(lengths)})"


def clash(left: int | None, right: int | None) -> bool:
    """Return whether the lengths of two arguments of a call are both known and differ."""
    return left is not None and right is not None and left != right


def typed(
    dtype: Callable[[Arguments], str | None], shape: Callable[[Arguments], Shape | None]
) -> Rule:
    """Make a type rule of two functions of a call's ``Arguments``: for dtype and for shape."""

    def rule(arguments: Arguments) -> Known:
        return Known(_attempt(dtype, arguments), _attempt(shape, arguments))

    return rule


def _attempt(find: Callable[[Arguments], _T | None], arguments: Arguments) -> _T | None:
    try:
        return find(arguments)
    except UnclearError:
        return None
