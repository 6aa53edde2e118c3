"""Divide blobs (containers, objects) into parts that HDF5 can hold, and put them together again.

Each leaf becomes a *part* (``dataset_names.part_name``); one more part, ``:structure``, describes
in JSON how they belong together.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from jobrun.checkpoint.hdf5.dataset_names import (
    STRUCTURE,
    blob_of_link,
    dataset_path,
    part_name,
    path_in_blob,
    structure_link,
)
from jobrun.core.errors import TaskFailedError
from jobrun.core.files.json_files import exact_json, parse_json
from jobrun.values import container_flattening as trees
from jobrun.values.adapters.registry import UnsavableError
from jobrun.values.blob_kinds import Value, may_be_compound
from jobrun.values.compare import require_adapted
from jobrun.values.object_state import ObjectState, take_state
from jobrun.values.structure_digest import digest_structure

_TREE, _OBJECT, _DIGEST, _INLINE = "tree", "object", "digest", "inline"
_RESERVED = (STRUCTURE,)
# Of the JSON of a structure: a container may be 200 deep, and takes two levels or three.
MOST_LEVELS = 800
# With more leaves than this, scalars are in the structure: a dataset each takes longer to write and
# to read than all else. An object's state has its leaves where libraries look for them.
MOST_LEAVES = 64


def flatten_value(name: str, value: Value) -> dict[str, Value]:
    """Divide one blob (a container or an object's state) into named parts, without copying.

    Raises:
        TaskFailedError: E241, something in it cannot be kept; named with its place.
    """
    is_state = isinstance(value, ObjectState)
    try:
        tree = value.tree if is_state else value
        most_leaves = sys.maxsize if is_state else MOST_LEAVES
        parts = trees.flatten(tree, _RESERVED, gaps=is_state, most_leaves=most_leaves)
    except UnsavableError as error:
        raise _unsavable_error(name, value, error) from error
    form = {_TREE: parts.structure, _DIGEST: digest_structure(tree)}
    if is_state:
        form[_OBJECT] = value.class_name
    if parts.inline:
        form[_INLINE] = True
    text = exact_json(form)
    found = {part_name(name, path): leaf for path, leaf in parts.leaves.items()}
    return {part_name(name, _RESERVED): text, **found}


def capture_object(name: str, value: Any) -> ObjectState:
    """Return an object's state, such as its ``state_dict()``, ready to be divided into parts.

    Raises:
        TaskFailedError: E241, it does not give one that can be kept.
    """
    try:
        return take_state(value)
    except UnsavableError as error:
        raise _unsavable_error(name, value, error) from error
    except Exception as error:
        raise TaskFailedError.of(
            "E241",
            f"the object '{name}' of class {type(value).__module__}.{type(value).__qualname__} "
            f"failed to return its state: {type(error).__name__}: {error}",
            "fix its state_dict()",
        ) from error


def _unsavable_error(name: str, value: Any, error: UnsavableError) -> TaskFailedError:
    """Build error E241: a part of a blob, such as one value of a dict, cannot be saved."""
    is_state = isinstance(value, ObjectState)
    kind = value.class_name if is_state else f"{type(value).__module__}.{type(value).__qualname__}"
    return TaskFailedError.of(
        "E241",
        f"'{name}' of class {kind.removeprefix('builtins.')} cannot be saved: it holds "
        f"{error.what}, at '{'/'.join((name, *error.path))}'",
        "keep arrays, tensors, numbers, text, None and containers of these in its state, and make "
        "the rest again when it is constructed",
    )


def flatten_values(values: Mapping[str, Value]) -> Mapping[str, Value]:
    """Divide all blobs that are containers or object states into their parts.

    Raises:
        TaskFailedError: E241, as by ``flatten_value``.
    """
    # By types first: of ten thousand arrays each question counts.
    if not any(map(may_be_compound, set(map(type, values.values())))):
        return values
    found: dict[str, Value] = {}
    for name, value in values.items():
        if isinstance(value, ObjectState) or trees.is_tree(value):
            found.update(flatten_value(name, value))
        else:
            found[name] = value
    return found


def take_out_inline(link: str, structure: str) -> tuple[str, dict[str, Value]]:
    """Take the scalars out of a container's structure, to show each as a part by itself.

    Args:
        link: The name of the structure's dataset.
        structure: The text in it.

    Returns:
        The text as if each scalar were a part; and the scalars by the links of these parts.
    """
    try:
        form = parse_json(structure, MOST_LEVELS)
        if _INLINE not in form:
            return structure, {}
        form[_TREE], leaves = trees.take_out_inline(form[_TREE])
    except (LookupError, TypeError, ValueError, RecursionError):
        # What puts the container together reports what is wrong.
        return structure, {}
    del form[_INLINE]
    name = blob_of_link(link)
    scalars = {dataset_path(part_name(name, path)): leaf for path, leaf in leaves.items()}
    return exact_json(form), scalars


class OtherValueError(ValueError):
    """A container was put together from its parts to another one than was saved."""


def unflatten(name: str, values: Mapping[str, Value]) -> Value:
    """Rebuild a blob, a container or an object's state, from the values of its parts.

    Raises:
        OtherValueError: Together they are something else than was saved.
        ValueError: They do not belong together; the message says how.
    """
    text = values.get(structure_link(name))
    form = parse_json(text, MOST_LEVELS) if isinstance(text, str) else None
    if not isinstance(form, dict) or _TREE not in form:
        raise ValueError("its structure cannot be read")
    leaves = {
        path_in_blob(link, name): value
        for link, value in values.items()
        if link != structure_link(name)
    }
    kind = form.get(_OBJECT)
    # Who takes a state in brings it to where it belongs.
    tree = trees.unflatten(form[_TREE], leaves, place=kind is None)
    # Files of format 2 have none.
    if _DIGEST in form and form[_DIGEST] != digest_structure(tree):
        raise OtherValueError("it is put together in another way")
    if kind is not None:
        return ObjectState(str(kind), tree)
    if '"adapted"' in str(text):
        most_leaves = 0 if _INLINE in form else sys.maxsize
        require_adapted(form[_TREE], leaves, tree, reserved=_RESERVED, most_leaves=most_leaves)
    return tree
