"""Define which kinds of values blobs may hold, and describe values by kind, dtype and shape.

Not how they are stored (``checkpoint``) or what an expression makes of them (``runtime``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from jobrun.core.errors import Fault, TaskFailedError
from jobrun.values import container_flattening as trees
from jobrun.values import object_state as objects
from jobrun.values.adapters.registry import (
    CLASS_PREFIX,
    UnsavableError,
    find_adapter,
    package_of,
)
from jobrun.values.kinds.array import iterate_fields
from jobrun.values.kinds.counter import Counter

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
# Of what a subclass may hold more.
_CONVERTIBLE = (dict, list, tuple, str, int, float, bytes)
# libhdf5's own limit.
MOST_DIMENSIONS = 32


_TREE_MEND = (
    "a container holds arrays, numbers, text, bytes, None, further containers and values with an "
    "adapter; convert the value to one of these, or leave it out; if it is an attribute of an "
    "object, let jobrun.adapt(TheClass, get=…, make=…) leave it out and make it again: 'jobrun "
    "explain adapters'"
)

_OBJECT_MEND = (
    "it is an object, which is a blob of its own: make it in a task of init with rebuild: true, "
    "and list it in inout where it is changed; 'jobrun explain objects'"
)

_PARTLY_MEND = (
    "what is after 'nor' cannot be kept: let jobrun.adapt(TheClass, get=…, make=…), of the class "
    "that has it, leave it out and make it again"
)

DType = np.dtype[Any]


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
    """Return a fault if a value is of a kind that blobs cannot hold, or None."""
    kind = kind_of(value)
    if kind in {"array", "numpy"}:
        return _array_refusal(value, name)
    if kind is not None or is_object(value):
        return None
    if trees.is_tree(value):
        return find_tree_fault(value, name)
    text, mend = _class_text(value), _mend(value)
    errors = [] if isinstance(value, np.ndarray) or callable(value) else trees.list_unsavable(value)
    if any(error.part is not None for error in errors):
        text = text if len(errors) == 1 else unsavable_text(errors, name)
        is_subclass = isinstance(value, _CONVERTIBLE)
        mend = mend if is_subclass else "give it state_dict() and load_state_dict()"
        mend = f"{unsavable_mend(errors)}; or {mend}"
    return Fault("E202", f"blob '{name}' cannot hold {text}", mend)


def may_be_compound(kind: type) -> bool:
    """Return whether a class is none of the simple kinds of blobs: array, number, text, …."""
    return kind not in _PYTHON_KINDS and not issubclass(kind, np.generic)


def is_object(value: Value) -> bool:
    """Return whether a blob's value is of the kind object: not copied, saved only by its state."""
    return kind_of(value) is None and objects.is_object(value)


def require_storable(value: Value, name: str) -> Value:
    """Return the value unchanged if its kind is one that a blob can hold, else raise.

    Raises:
        TaskFailedError: E202, if no blob can hold it.
    """
    fault = check_storable(value, name)
    if fault is not None:
        raise TaskFailedError(fault)
    return value


def describe(value: Value) -> str:
    """Describe a blob's value by kind, dtype and shape: ``float32 array of shape (3, 4)``."""
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
    """Sum the bytes of values of any blob kind; each without ``nbytes`` counts as 8."""
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


def find_tree_fault(value: Value, name: str) -> Fault | None:
    """Return a fault that lists all values of kinds that no blob may hold, or None."""
    try:
        parts = trees.flatten(value)
    except UnsavableError:
        errors = trees.list_unsavable(value)
        text = unsavable_text(errors, name)
        return Fault("E202", f"blob '{name}' cannot hold {text}", unsavable_mend(errors))
    faults = (
        _array_refusal(leaf, "/".join((name, *path)))
        for path, leaf in parts.leaves.items()
        if type(leaf) is np.ndarray
    )
    return next(filter(None, faults), None)


def unsavable_text(errors: Sequence[UnsavableError], name: str) -> str:
    """List the parts of a blob that cannot be kept, each with its place, for an error message."""
    lines = [f"{error.what}, at '{'/'.join((name, *error.path))}'" for error in errors]
    known = [error.part is None for error in errors]
    classes = [line for line, is_known in zip(lines, known, strict=True) if not is_known]
    others = [line for line, is_known in zip(lines, known, strict=True) if is_known]
    if not classes:
        return "; ".join(others)
    if len(classes) > 1:
        listed = "; ".join(line.removeprefix(CLASS_PREFIX) for line in classes)
        classes = [f"values of these {len(classes)} classes: {listed}"]
    return "; ".join((*classes, *(f"nor {line}" for line in others)))


def unsavable_mend(errors: Sequence[UnsavableError]) -> str:
    """Say how parts of a blob can be kept: by the line of the spec that admits their classes."""
    parts = [error.part for error in errors if error.part is not None]
    unknown = [part for part in parts if find_adapter(type(part)) is None]
    mends = []
    if len(parts) < len(errors):
        mends.append(_TREE_MEND if not parts else _PARTLY_MEND)
    if any(map(is_object, parts)):
        mends.append(_OBJECT_MEND)
    if unknown:
        packages = ", ".join(sorted({package_of(type(part)) for part in unknown}))
        mends.append(f"write adapt: [{packages}] in the spec, which admits their classes")
        mends.append("jobrun.adapt(TheClass) in code does so, too: 'jobrun explain adapters'")
    return "; ".join(mends)


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
    if isinstance(value, _CONVERTIBLE):
        plain = next(base.__name__ for base in type(value).__mro__ if base.__module__ == "builtins")
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


def explain_unsavable_dtype(dtype: DType) -> str:
    """Explain why blobs cannot hold arrays of a dtype; return an empty text if they can."""
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
