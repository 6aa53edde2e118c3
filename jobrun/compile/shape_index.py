"""What is known of ``x[…]``: basic indices, index arrays and masks, as numpy has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jobrun.graph.expr import Const, Expr, Sequence, Slice
from jobrun.ops.arguments import (
    INDICES,
    KINDS,
    SHAPES,
    MisfitError,
    UnclearError,
    clash,
    integer,
    joint_shape,
    shape_text,
    sure,
)
from jobrun.ops.known import TEXT, Known, Shape, as_array, kind_of

Look = Callable[[Expr], Known]
_NEW_AXIS, _REST = Const(None), Const(None, ellipsis=True)


def indexed(value: Known, index: Expr, look: Look) -> Known:
    """What is known of ``value[index]``.

    Args:
        value: What is indexed.
        index: The index; several are a ``Sequence`` of form tuple.
        look: Tells what is known of an expression.

    Raises:
        MisfitError: There are no such items.
        UnclearError: Nothing can be said.
    """
    if value.items is not None:
        at = integer(look(index)) if not isinstance(index, Slice) else None
        if at is None or not -len(value.items) <= at < len(value.items):
            raise UnclearError
        return value.items[at]
    if value.dtype == TEXT:
        raise UnclearError
    shape = sure(value.shape)
    parts = _parts(index)
    if value.weak is not False and set(parts) <= {_NEW_AXIS, _REST}:
        # A Python number has no such index, and a numpy one has.
        raise UnclearError
    return Known(value.dtype, _Indexing(shape, look).shape(parts))


def _parts(index: Expr) -> tuple[Expr, ...]:
    several = isinstance(index, Sequence) and index.form == "tuple"
    return index.items if isinstance(index, Sequence) and several else (index,)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """One index array or number.

    Attributes:
        shape: Its own.
        value: That of a known number.
        is_mask: It is of bools, and takes as many axes as it has.
    """

    shape: Shape
    value: int | None = None
    is_mask: bool = False

    @property
    def axes(self) -> int:
        """How many axes of the value it takes."""
        return len(self.shape) if self.is_mask else 1

    @property
    def chosen(self) -> Shape:
        """The shape of what it chooses; how many items a mask lets through is not known."""
        return (None,) if self.is_mask else self.shape


class _Indexing:
    """The shape of one array, being indexed from its first axis to its last."""

    def __init__(self, whole: Shape, look: Look) -> None:
        self._whole = whole
        self._look = look
        self._at = 0
        self._lengths: list[int | None] = []

    def shape(self, parts: tuple[Expr, ...]) -> Shape:
        """The shape that is left."""
        found = [self._chosen(part) for part in parts]
        spare = len(self._whole) - self._taken(parts, found)
        has_arrays = any(one is not None and one.shape for one in found)
        together: Shape = ()
        places: list[int] = []
        start = 0
        for number, (part, one) in enumerate(zip(parts, found, strict=True)):
            if one is None:
                self._basic(part, spare)
                continue
            self._check(one, has_arrays=has_arrays)
            together = joint_shape(together, one.chosen)
            start = start if places else len(self._lengths)
            places.append(number)
            self._at += one.axes
        rest = [*self._lengths, *self._whole[self._at :]]
        # Index arrays apart from each other put their axes first.
        is_apart = bool(places) and places[-1] - places[0] >= len(places)
        before = 0 if is_apart else start
        return (*rest[:before], *together, *rest[before:])

    def _taken(self, parts: tuple[Expr, ...], found: list[_Chosen | None]) -> int:
        taken = sum(1 if one is None else one.axes
                    for part, one in zip(parts, found, strict=True)
                    if part not in (_NEW_AXIS, _REST))  # fmt: skip
        if taken > len(self._whole):
            message = f"{taken} indices are too many for shape {shape_text(self._whole)}"
            if len(self._whole) == 0:
                message = "a single number has no items"
            raise MisfitError(INDICES, message, "give at most one index for each axis")
        if parts.count(_REST) > 1:
            raise MisfitError(INDICES, "an index has one '...' only", "write : for each axis")
        return taken

    def _basic(self, part: Expr, spare: int) -> None:
        """A slice, a new axis, or '...'."""
        if part == _NEW_AXIS:
            self._lengths.append(1)
            return
        if part == _REST:
            self._lengths += self._whole[self._at : self._at + spare]
            self._at += spare
            return
        self._lengths.append(self._sliced(part, self._whole[self._at]))
        self._at += 1

    def _chosen(self, part: Expr) -> _Chosen | None:
        if isinstance(part, Slice) or part in (_NEW_AXIS, _REST):
            return None
        known = self._look(part)
        is_empty_list = known.items == ()
        known = as_array(known)
        if is_empty_list:
            return _Chosen((0,))
        shape, kind = known.shape, kind_of(known.dtype)
        if kind in ("f", "c") or known.dtype == TEXT:
            message = f"an index cannot be {known.dtype}"
            raise MisfitError(KINDS, message, "give integers, bools or slices; int(x) makes one")
        if shape is None or not kind or (kind == "b" and not shape):
            raise UnclearError
        return _Chosen(shape, integer(known), is_mask=kind == "b")

    def _check(self, one: _Chosen, *, has_arrays: bool) -> None:
        if one.is_mask:
            part = self._whole[self._at : self._at + one.axes]
            if any(clash(length, wanted) for length, wanted in zip(one.shape, part, strict=True)):
                message = f"a mask of shape {shape_text(one.shape)} does not fit {shape_text(part)}"
                raise MisfitError(SHAPES, message, "a mask has the lengths of the axes it takes")
            return
        length = self._whole[self._at]
        inside = length is None or one.value is None or -length <= one.value < length
        if not inside and not has_arrays:
            message = f"index {one.value} is outside of an axis of length {length}"
            raise MisfitError(INDICES, message, "count from 0, or from the end with -1")

    def _sliced(self, part: Expr, length: int | None) -> int | None:
        bounds = (part.start, part.stop, part.step) if isinstance(part, Slice) else ()
        numbers: list[int | None] = []
        for bound in bounds:
            known = None if bound is None or bound == _NEW_AXIS else self._look(bound)
            if known is not None and integer(known) is None:
                return None
            numbers.append(None if known is None else integer(known))
        if length is None or 0 in numbers[2:]:
            return None
        return len(range(length)[slice(*numbers)])
