"""Values of blobs: what kinds there are, and how they are copied and compared.

Not how they are stored (``checkpoint``) or what an expression makes of them (``runtime``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from jobrun.blobs import objects, trees
from jobrun.blobs.counter import Counter
from jobrun.core.errors import Fault, TaskFailedError

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
# Of numpy's, immutable as well.
_NUMBERS = (np.number, np.bool_)


_TREE_MEND = (
    "a container holds arrays, numbers, text, bytes, None, and further containers; convert the "
    "value, or leave it out"
)


def kind_of(value: Value) -> Kind | None:
    """The kind of a single value, part of the value itself; None for anything else.

    Subclasses do not count as their parents: a masked array is not an array, since a
    copy, a file and a comparison would all lose its mask.
    """
    kind = _PYTHON_KINDS.get(type(value))
    if kind == "array":
        return None if value.dtype.hasobject else "array"
    if kind is not None:
        return kind
    if isinstance(value, np.generic) and not value.dtype.hasobject:
        return "numpy"
    return None


def refusal(value: Value, name: str) -> Fault | None:
    """Why blob ``name`` cannot hold ``value``, with the way to mend it; None when it can."""
    if kind_of(value) is not None or is_object(value):
        return None
    if trees.is_tree(value):
        return _tree_refusal(value, name)
    return Fault("E202", f"blob '{name}' cannot hold {_class_text(value)}", _mend(value))


def may_be_whole(kind: type) -> bool:
    """Whether a value of the class may be something else than a single value."""
    return kind not in _PYTHON_KINDS and not issubclass(kind, np.generic)


def is_object(value: Value) -> bool:
    """Whether it is an object with a state of its own, of which there is no copy."""
    return kind_of(value) is None and objects.is_object(value)


def checked(value: Value, name: str) -> Value:
    """The value itself.

    Raises:
        TaskFailedError: E202, if no blob can hold it.
    """
    fault = refusal(value, name)
    if fault is not None:
        raise TaskFailedError(fault)
    return value


def detach(value: Value, name: str = "?") -> Value:
    """A copy that shares nothing with ``value``: same kind, dtype, shape, bits and axis order.

    Of containers every part is copied, and what is shared inside stays shared.

    Raises:
        TaskFailedError: E202, if no blob can hold the value; E240, it is an object, of which
            there is no copy; ``name`` is told.
    """
    if type(value) in PLAIN_KINDS:
        return value
    if trees.is_tree(value):
        return _tree_of(value, name, detach)
    checked(value, name)
    if kind_of(value) is None:
        raise object_refusal(value, name)
    if type(value) is np.ndarray:
        return value.copy(order="K")
    if type(value) is Counter:
        return Counter(value.value)
    # A record taken out of an array is a view of it; other numpy scalars are immutable.
    return value.copy() if isinstance(value, np.void) else value


def boundary_form(value: Value, name: str = "?") -> Value:
    """The value as it stands at an epoch boundary: C order, aligned, owning, writable.

    An array that has this form already is returned itself, and so is an object, whose form is its
    own matter; anything else as a copy.

    Raises:
        TaskFailedError: E202, if no blob can hold the value; ``name`` is told.
    """
    if type(value) is not np.ndarray:
        if type(value) in _OWN_FORM or isinstance(value, _NUMBERS):
            return value
        if trees.is_tree(value):
            return _tree_of(value, name, boundary_form)
        return value if is_object(value) else detach(value, name)
    if value.dtype.hasobject:
        checked(value, name)
    flags = value.flags
    # In C order, aligned and writable: three in one.
    if flags.carray and flags.owndata:
        return value
    return value.copy(order="C")


def same_bits(first: Value, second: Value) -> bool:
    """Whether two values are equal in kind, dtype (with byte order), shape and every bit.

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


def object_refusal(value: Value, name: str) -> TaskFailedError:
    """What is said where an object would have to be copied."""
    what = "this" if name == "?" else f"'{name}'"
    return TaskFailedError.of(
        "E240",
        f"{what} is an object of class {objects.class_name(value)}, and there is only one of it",
        "hand it to a callable with call and with, and to be changed with inout; let that return "
        "the numbers and arrays that are wanted",
    )


def describe(value: Value) -> str:
    """The kind, dtype and shape in a few words, such as ``float32 array of shape (3, 4)``."""
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
    """How much memory the data of the values takes, in bytes; scalars count as 8."""
    return sum(int(getattr(value, "nbytes", 8)) for value in values)


def _tree_refusal(value: Value, name: str) -> Fault | None:
    try:
        trees.taken_apart(value)
    except trees.UnsavableError as error:
        place = "/".join((name, *error.path))
        return Fault("E202", f"blob '{name}' cannot hold {error.what}, at '{place}'", _TREE_MEND)
    return None


def _tree_of(value: Value, name: str, copy: Callable[[Value, str], Value]) -> Value:
    """The container of copies of its leaves.

    Raises:
        TaskFailedError: E202, something in it is of a kind that cannot be kept.
    """
    try:
        return trees.copied(value, lambda leaf, path: copy(leaf, "/".join((name, *path))))
    except trees.UnsavableError as error:
        fault = _tree_refusal(value, name)
        raise TaskFailedError(*([fault] if fault else [])) from error


def _same_trees(first: Value, second: Value) -> bool:
    try:
        ours, theirs = trees.taken_apart(first), trees.taken_apart(second)
    except trees.UnsavableError:
        return False
    return ours.structure == theirs.structure and all(
        same_bits(leaf, theirs.leaves[path]) for path, leaf in ours.leaves.items()
    )


def _same_arrays(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> bool:
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    if first.dtype.names:
        return all(_same_arrays(first[name], second[name]) for name in first.dtype.names)
    if first.dtype.type is np.longdouble:
        return _same_longdoubles(first, second)
    if first.dtype.type is np.clongdouble:
        return _same_longdoubles(first.real, second.real) and _same_longdoubles(
            first.imag, second.imag
        )
    return first.tobytes() == second.tobytes()


def _same_longdoubles(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> bool:
    # An x86 long double is 10 bytes of number in 16 of memory; the rest is whatever was there.
    if np.finfo(np.longdouble).nmant != 63:
        return first.tobytes() == second.tobytes()
    width = first.dtype.itemsize
    raw = [np.frombuffer(one.tobytes(), np.uint8).reshape(-1, width) for one in (first, second)]
    # In the other byte order the number stands behind what was there.
    number = slice(10) if first.dtype.isnative else slice(width - 10, None)
    return bool(np.array_equal(raw[0][:, number], raw[1][:, number]))


def _bits(value: Any) -> Any:
    if type(value) is float:
        return struct.pack("<d", value)
    if type(value) is complex:
        return struct.pack("<dd", value.real, value.imag)
    return value.value if type(value) is Counter else value


def _class_text(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, np.ndarray) and type(value) is np.ndarray:
        return f"an array of Python objects (dtype {value.dtype}, shape {value.shape})"
    cls = type(value)
    module = "" if cls.__module__ == "builtins" else f"{cls.__module__}."
    return f"a value of class {module}{cls.__qualname__}"


def _mend(value: Any) -> str:
    if value is None:
        return "return or compute a number, an array or text"
    if type(value) is np.ndarray:
        return "give every item one numeric dtype, or one length where items are sequences"
    if isinstance(value, np.ndarray):
        return "convert it to a plain array with numpy.asarray or its filled() first"
    if callable(value):
        return "name a function in the step that calls it; a blob holds values and objects"
    return (
        "a blob holds an array, a number, a bool, text, a container of these, or an object with "
        "state_dict() and load_state_dict(); convert the value, or give its class these two"
    )
