"""Define which kinds of values blobs may hold; copy and compare them bit for bit.

Not how they are stored (``checkpoint``) or what an expression makes of them (``runtime``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from jobrun.core.errors import Fault, TaskFailedError
from jobrun.values import containers as trees
from jobrun.values import objects
from jobrun.values.adapters.registry import Path, UnsavableError
from jobrun.values.atomic_counter import Counter
from jobrun.values.axis_order import dense_copy, has_gaps, is_dense
from jobrun.values.dtypes import explain_unsavable_dtype, same_dtype, value_bytes
from jobrun.values.sharing import find_overlapping

# An array, a numpy scalar, a Python scalar, text, a Counter; a container of these; an object.
Value = Any

Kind = Literal["array", "numpy", "bool", "int", "float", "complex", "text", "counter"]

_PYTHON_KINDS: dict[type, Kind] = {
    bool: "bool",
    int: "int",
    float: "float",
    complex: "complex",
    str: "text",
    Counter: "counter",
    np.ndarray: "array",
}
# Immutable, so a copy is never needed.
PLAIN_KINDS: frozenset[type] = frozenset({bool, int, float, complex, str})
_OWN_FORM: frozenset[type] = PLAIN_KINDS | {Counter}
# libhdf5's own limit.
MOST_DIMENSIONS = 32
# So many bytes of two arrays are compared at a time, of dtypes whose items are the bytes in them.
_PORTION_BYTES = 1 << 20
_BYTES_KINDS = "biufcmMSUV"
# Of numpy's, immutable as well.
_NUMBERS = (np.number, np.bool_)


_TREE_MEND = (
    "a container holds arrays, numbers, text, bytes, None, further containers and values with an "
    "adapter; convert the value to one of these, leave it out, or adapt its class, for which "
    "jobrun.adapt(TheClass) is often enough: 'jobrun explain adapters'"
)

_OBJECT_MEND = (
    "it is an object, which is a blob of its own: make it in a task of init with rebuild: true, "
    "and list it in inout where it is changed; 'jobrun explain objects'"
)

_ADAPTER_MEND = (
    "let the adapter's get return all that make needs to make an equal value; 'jobrun explain "
    "adapters' shows one"
)


def kind_of(value: Value) -> Kind | None:
    """Return the kind of a blob's single value (array, int, str, …); None for anything else.

    Subclasses do not count as their parents: a masked array is not an array, since a
    copy, a file and a comparison would all lose its mask.
    """
    kind = _PYTHON_KINDS.get(type(value))
    if kind == "array":
        return None if value.dtype.hasobject else "array"
    if kind is not None:
        return kind
    return "numpy" if trees.is_numpy_scalar(value) else None


def check_storable(value: Value, name: str) -> Fault | None:
    """Return the fault if the blob ``name`` cannot hold this kind of value, or None."""
    kind = kind_of(value)
    if kind in {"array", "numpy"}:
        return _array_refusal(value, name)
    if kind is not None or is_object(value):
        return None
    if trees.is_tree(value):
        return _tree_refusal(value, name)
    return Fault("E202", f"blob '{name}' cannot hold {_class_text(value)}", _mend(value))


def may_be_compound(kind: type) -> bool:
    """Return whether a class may be of a compound kind of blobs: container or object."""
    return kind not in _PYTHON_KINDS and not issubclass(kind, np.generic)


def is_object(value: Value) -> bool:
    """Return whether a blob's value is of the kind object: with state of its own, not copied."""
    return kind_of(value) is None and objects.is_object(value)


def require_storable(value: Value, name: str) -> Value:
    """Return the value itself if it is of a kind that a blob can hold, else raise.

    Raises:
        TaskFailedError: E202, if no blob can hold it.
    """
    fault = check_storable(value, name)
    if fault is not None:
        raise TaskFailedError(fault)
    return value


def detach(value: Value, name: str = "?", note_gaps: Callable[[str], None] | None = None) -> Value:
    """Copy a blob's value so that it shares no memory: same kind, dtype, shape, bits, axis order.

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
    if type(value) in PLAIN_KINDS:
        return value
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
    """Copy every kind of value in an object's state, so that it shares no memory with it.

    Arrays that overlap get memory of their own.

    Raises:
        UnsavableError: Something in it cannot be kept.
    """
    if not trees.is_tree(state):
        return detach(state)
    return _copied(trees.flatten(state, gaps=True), "?", detach, gaps=True)


def boundary_form(value: Value, name: str = "?") -> Value:
    """Return a blob's value in the form that values have at epoch boundaries: dense, own memory.

    That is, of an array: memory of its own, aligned, writable, without gaps, in the axis order that
    it had, because sums and products add in the order of memory. An array that has this form is
    returned itself, and so is an object, whose form is its own matter; anything else as a copy.

    Raises:
        TaskFailedError: E202, if no blob can hold the value; the error names ``name``.
    """
    if type(value) is not np.ndarray:
        if type(value) in _OWN_FORM or isinstance(value, _NUMBERS):
            return value
        if trees.is_tree(value):
            return _tree_of(value, name, boundary_form)
        return value if is_object(value) else detach(value, name)
    if value.dtype.hasobject:
        require_storable(value, name)
    return value if has_boundary_form(value) else dense_copy(value)


def has_boundary_form(array: np.ndarray[Any, Any]) -> bool:
    """Return whether a blob's array has the form that values have at epoch boundaries."""
    flags = array.flags
    return bool(flags.behaved and flags.owndata and is_dense(array))


def same_bits(first: Value, second: Value) -> bool:
    """Return whether two blobs' values are equal in kind, dtype, shape and every bit.

    A NaN equals a NaN of the same payload only, and 0.0 differs from -0.0. Bytes between
    the fields of a record dtype do not count: a copy need not keep them.
    """
    if trees.is_tree(first) and trees.is_tree(second):
        return _same_trees(first, second)
    kind = kind_of(first)
    if kind is None or kind != kind_of(second):
        return False
    if kind in {"array", "numpy"}:
        return _same_arrays(np.asarray(first), np.asarray(second))
    return bool(_bits(first) == _bits(second))


def object_copy_error(value: Value, name: str) -> TaskFailedError:
    """Build the error for copying a blob's value that is an object."""
    what = "this" if name == "?" else f"'{name}'"
    return TaskFailedError.of(
        "E240",
        f"{what} is an object of class {objects.class_name(value)}, and there is only one of it",
        "hand it to a callable with call and with, and to be changed with inout; let that return "
        "the numbers and arrays that are wanted",
    )


def describe(value: Value) -> str:
    """Describe a value's kind, dtype and shape, such as ``float32 array of shape (3, 4)``."""
    if trees.is_tree(value):
        return trees.describe_tree(value)
    if isinstance(value, objects.ObjectState | objects.ObjectFacts):
        return f"object of class {value.class_name}"
    kind = kind_of(value)
    if kind == "array":
        return f"{value.dtype} array of shape {value.shape}"
    if kind == "numpy":
        return f"numpy {value.dtype} scalar"
    if kind is None:
        is_object = objects.is_object(value)
        return f"object of class {objects.class_name(value)}" if is_object else _class_text(value)
    return {"text": "text", "counter": "counter"}.get(kind, f"Python {kind}")


def size_bytes(values: Sequence[Value]) -> int:
    """Sum the memory that blobs' values take, in bytes; scalars count as 8."""
    return sum(int(getattr(value, "nbytes", 8)) for value in values)


def _array_refusal(value: Value, name: str) -> Fault | None:
    if value.ndim > MOST_DIMENSIONS:
        return Fault(
            "E202",
            f"blob '{name}' cannot hold an array of {value.ndim} dimensions; {MOST_DIMENSIONS} is "
            "the most",
            "reshape it: a checkpoint has no more",
        )
    dtype = value.dtype
    why = explain_unsavable_dtype(dtype) if dtype.isbuiltin != 1 or dtype.metadata else ""
    if not why:
        return None
    return Fault(
        "E202",
        f"blob '{name}' cannot hold an array of dtype {dtype} with {why}",
        "convert it with astype() to a dtype without that",
    )


def _tree_refusal(value: Value, name: str) -> Fault | None:
    try:
        parts = trees.flatten(value)
    except UnsavableError as error:
        place = "/".join((name, *error.path))
        mend = _OBJECT_MEND if is_object(error.part) else _TREE_MEND
        return Fault("E202", f"blob '{name}' cannot hold {error.what}, at '{place}'", mend)
    faults = (
        _array_refusal(leaf, "/".join((name, *path)))
        for path, leaf in parts.leaves.items()
        if type(leaf) is np.ndarray
    )
    return next(filter(None, faults), None)


def _tree_of(value: Value, name: str, copy: Callable[[Value, str], Value]) -> Value:
    """Rebuild a container from copies of its leaves, each of the same kind.

    Raises:
        TaskFailedError: E202, something in it is of a kind that cannot be kept; E258, arrays in it
            share memory.
    """
    try:
        parts = trees.flatten(value)
    except UnsavableError as error:
        fault = _tree_refusal(value, name)
        raise TaskFailedError(*([fault] if fault else [])) from error
    pairs = find_overlapping(parts.leaves, identical=False)
    if pairs:
        first, second = ("/".join((name, *path)) for path in pairs[0])
        raise TaskFailedError.of(
            "E258",
            f"'{second}' shares memory with '{first}'",
            "copy one of them, array.copy(); one and the same array may be at two places",
        )
    return _copied(parts, name, copy)


def _copied(
    parts: trees.Parts, name: str, copy: Callable[[Value, str], Value], *, gaps: bool = False
) -> Value:
    copies = {path: copy(leaf, "/".join((name, *path))) for path, leaf in parts.leaves.items()}
    try:
        value = trees.unflatten(parts.structure, copies)
        if parts.adapted:
            require_adapted(parts.structure, copies, value, gaps=gaps)
    except ValueError as error:
        message = f"blob '{name}' cannot hold {error}"
        raise TaskFailedError.of("E202", message, _ADAPTER_MEND) from error
    return value


def require_adapted(
    structure: Any, leaves: Mapping[Path, Value], made: Value, *, gaps: bool = False
) -> None:
    """Refuse a value that its adapters have made, and that they take apart into other parts.

    Raises:
        ValueError: It differs, with the place.
    """
    if trees.unbound_classes(made):
        return
    try:
        again = trees.flatten(made, gaps=gaps)
    except UnsavableError as error:
        raise ValueError(f"what its adapter makes of it: {error}") from error
    for path, leaf in leaves.items():
        if path not in again.leaves or not same_bits(again.leaves[path], leaf):
            raise ValueError(f"what its adapter makes of it: '{'/'.join(path)}' is another")
    if again.structure != structure:
        raise ValueError("what its adapter makes of it: it is put together in another way")


def _same_trees(first: Value, second: Value) -> bool:
    try:
        ours, theirs = trees.flatten(first), trees.flatten(second)
    except UnsavableError:
        return False
    return ours.structure == theirs.structure and all(
        same_bits(leaf, theirs.leaves[path]) for path, leaf in ours.leaves.items()
    )


def _same_arrays(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> bool:
    if not same_dtype(first.dtype, second.dtype) or first.shape != second.shape:
        return False
    if first.dtype.names:
        return all(_same_arrays(first[name], second[name]) for name in first.dtype.names)
    if first.dtype.type in (np.longdouble, np.clongdouble):
        return all(map(np.array_equal, value_bytes(first), value_bytes(second)))
    return _same_bytes(first, second)


def _same_bytes(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> bool:
    """Compare the bytes of two arrays of one dtype and shape; large ones without a copy."""
    if first.nbytes <= _PORTION_BYTES or first.dtype.kind not in _BYTES_KINDS:
        return first.tobytes() == second.tobytes()
    if first.flags.c_contiguous and second.flags.c_contiguous:
        ours, theirs = (one.reshape(-1).view(np.uint8) for one in (first, second))
        # A portion at a time, so that what the comparison makes stays in the processor's cache.
        return all(
            np.array_equal(ours[at : at + _PORTION_BYTES], theirs[at : at + _PORTION_BYTES])
            for at in range(0, ours.size, _PORTION_BYTES)
        )
    if len(first) == 1:
        return _same_bytes(first[0], second[0])
    half = len(first) // 2
    return _same_bytes(first[:half], second[:half]) and _same_bytes(first[half:], second[half:])


def _bits(value: Any) -> Any:
    if type(value) is float:
        return struct.pack("<d", value)
    if type(value) is complex:
        return struct.pack("<dd", value.real, value.imag)
    return value.value if type(value) is Counter else value


def _class_text(value: Any) -> str:
    if isinstance(value, np.ndarray) and type(value) is np.ndarray:
        return f"an array of Python objects (dtype {value.dtype}, shape {value.shape})"
    cls = type(value)
    module = "" if cls.__module__ == "builtins" else f"{cls.__module__}."
    return f"a value of class {module}{cls.__qualname__}"


def _mend(value: Any) -> str:
    if type(value) is np.ndarray:
        return "give every item one numeric dtype, or one length where items are sequences"
    if isinstance(value, np.ndarray):
        return "convert it to a plain array with numpy.array(value), or its filled() first"
    if isinstance(value, dict | list | tuple | str | int | float | bytes):
        plain = next(one.__name__ for one in type(value).__mro__ if one.__module__ == "builtins")
        return (
            f"convert it: {plain}(value); a subclass may hold more than that, which would be lost"
        )
    if callable(value):
        return "name a function in the step that calls it; a blob holds values and objects"
    return (
        "a blob holds an array, a number, a bool, text, a container of these, or an object with "
        "state_dict() and load_state_dict(); convert the value, or adapt its class: "
        "'jobrun explain adapters'"
    )
