"""Merge the trees of several spec files, values files and overrides."""

from __future__ import annotations

from jobrun.spec.yaml.nodes import Mapping, Node, Scalar

_TYPE_NAMES: dict[type, str] = {bool: "bool", int: "int", float: "float", str: "text"}


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
    """Merge a whole spec over another; a param's plain value replaces its default only.

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
    """Expand a param written as a plain value to a mapping, so that both forms can be merged."""
    if not isinstance(param, Scalar):
        return param
    values: dict[str, Node] = {"default": param}
    kind = _TYPE_NAMES.get(type(param.value))
    if typed and kind is not None and not (kind == "text" and "${" in str(param.value)):
        values["type"] = Scalar(kind, param.place)
    return Mapping(values, dict.fromkeys(values, param.place), param.place)


def replaced(mapping: Mapping, key: str, value: Node) -> Mapping:
    """Merge a value into a mapping by replacing the value at its key."""
    return mapping._replace(values={**mapping.values, key: value})
