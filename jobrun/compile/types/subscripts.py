"""Infer dtype and shape of ``x[…]``, a subscript: basic indices, index arrays, masks."""

from __future__ import annotations

import sys
from collections.abc import Callable

from msgspec import Struct

from jobrun.graph.expressions import Const, Expr, Sequence, Slice
from jobrun.ops.abstract_values import (
    INDICES,
    KINDS,
    SHAPES,
    TEXT,
    UNKNOWN,
    Known,
    MisfitError,
    Shape,
    UnclearError,
    as_array,
    clash,
    integer,
    joint_shape,
    shape_text,
    sure,
)
from jobrun.ops.dtype_promotion import kind_of

Infer = Callable[[Expr], Known]
_NEW_AXIS, _REST = Const(None), Const(None, ellipsis=True)


def infer_index(value: Known, index: Expr, infer: Infer) -> Known:
    """Infer dtype and shape of the subscript expression ``value[index]``.

    Args:
        value: The value before the brackets.
        index: The index; several are a ``Sequence`` of form tuple.
        infer: Infers an expression inside the index.

    Raises:
        MisfitError: There are no such items.
        UnclearError: Nothing is known of the result.
    """
    if value.sequence:
        known = UNKNOWN if isinstance(index, Slice) else infer(index)
        if known.sequence or known.shape:
            message = f"a {value.sequence} cannot be indexed like this"
            raise MisfitError(INDICES, message, "make it an array first: array(x)[i, j]")
        at = integer(known)
        if isinstance(index, Slice):
            return Known(sequence=value.sequence)
        if value.items is None or at is None or not -len(value.items) <= at < len(value.items):
            raise UnclearError
        return value.items[at]
    if value.dtype == TEXT:
        raise UnclearError
    shape = sure(value.shape)
    parts = _split_index(index)
    if value.weak is not False and set(parts) <= {_NEW_AXIS, _REST}:
        # A numpy scalar can be indexed by None and '...', a Python number cannot.
        raise UnclearError
    return Known(value.dtype, _IndexedShape(shape, infer).shape(parts))


def _split_index(index: Expr) -> tuple[Expr, ...]:
    several = isinstance(index, Sequence) and index.kind == "tuple"
    return index.items if isinstance(index, Sequence) and several else (index,)


class _ArrayIndex(Struct, frozen=True):
    """An index that is an array or a number.

    Attributes:
        shape: The shape of the index itself.
        value: The index, if it is a known number.
        is_mask: Its dtype is bool; it consumes as many axes as it has.
    """

    shape: Shape
    value: int | None = None
    is_mask: bool = False

    @property
    def axes(self) -> int:
        """Return how many axes of ``x`` this index array consumes in the subscript ``x[…]``."""
        return len(self.shape) if self.is_mask else 1

    @property
    def result_shape(self) -> Shape:
        """Infer the axes that an index array gives the result of a subscript ``x[…]``."""
        return (None,) if self.is_mask else self.shape


class _IndexedShape:
    """The shape of one array, while it is indexed from its first axis to its last."""

    def __init__(self, whole: Shape, infer: Infer) -> None:
        self._whole = whole
        self._infer = infer
        self._at = 0
        self._lengths: list[int | None] = []

    def shape(self, parts: tuple[Expr, ...]) -> Shape:
        """Infer the shape of a subscript ``x[…]`` from the parts of its index."""
        array_indices = [self._infer_array_index(part) for part in parts]
        spare = len(self._whole) - self._count_axes(parts, array_indices)
        has_arrays = any(
            array_index is not None and array_index.shape for array_index in array_indices
        )
        together: Shape = ()
        list_axes: list[int] = []
        start = 0
        for number, (part, array_index) in enumerate(zip(parts, array_indices, strict=True)):
            if array_index is None:
                self._basic(part, spare)
                continue
            self._require_valid(array_index, has_arrays=has_arrays)
            together = joint_shape(together, array_index.result_shape)
            start = start if list_axes else len(self._lengths)
            list_axes.append(number)
            self._at += array_index.axes
        lengths = [*self._lengths, *self._whole[self._at :]]
        # Index arrays that are not adjacent put their axes first.
        is_apart = bool(list_axes) and list_axes[-1] - list_axes[0] >= len(list_axes)
        before = 0 if is_apart else start
        return (*lengths[:before], *together, *lengths[before:])

    def _count_axes(self, parts: tuple[Expr, ...], array_indices: list[_ArrayIndex | None]) -> int:
        taken = sum(
            1 if array_index is None else array_index.axes
            for part, array_index in zip(parts, array_indices, strict=True)
            if part not in (_NEW_AXIS, _REST)
        )
        if taken > len(self._whole):
            message = f"{taken} indices are too many for shape {shape_text(self._whole)}"
            if len(self._whole) == 0:
                message = "a scalar cannot be indexed"
            raise MisfitError(INDICES, message, "use at most one index per axis")
        if parts.count(_REST) > 1:
            raise MisfitError(
                INDICES, "an index can contain '...' only once", "write : for each axis"
            )
        return taken

    def _basic(self, part: Expr, spare: int) -> None:
        """Append the lengths that a slice, ``...`` or None in a subscript adds to the shape."""
        if part == _NEW_AXIS:
            self._lengths.append(1)
            return
        if part == _REST:
            self._lengths += self._whole[self._at : self._at + spare]
            self._at += spare
            return
        self._lengths.append(self._slice_length(part, self._whole[self._at]))
        self._at += 1

    def _infer_array_index(self, part: Expr) -> _ArrayIndex | None:
        if isinstance(part, Slice) or part in (_NEW_AXIS, _REST):
            return None
        known = self._infer(part)
        is_empty_list = known.items == ()
        known = as_array(known)
        if is_empty_list:
            return _ArrayIndex((0,))
        shape, kind = known.shape, kind_of(known.dtype)
        if kind in ("f", "c") or known.dtype == TEXT:
            message = f"an index cannot be {known.dtype}"
            raise MisfitError(KINDS, message, "use integers, bools or slices; int(x) converts")
        if shape is None or not kind or (kind == "b" and not shape):
            raise UnclearError
        return _ArrayIndex(shape, integer(known), is_mask=kind == "b")

    def _require_valid(self, array_index: _ArrayIndex, *, has_arrays: bool) -> None:
        if array_index.is_mask:
            part = self._whole[self._at : self._at + array_index.axes]
            if any(
                clash(length, wanted)
                for length, wanted in zip(array_index.shape, part, strict=True)
            ):
                message = (
                    f"a mask of shape {shape_text(array_index.shape)} does not match "
                    f"{shape_text(part)}"
                )
                raise MisfitError(
                    SHAPES, message, "a mask must have the lengths of the axes that it selects from"
                )
            return
        length = self._whole[self._at]
        inside = (
            length is None or array_index.value is None or -length <= array_index.value < length
        )
        if not inside and not has_arrays:
            message = f"index {array_index.value} is out of range for an axis of length {length}"
            raise MisfitError(INDICES, message, "count from 0, or from the end with -1")

    def _slice_length(self, part: Expr, length: int | None) -> int | None:
        bounds = (part.start, part.stop, part.step) if isinstance(part, Slice) else ()
        numbers: list[int | None] = []
        for bound in bounds:
            known = None if bound is None or bound == _NEW_AXIS else self._infer(bound)
            if known is not None and integer(known) is None:
                return None
            numbers.append(None if known is None else integer(known))
        # No array can have more items than a pointer can address, and ``len`` would fail.
        if length is None or length > sys.maxsize or 0 in numbers[2:]:
            return None
        return len(range(length)[slice(*numbers)])
