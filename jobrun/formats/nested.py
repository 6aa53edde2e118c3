"""Fields inside members: records whose fields have names, dtypes and shapes of their own. No files.

A member of records (a structured dtype) is asked for whole, by its name, or field by field:
``people/age`` is the field ``age`` of the member ``people``, and ``people/pos/x`` a field of a
field. A member whose own name is the whole text comes first. Text and tuples only; no numpy.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator
from typing import Any

# A dtype as ``numpy.dtype.str`` has it, or the text of its ``descr``; and the lengths of the axes.
Form = tuple[str, tuple[int, ...]]


def splits(member: str, *, alone: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The ways to read a name as a member and fields inside it, the longest member first.

    Args:
        member: The name.
        alone: The file is one array, whose member has no name.
    """
    parts = member.split("/")
    for at in range(len(parts) - 1, 0, -1):
        yield "/".join(parts[:at]), tuple(parts[at:])
    if alone:
        yield "", tuple(parts)


def form_inside(form: Form, fields: tuple[str, ...]) -> Form | None:
    """The form of a field inside records of this form; None when there is no such field."""
    descr, shape = _descr(form[0]), form[1]
    for name in fields:
        found = next((one for one in _fields(descr) if one[0] == name), None)
        if found is None:
            return None
        _, descr, more = found
        shape = (*shape, *more)
    return descr if isinstance(descr, str) else repr(descr), shape


def names_inside(member: str, form: Form) -> tuple[str, ...]:
    """The names of all fields inside a member of this form that have none inside themselves."""
    return tuple(f"{member}/{name}" if member else name for name in _leaves(_descr(form[0])))


def located(
    member: str, form_of: Callable[[str], Form | None], *, alone: bool
) -> tuple[str, tuple[str, ...]] | None:
    """The member and the fields inside it that a name means; None when it means none.

    Args:
        member: The name.
        form_of: The form of a member; None when there is none of that name.
        alone: The file is one array.
    """
    for base, fields in splits(member, alone=alone):
        form = form_of(base)
        if form is not None:
            return (base, fields) if form_inside(form, fields) is not None else None
    return None


def item_bytes(form: str) -> int | None:
    """The bytes of one item of a dtype, from its text; None where that does not tell."""
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
    """Name, dtype and further axes of each field; what only fills space is none."""
    if isinstance(descr, str):
        return
    for one in descr:
        name = one[0] if isinstance(one[0], str) else one[0][1]
        if name:
            yield name, one[1], tuple(one[2]) if len(one) > 2 else ()


def _descr(text: str) -> Any:
    return ast.literal_eval(text) if text.startswith("[") else text
