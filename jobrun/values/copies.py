"""Copy values of blobs so that they share no memory, and lie without gaps in their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from jobrun.core.errors import TaskFailedError
from jobrun.values import container_flattening as trees
from jobrun.values import object_state as objects
from jobrun.values.adapters.registry import UnsavableError
from jobrun.values.axis_order import dense_copy, has_gaps, is_dense
from jobrun.values.blob_kinds import (
    MOST_DIMENSIONS,
    Value,
    find_tree_fault,
    is_object,
    kind_of,
    require_storable,
)
from jobrun.values.compare import require_adapted
from jobrun.values.file_memory import is_whole_file
from jobrun.values.kinds.builtin import PLAIN_KINDS
from jobrun.values.kinds.counter import Counter

_OWN_FORM: frozenset[type] = PLAIN_KINDS | {Counter}
# Of numpy's, immutable as well.
_NUMBERS = (np.number, np.bool_)
# There is one object for each of numpy's own dtypes; one with metadata or of foreign byte order is
# another. Blobs can hold all of these.
_NATIVE_DTYPES = frozenset(id(np.dtype(code)) for code in "?bBhHiIlLqQefdFD")
# Gets a value's name, its parts, and what a load would make of these.
NoteRemade = Callable[[str, trees.Parts, Value], None]
_ADAPTER_MEND = (
    "let the adapter's get return all that make needs to make an equal value; 'jobrun explain "
    "adapters' shows one"
)


def ignore_remade(*_: object) -> None:
    """Note nothing."""


def detach(value: Value, name: str = "?", note_gaps: Callable[[str], None] | None = None) -> Value:
    """Copy a blob's value to new memory, with the same kind, dtype, shape, bits and axis order.

    Of containers every part is copied, and what is shared inside stays shared.

    Args:
        value: The value.
        name: For errors.
        note_gaps: Called with the place of each array that has gaps between its elements, which
            the copy has not.

    Raises:
        TaskFailedError: E202, if no blob can hold the value; E240, it is an object, of which
            there is no copy; the error names ``name``.
    """
    kind = type(value)
    if kind in PLAIN_KINDS:
        return value
    if (
        kind is np.ndarray
        and id(value.dtype) in _NATIVE_DTYPES
        and value.ndim <= MOST_DIMENSIONS
        and value.flags.c_contiguous
    ):
        # Nothing to refuse, and no order to keep: records may be small and many.
        return value.copy()
    if trees.is_tree(value):
        return _tree_of(value, name, partial(detach, note_gaps=note_gaps))
    require_storable(value, name)
    if kind_of(value) is None:
        raise object_copy_error(value, name)
    if type(value) is np.ndarray:
        if note_gaps is not None and has_gaps(value.shape, value.strides, value.itemsize):
            note_gaps(name)
        return dense_copy(value)
    if type(value) is Counter:
        return Counter(value.value)
    # A record taken out of an array is a view of it; other numpy scalars are immutable.
    return value.copy() if isinstance(value, np.void) else value


def detach_state(state: Value) -> Value:
    """Copy all values in an object's state, so that they share no memory with the object.

    Arrays that overlap get memory of their own.

    Raises:
        UnsavableError: Something in it cannot be kept.
    """
    if not trees.is_tree(state):
        return detach(state)
    return _copied(trees.flatten(state, gaps=True, most_leaves=0), "?", detach, gaps=True)


def take_over(
    value: Value, name: str = "?", note_gaps: Callable[[str], None] | None = None
) -> Value:
    """Return a blob's value to which nothing else refers: itself, or a copy of what need be.

    What adapters take apart stays the very object that it is in plain Python, since another one
    would lack what its adapter leaves out. All else is copied, as by ``detach``.

    Raises:
        TaskFailedError: As by ``detach``.
    """
    if trees.is_tree(value) and _stays(_flattened(value, name)):
        return value
    return detach(value, name, note_gaps)


def boundary_form(value: Value, name: str = "?", note_remade: NoteRemade = ignore_remade) -> Value:
    """Copy a blob's value into gapless memory of its own, unless it already owns such memory.

    That is, of an array: memory of its own, aligned, writable, without gaps, in the axis order that
    it had, because sums and products add in the order of memory. An array that has this form is
    returned itself, and so is an object, whose form is its own matter, and a container of what
    adapters take apart; anything else as a copy.

    Args:
        value: The value.
        name: For errors.
        note_remade: Called for a value that adapters take apart: its name, its parts, and what a
            load would make of these.

    Raises:
        TaskFailedError: E202, if no blob can hold the value; the error names ``name``.
    """
    if type(value) is not np.ndarray:
        if type(value) in _OWN_FORM or isinstance(value, _NUMBERS):
            return value
        if trees.is_tree(value):
            parts = _flattened(value, name)
            # Also of what stays: that it can be made again is known before it is saved.
            remade = _copied(parts, name, boundary_form)
            if parts.checked:
                note_remade(name, parts, remade)
            return value if _stays(parts) else remade
        return value if is_object(value) else detach(value, name)
    if value.dtype.hasobject:
        require_storable(value, name)
    return value if has_boundary_form(value) else dense_copy(value)


def require_remakeable(value: Value, name: str, note_remade: NoteRemade = ignore_remade) -> None:
    """Require of a container that what a load would make of it is the same.

    Args:
        value: The container.
        name: For errors.
        note_remade: As of ``boundary_form``.

    Raises:
        TaskFailedError: E202, it cannot be kept, or not be made again; E258.
    """
    parts = _flattened(value, name)
    if parts.adapted:
        remade = _copied(parts, name, boundary_form)
        if parts.checked:
            note_remade(name, parts, remade)


def has_boundary_form(array: np.ndarray[Any, Any]) -> bool:
    """Return whether an array needs no copy at the end of an epoch: it owns gapless memory.

    Or a file has it, and no other array does.
    """
    flags = array.flags
    return bool(flags.behaved and (flags.owndata or is_whole_file(array)) and is_dense(array))


def object_copy_error(value: Value, name: str) -> TaskFailedError:
    """Build error E240: a blob that is a model or another object cannot be copied."""
    what = "this" if name == "?" else f"'{name}'"
    return TaskFailedError.of(
        "E240",
        f"{what} is an object of class {objects.class_name(value)}, and there is only one of it",
        "hand it to a callable with call and with, and to be changed with inout; let that return "
        "the numbers and arrays that are wanted",
    )


def _tree_of(value: Value, name: str, copy: Callable[[Value, str], Value]) -> Value:
    """Copy a container: copy each leaf by ``copy``, and rebuild the container from the copies."""
    return _copied(_flattened(value, name), name, copy)


def lives_on(value: Value) -> bool:
    """Return whether a container has values of users' adapters, which rather stay than are copied.

    Copies may lack what such an adapter leaves out.
    """
    try:
        return bool(trees.flatten(value).checked)
    except UnsavableError:
        return False


def _stays(parts: trees.Parts) -> bool:
    """Return whether a container needs no copy: adapters take all but arrays of good form apart."""
    return parts.adapted and all(array.flags.behaved and is_dense(array) for array in parts.loose)


def _flattened(value: Value, name: str) -> trees.Parts:
    """Flatten a container in a blob.

    Raises:
        TaskFailedError: E202, something in it is of a kind that cannot be kept; E258, arrays in it
            share memory.
    """
    try:
        # Scalars need no copy.
        parts = trees.flatten(value, most_leaves=0)
    except UnsavableError as error:
        fault = find_tree_fault(value, name)
        raise TaskFailedError(*([fault] if fault else [])) from error
    if parts.overlapping:
        first, second = ("/".join((name, *path)) for path in parts.overlapping[0])
        raise TaskFailedError.of(
            "E258",
            f"'{second}' shares memory with '{first}'",
            "copy one of them, array.copy(); one and the same array may be at two places",
        )
    return parts


def _copied(
    parts: trees.Parts, name: str, copy: Callable[[Value, str], Value], *, gaps: bool = False
) -> Value:
    copies = {path: copy(leaf, "/".join((name, *path))) for path, leaf in parts.leaves.items()}
    try:
        value = trees.unflatten(parts.structure, copies)
        if parts.adapted:
            require_adapted(parts.structure, copies, value, gaps=gaps, most_leaves=0)
    except ValueError as error:
        message = f"blob '{name}' cannot hold {error}"
        raise TaskFailedError.of("E202", message, _ADAPTER_MEND) from error
    return value
