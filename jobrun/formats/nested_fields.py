"""Find nested fields of records (structured dtypes) by name, from the text of a dtype alone."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator
from typing import Any

from jobrun.core.lazy_dataclass import dataclass

# A dtype as ``numpy.dtype.str`` has it, or the text of its ``descr``; and the lengths of the axes.
Form = tuple[str, tuple[int, ...]]


def name_splits(member: str, *, alone: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the ways to split a name into a member and nested fields, the longest member first.

    Args:
        member: The name.
        alone: The file is one array, whose member has no name.
    """
    parts = member.split("/")
    for at in range(len(parts) - 1, 0, -1):
        yield "/".join(parts[:at]), tuple(parts[at:])
    if alone:
        yield "", tuple(parts)


def field_form(form: Form, fields: tuple[str, ...]) -> Form | None:
    """Return dtype and axes of a nested field of records; None when there is no such field."""
    descr, shape = _descr(form[0]), form[1]
    for name in fields:
        found = next((one for one in _fields(descr) if one[0] == name), None)
        if found is None:
            return None
        _, descr, more = found
        shape = (*shape, *more)
    return descr if isinstance(descr, str) else repr(descr), shape


def field_names(member: str, form: Form) -> tuple[str, ...]:
    """Return the names of all innermost fields of a member that holds records."""
    return tuple(f"{member}/{name}" if member else name for name in _leaves(_descr(form[0])))


def locate_field(
    member: str, form_of: Callable[[str], Form | None], *, alone: bool
) -> tuple[str, tuple[str, ...]] | None:
    """Return the member and the nested fields that a name means; None when it means none.

    Args:
        member: The name.
        form_of: The form of a member; None when there is none of that name.
        alone: The file is one array.
    """
    for base, fields in name_splits(member, alone=alone):
        form = form_of(base)
        if form is not None:
            return (base, fields) if field_form(form, fields) is not None else None
    return None


def item_bytes(form: str) -> int | None:
    """Compute the bytes of a record with nested fields from its dtype's text; None if open."""
    return _item_bytes(_descr(form))


def _item_bytes(descr: Any) -> int | None:
    if isinstance(descr, str):
        digits = descr[2:].partition("[")[0]
        width = 4 if descr[1:2] == "U" else 1
        return int(digits) * width if digits.isdigit() else None
    total = 0
    for one in descr:
        size = _item_bytes(one[1])
        if size is None:
            return None
        total += size * math.prod(one[2] if len(one) > 2 else ())
    return total


def _leaves(descr: Any) -> Iterator[str]:
    for name, inner, _ in _fields(descr):
        further = [f"{name}/{one}" for one in _leaves(inner)]
        yield from further or [name]


def _fields(descr: Any) -> Iterator[tuple[str, Any, tuple[int, ...]]]:
    """Yield name, dtype and further axes of the nested fields right inside a record's ``descr``."""
    if isinstance(descr, str):
        return
    for one in descr:
        name = one[0] if isinstance(one[0], str) else one[0][1]
        if name:
            yield name, one[1], tuple(one[2]) if len(one) > 2 else ()


def _descr(text: str) -> Any:
    return ast.literal_eval(text) if text.startswith("[") else text


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """What is known of a member before it is read.

    Attributes:
        dtype: As numpy's ``dtype.str`` has it, such as ``<f8``; for a record the text of its
            ``descr``. Empty when only the data tell (csv); then ``shape`` is () as well.
        shape: Lengths of the axes.
    """

    dtype: str
    shape: tuple[int, ...]
