"""Rebase the relative paths in a spec's tree from the folder of one file to that of another."""

from __future__ import annotations

import os
from collections.abc import Callable

from jobrun.core.file_formats import FILE_FORMATS
from jobrun.spec.resolve.merge import replaced
from jobrun.spec.yaml.nodes import Mapping, Node, Scalar, Sequence

Change = Callable[[Node], Node]

# What a tree of another folder says first where it means a place of its own.
_NOT_RELATIVE = ("/", "~", "${")


def rebased(root: Mapping, prefix: str) -> Mapping:
    """Rebase all relative paths in a tree from its own folder to the folder of the spec.

    Args:
        root: A whole spec, or a part of one under the same keys.
        prefix: The way from the spec's folder to the folder of this tree.
    """
    if prefix in {"", "."}:
        return root
    return Mapping(
        {key: _rebased_section(key, value, prefix) for key, value in root.values.items()},
        root.keys,
        root.place,
    )


def _rebased_section(key: str, value: Node, prefix: str) -> Node:
    if key == "readers":
        return _each(value, lambda reader: _with_paths(reader, FILE_FORMATS, prefix))
    if key == "checkpoint":
        value = _with_paths(value, ("dir",), prefix)
        if isinstance(value, Mapping) and "upload" in value.values:
            upload = _with_paths(value.values["upload"], ("to",), prefix)
            value = replaced(value, "upload", upload)
        return value
    if key in {"nets", "init", "epoch", "download", "exit"}:
        return _rebased_steps(value, prefix)
    return value


def _rebased_steps(node: Node, prefix: str) -> Node:
    """Rebase the relative paths of ``load`` and ``save`` steps in a tree."""
    if isinstance(node, Sequence):
        return Sequence([_rebased_steps(item, prefix) for item in node.items], node.place)
    if not isinstance(node, Mapping):
        return node
    values = {}
    for key, value in node.values.items():
        if key in {"load", "save"} and isinstance(value, Mapping):
            values[key] = _with_paths(value, tuple(value.values), prefix)
        else:
            values[key] = _rebased_steps(value, prefix)
    return Mapping(values, node.keys, node.place)


def _each(node: Node, change: Change) -> Node:
    if not isinstance(node, Mapping):
        return node
    return node._replace(values={key: change(value) for key, value in node.values.items()})


def _with_paths(node: Node, keys: tuple[str, ...], prefix: str) -> Node:
    if not isinstance(node, Mapping):
        return node
    for key in keys:
        value = node.values.get(key)
        if isinstance(value, Scalar) and _is_relative(value.value):
            joined = os.path.normpath(f"{prefix}/{value.value}")
            moved = Scalar(joined, (*value.place[:4], 0), value.plain)
            node = replaced(node, key, moved)
    return node


def _is_relative(value: object) -> bool:
    if not isinstance(value, str) or not value:
        return False
    return not value.startswith(_NOT_RELATIVE) and "://" not in value
