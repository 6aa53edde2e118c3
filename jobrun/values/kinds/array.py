"""Describe arrays and scalars of numpy; compare structured dtypes, and read their fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jobrun.values.kinds import Kind, Steps

DType = np.dtype[Any]

_LONG_DOUBLES = (np.longdouble, np.clongdouble)
_X86_BITS = 63


def same_dtype(first: DType, second: DType) -> bool:
    """Return whether two dtypes are equal, as are titles and alignment of structured ones.

    Their metadata count, too, which ``==`` leaves out.
    """
    if first is second:
        return True
    if first != second or first.type is not second.type:
        return False
    if dict(first.metadata or {}) != dict(second.metadata or {}):
        return False
    if first.subdtype is not None and second.subdtype is not None:
        return same_dtype(first.subdtype[0], second.subdtype[0])
    if first.names is None:
        return True
    return first.isalignedstruct == second.isalignedstruct and all(
        one[1:] == other[1:] and same_dtype(one[0], other[0])
        for one, other in zip(iterate_fields(first), iterate_fields(second), strict=True)
    )


def iterate_fields(dtype: DType) -> Iterator[tuple[DType, int, Any]]:
    """Yield the dtype, offset and title of each field of a structured dtype."""
    fields: Any = dtype.fields or {}
    for name in dtype.names or ():
        field = fields[name]
        yield field[0], field[1], field[2] if len(field) > 2 else None


def value_bytes(array: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """Yield an array's bytes without padding, field by field of its structured dtype.

    Left out is the padding between the fields of a structured dtype and behind an x86 long double
    (10 bytes of number in 16 of memory): it holds whatever was there, and a copy need not keep it.
    """
    if array.dtype.names:
        for name in array.dtype.names:
            yield from value_bytes(array[name])
        return
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if array.dtype.type in _LONG_DOUBLES and np.finfo(np.longdouble).nmant == _X86_BITS:
        width = np.dtype(np.longdouble).itemsize
        # In the other byte order the number is behind the padding.
        number = slice(10) if array.dtype.isnative else slice(width - 10, None)
        raw = np.ascontiguousarray(raw.reshape(-1, width)[:, number]).reshape(-1)
    yield raw


def is_structured_scalar(value: Any) -> bool:
    """Return whether a value is a numpy scalar of a structured dtype, whose fields can be set.

    Other scalars never change; the fields of this one can be set, and its memory may be that of an
    array: ``np.asarray(value)`` is a view of it.
    """
    return isinstance(value, np.void) and value.dtype.names is not None


def read_only_row(value: Any) -> Any:
    """Return a read-only view of a numpy scalar of a structured dtype."""
    row = np.asarray(value).view()
    row.flags.writeable = False
    return row[()]


class ArrayKind(Kind):
    """Arrays, also those of Python objects and those of subclasses, which no blob holds."""

    is_memory = True

    @staticmethod
    def matches(value_class: type) -> bool:
        return issubclass(value_class, np.ndarray)

    def parts(self, value: Any) -> Steps:
        has_objects = self.value_class is np.ndarray and value.dtype.hasobject
        return enumerate(value.reshape(-1).tolist()) if has_objects else ()


class NumpyScalarKind(Kind):
    """Scalars of numpy, of which only those with fields can change."""

    is_memory = True

    @staticmethod
    def matches(value_class: type) -> bool:
        return issubclass(value_class, np.generic)

    def is_mutable(self, value: Any) -> bool:
        return is_structured_scalar(value)
