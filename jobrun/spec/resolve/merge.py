"""Merge the trees of several spec files, values files and overrides."""

from __future__ import annotations

import os
from collections.abc import Callable

from jobrun.core.file_formats import FILE_FORMATS
from jobrun.spec.yaml.nodes import Mapping, Node, Scalar, Sequence

Change = Callable[[Node], Node]

_TYPE_NAMES: dict[type, str] = {bool: "bool", int: "int", float: "float", str: "text"}
# What a tree of another folder says first where it means a place of its own.
_NOT_RELATIVE = ("/", "~", "${")


def deep_merge(base: Node, over: Node) -> Node:
    """Merge one tree over another: mappings key by key; anything else is replaced."""
    if not isinstance(base, Mapping) or not isinstance(over, Mapping):
        return over
    return _merged(base, over)


def _merged(base: Mapping, over: Mapping) -> Mapping:
    values, keys = dict(base.values), dict(base.keys)
    for key, value in over.values.items():
        values[key] = deep_merge(values[key], value) if key in values else value
        keys[key] = over.keys[key]
    return Mapping(values, keys, base.place)


def merge_specs(base: Mapping, over: Mapping) -> Mapping:
    """Merge two whole specs, where a param's plain value is its default.

    So ``params: {k: 12}`` over ``k: {type: int, default: 10, min: 2}`` keeps the bounds,
    and ``1`` over ``tol: 1e-4`` stays a float.
    """
    params, given = base.values.get("params"), over.values.get("params")
    if isinstance(params, Mapping) and isinstance(given, Mapping):
        for name in params.values.keys() & given.values.keys():
            params = replaced(params, name, long_form(params.values[name]))
            given = replaced(given, name, long_form(given.values[name], typed=False))
        base, over = replaced(base, "params", params), replaced(over, "params", given)
    return _merged(base, over)


def long_form(param: Node, *, typed: bool = True) -> Node:
    """Convert a param's plain value to the mapping that means the same, to merge it."""
    if not isinstance(param, Scalar):
        return param
    values: dict[str, Node] = {"default": param}
    kind = _TYPE_NAMES.get(type(param.value))
    if typed and kind is not None and not (kind == "text" and "${" in str(param.value)):
        values["type"] = Scalar(kind, param.place)
    return Mapping(values, dict.fromkeys(values, param.place), param.place)


def replaced(mapping: Mapping, key: str, value: Node) -> Mapping:
    """Merge one value into a mapping: it replaces the value at its key."""
    return mapping._replace(values={**mapping.values, key: value})


def rebased(root: Mapping, prefix: str) -> Mapping:
    """Copy a tree that is merged into a spec of another folder, with its relative paths adapted.

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
    """Make the paths of ``load`` and ``save`` steps in a tree to merge relative to a folder."""
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
