"""Compare dtypes by every property that shows, which ``==`` does not.

numpy takes dtypes for equal that differ in the class of their scalars (``np.record``), in the
titles of fields, in being aligned, and in their metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

DType = np.dtype[Any]

_LONG_DOUBLES = (np.longdouble, np.clongdouble)
_X86_BITS = 63


def same_dtype(first: DType, second: DType) -> bool:
    """Compare two dtypes also by scalar class, titles, alignment and metadata."""
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
    """Iterate over the fields of a record dtype: dtype, offset and title of each."""
    fields: Any = dtype.fields or {}
    for name in dtype.names or ():
        field = fields[name]
        yield field[0], field[1], field[2] if len(field) > 2 else None


def value_bytes(array: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """Yield an array's bytes as its dtype defines them, field by field, without padding.

    Left out is the padding between the fields of a record dtype and behind an x86 long double (10
    bytes of number in 16 of memory): it holds whatever was there, and a copy need not keep it.
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


def explain_unsavable_dtype(dtype: DType) -> str:
    """Explain which property of a dtype cannot be saved; empty if all can."""
    if dtype.metadata and not _is_plain(dict(dtype.metadata)):
        return (
            f"the metadata {str(dict(dtype.metadata))[:60]}, which are not plain text and numbers"
        )
    if dtype.subdtype is not None:
        return explain_unsavable_dtype(dtype.subdtype[0])
    for field, _, title in iterate_fields(dtype):
        if title is not None and type(title) is not str:
            return f"a field with the title {str(title)[:40]}, which is not a text"
        why = explain_unsavable_dtype(field)
        if why:
            return why
    return ""


def _is_plain(metadata: dict[Any, Any]) -> bool:
    try:
        return bool(json.loads(json.dumps(metadata, allow_nan=False)) == metadata)
    except (TypeError, ValueError, RecursionError):
        return False
