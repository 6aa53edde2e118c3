"""Containers and objects as many blobs, and back: what is written of them, and what is read.

Each leaf becomes a *part* (``names.part_name``), and one more, ``:structure``, tells as JSON how
they belong together. Not what a leaf is (``blobs.trees``), nor how one is stored (``codec``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from jobrun.blobs import trees
from jobrun.blobs.objects import ObjectState, state_of
from jobrun.blobs.trees import Parts, UnsavableError
from jobrun.blobs.values import Value, describe, may_be_whole, same_bits
from jobrun.checkpoint.names import STRUCTURE, part_name, path_of, quoted
from jobrun.core.errors import TaskFailedError

_TREE, _OBJECT = "tree", "object"
_RESERVED = (STRUCTURE,)


def parts_of(name: str, value: Value) -> dict[str, Value]:
    """What is written of a container, or of an ``ObjectState``; shares memory with it.

    Raises:
        TaskFailedError: E241, something in it cannot be kept; named with its place.
    """
    is_state = isinstance(value, ObjectState)
    try:
        parts = trees.taken_apart(value.tree if is_state else value, _RESERVED)
    except UnsavableError as error:
        raise unsavable(name, value, error) from error
    form = {_TREE: parts.structure}
    if is_state:
        form[_OBJECT] = value.class_name
    text = json.dumps(form, separators=(",", ":"))
    found = {part_name(name, path): leaf for path, leaf in parts.leaves.items()}
    return {part_name(name, _RESERVED): text, **found}


def captured(name: str, value: Any) -> ObjectState:
    """The state of an object; what is in it may share memory with the object.

    Raises:
        TaskFailedError: E241, it does not give one that can be kept.
    """
    try:
        return state_of(value)
    except UnsavableError as error:
        raise unsavable(name, value, error) from error
    except Exception as error:
        raise TaskFailedError.of(
            "E241",
            f"the object '{name}' of class {type(value).__module__}.{type(value).__qualname__} "
            f"does not give its state: {type(error).__name__}: {error}",
            "mend its state_dict()",
        ) from error


def unsavable(name: str, value: Any, error: UnsavableError) -> TaskFailedError:
    """What is said of an object, or a container, that holds what cannot be kept."""
    is_state = isinstance(value, ObjectState)
    kind = value.class_name if is_state else f"{type(value).__module__}.{type(value).__qualname__}"
    return TaskFailedError.of(
        "E241",
        f"'{name}' of class {kind.removeprefix('builtins.')} cannot be saved: it holds "
        f"{error.what}, at '{'/'.join((name, *error.path))}'",
        "keep arrays, tensors, numbers, text, None and containers of these in its state, and make "
        "the rest again when it is constructed",
    )


def taken_apart(values: Mapping[str, Value]) -> Mapping[str, Value]:
    """The values, with the parts of containers and object states instead of these.

    Raises:
        TaskFailedError: E241, as by ``parts_of``.
    """
    # By types first: of ten thousand arrays each question counts.
    if not any(map(may_be_whole, set(map(type, values.values())))):
        return values
    found: dict[str, Value] = {}
    for name, value in values.items():
        if isinstance(value, ObjectState) or trees.is_tree(value):
            found.update(parts_of(name, value))
        else:
            found[name] = value
    return found


def links_of(name: str, links: Iterable[str]) -> list[str]:
    """The links of the parts of a container or an object; of another blob none."""
    begin = f"{quoted(name)}/"
    return [one for one in links if one.startswith(begin)]


def structure_link(name: str) -> str:
    """Where the structure of a container or an object stands; if it is there, it is one."""
    return f"{quoted(name)}/{STRUCTURE}"


def joined(name: str, values: Mapping[str, Value]) -> Value:
    """The container, or the ``ObjectState``, of these parts, which are named by their links.

    Raises:
        ValueError: They do not belong together; the message says how.
    """
    text = values.get(structure_link(name))
    form = json.loads(text) if isinstance(text, str) else None
    if not isinstance(form, dict) or _TREE not in form:
        raise ValueError("its structure cannot be read")
    leaves = {
        path_of(link, name): value for link, value in values.items() if link != structure_link(name)
    }
    kind = form.get(_OBJECT)
    # Who takes a state in brings it to where it belongs.
    tree = trees.put_together(form[_TREE], leaves, place=kind is None)
    return tree if kind is None else ObjectState(str(kind), tree)


def differing(wanted: ObjectState, found: ObjectState) -> str:
    """The first place at which two states are not bit for bit the same; empty when they are."""
    ours, theirs = (_parts(one).leaves for one in (wanted, found))
    for path in (*ours, *(path for path in theirs if path not in ours)):
        place = "/".join(path)
        if path not in theirs:
            return f"'{place}' is not there"
        if path not in ours:
            return f"'{place}' is there, {describe(theirs[path])}"
        if not same_bits(ours[path], theirs[path]):
            return f"'{place}' is {describe(theirs[path])} of other bits"
    return ""


def _parts(state: ObjectState) -> Parts:
    return trees.taken_apart(state.tree, _RESERVED)
