"""Read a spec file with the files that it includes, and merge them to one tree, paths rebased.

Values files and overrides are merged over a spec in the same way.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from jobrun.core.errors import Fault, SpecError
from jobrun.core.file_formats import FILE_FORMATS
from jobrun.spec.yaml.nodes import Mapping, Node, Scalar, Sequence, origin_of, path_text, plain
from jobrun.spec.yaml.parse import read_document
from jobrun.spec.yaml.spec_text import read_text

MOST_FILES = 200

Change = Callable[[Node], Node]

# A path that begins like this does not depend on the folder of the file that contains it.
_NOT_RELATIVE = ("/", "~", "${")

_TYPE_NAMES: dict[type, str] = {bool: "bool", int: "int", float: "float", str: "text"}


class SpecReader:
    """The files read so far for one spec, with those it includes.

    Attributes:
        files: Texts, by the name each file has in positions.
        faults: What is wrong in them.
        warnings: What the user should know.
    """

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []

    def tree(self, path: str, base: str) -> Mapping | None:
        """Read a spec file and merge it over the files it includes; None if reading failed.

        Args:
            path: The file, as the user named it.
            base: The folder that the relative paths of the result start from.
        """
        return self._tree(path, base, (), None)

    def _tree(
        self, path: str, base: str, above: tuple[str, ...], include: Scalar | None
    ) -> Mapping | None:
        tree_of_file = self._read(path, include)
        if tree_of_file is None:
            return None
        includes = tree_of_file.values.get("include")
        tree_of_file = rebased(_without_private_keys(tree_of_file), _relative_folder(base, path))
        merged = Mapping({}, {}, tree_of_file.position)
        for item in self._included(includes):
            tree = self._follow(path, item, base, (*above, os.path.realpath(path)))
            merged = merge_specs(merged, tree) if tree is not None else merged
        return merge_specs(merged, tree_of_file)

    def _follow(self, path: str, item: Scalar, base: str, above: tuple[str, ...]) -> Mapping | None:
        """Read an included file, whose path starts from the folder of the including file."""
        target = os.path.normpath(Path(path).parent / str(item.value))
        if os.path.realpath(target) in above:
            self._fault("includes itself, directly or through other files", "remove one", item)
            return None
        if len(self.files) >= MOST_FILES:
            self._fault(f"more than {MOST_FILES} files", "include fewer", item)
            return None
        return self._tree(target, base, above, item)

    def _read(self, path: str, include: Scalar | None) -> Mapping | None:
        try:
            text = read_text(path, path)
        except SpecError as error:
            for fault in error.faults:
                if fault.code == "E001" and include is not None:
                    self._fault(f"'{path}' {fault.message}", fault.mend, include)
                else:
                    self.faults.append(fault)
            return None
        known = path in self.files
        self.files[path] = text
        try:
            document = read_document(text, path)
        except SpecError as error:
            self.faults += [] if known else error.faults
            return None
        if not known:
            self.faults += document.faults
            self.warnings += [item for item in document.warnings if item not in self.warnings]
        return self._mapping(document.root)

    def _mapping(self, root: Node) -> Mapping | None:
        if isinstance(root, Mapping):
            return root
        if isinstance(root, Scalar) and root.value is None:
            description = "nothing"
        else:
            description = "a list" if isinstance(root, Sequence) else "a single value"
        mend = "start with 'jobrun: 1' and 'name: …', each on a line of its own"
        where = origin_of(root.position)
        self.faults.append(
            Fault("E009", f"a spec must be a mapping, found {description}", mend, where)
        )
        return None

    def _included(self, node: Node | None) -> list[Scalar]:
        if node is None:
            return []
        if not isinstance(node, Sequence):
            self._fault("'include' must be a list of files", "write include: [FILE]", node)
            return []
        items = []
        for item in node.items:
            if isinstance(item, Scalar) and isinstance(item.value, str) and item.value:
                items.append(item)
            else:
                self._fault("'include' must be a list of files", "name a file", item)
        return items

    def _fault(self, message: str, mend: str, node: Node) -> None:
        where = origin_of(node.position)
        self.faults.append(Fault("E034", message, mend, where, path_text(("include",))))


def read_unchecked(path: str) -> dict[str, Any]:
    """Read a spec file, merged over the files it includes, as plain data without any check.

    It takes half as long as to load the spec, which imports all models: a shell waits for it.

    Raises:
        SpecError: A file cannot be read, or is no mapping.
    """
    reader = SpecReader()
    root = reader.tree(path, str(Path(path).parent))
    if root is None:
        raise SpecError(*reader.faults)
    return cast("dict[str, Any]", plain(root))


def _without_private_keys(root: Mapping) -> Mapping:
    """Remove from an included file the key ``include`` and keys that hold only YAML anchors."""
    values = {
        key: value
        for key, value in root.values.items()
        if key != "include" and not key.startswith("x-")
    }
    return Mapping(values, {key: root.keys[key] for key in values}, root.position)


def _relative_folder(base: str, path: str) -> str:
    folder = os.path.realpath(Path(path).parent)
    real = os.path.realpath(base)
    return "" if folder == real else os.path.relpath(folder, real)


def rebased(root: Mapping, prefix: str) -> Mapping:
    """Rewrite all relative paths in an included file to be relative to the spec's folder.

    Args:
        root: A whole spec, or a part of one under the same keys.
        prefix: The way from the spec's folder to the folder of this tree.
    """
    if prefix in {"", "."}:
        return root
    return Mapping(
        {key: _rebased_section(key, value, prefix) for key, value in root.values.items()},
        root.keys,
        root.position,
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
    """Rewrite ``load`` and ``save`` paths in an included file relative to the spec's folder."""
    if isinstance(node, Sequence):
        return Sequence([_rebased_steps(item, prefix) for item in node.items], node.position)
    if not isinstance(node, Mapping):
        return node
    values = {}
    for key, value in node.values.items():
        if key in {"load", "save"} and isinstance(value, Mapping):
            values[key] = _with_paths(value, tuple(value.values), prefix)
        else:
            values[key] = _rebased_steps(value, prefix)
    return Mapping(values, node.keys, node.position)


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
            moved = Scalar(joined, (*value.position[:4], 0), value.plain)
            node = replaced(node, key, moved)
    return node


def _is_relative(value: object) -> bool:
    if not isinstance(value, str) or not value:
        return False
    return not value.startswith(_NOT_RELATIVE) and "://" not in value


def deep_merge(base: Node, over: Node) -> Node:
    """Merge a YAML value over an included one: mappings by key; any other value replaces it."""
    if not isinstance(base, Mapping) or not isinstance(over, Mapping):
        return over
    return _merged(base, over)


def _merged(base: Mapping, over: Mapping) -> Mapping:
    values, keys = dict(base.values), dict(base.keys)
    for key, value in over.values.items():
        values[key] = deep_merge(values[key], value) if key in values else value
        keys[key] = over.keys[key]
    return Mapping(values, keys, base.position)


def merge_specs(base: Mapping, over: Mapping) -> Mapping:
    """Merge a spec over the one it includes; a plain param value replaces just its default.

    So ``params: {k: 12}`` over ``k: {type: int, default: 10, min: 2}`` keeps the bounds,
    and ``1`` over ``tol: 1e-4`` stays a float.
    """
    params, over_params = base.values.get("params"), over.values.get("params")
    if isinstance(params, Mapping) and isinstance(over_params, Mapping):
        for name in params.values.keys() & over_params.values.keys():
            params = replaced(params, name, long_form(params.values[name]))
            over_params = replaced(
                over_params, name, long_form(over_params.values[name], typed=False)
            )
        base, over = replaced(base, "params", params), replaced(over, "params", over_params)
    return _merged(base, over)


def long_form(param: Node, *, typed: bool = True) -> Node:
    """Expand a param that is a plain value to a mapping, to merge it with an included param."""
    if not isinstance(param, Scalar):
        return param
    values: dict[str, Node] = {"default": param}
    kind = _TYPE_NAMES.get(type(param.value))
    if typed and kind is not None and not (kind == "text" and "${" in str(param.value)):
        values["type"] = Scalar(kind, param.position)
    return Mapping(values, dict.fromkeys(values, param.position), param.position)


def replaced(mapping: Mapping, key: str, value: Node) -> Mapping:
    """Copy a spec's mapping with the value of one key replaced, to merge included files."""
    return mapping._replace(values={**mapping.values, key: value})
