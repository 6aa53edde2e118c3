"""Parse ``--set path.to.key=value``, and apply such overrides to the tree of a spec."""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from jobrun.core.errors import Origin, SpecError, UsageError
from jobrun.core.text.names import did_you_mean
from jobrun.core.text.patterns import lazy_pattern
from jobrun.spec.models.job import JobSpec
from jobrun.spec.resolve.include import long_form, rebased, replaced
from jobrun.spec.yaml.nodes import (
    Mapping,
    Node,
    Path,
    Position,
    Scalar,
    Sequence,
    child,
    path_text,
    short,
)
from jobrun.spec.yaml.parse import read_document
from jobrun.spec.yaml.scalars import NumberRangeError, resolve
from jobrun.spec.yaml.syntax_errors import DEEPEST

_SEGMENT = lazy_pattern(r'\.?(?:"(?P<quoted>[^"]+)"|(?P<plain>[^.\[\]"=]+))|\[(?P<index>\d+)\]')


class Override(Struct, frozen=True):
    """One parsed ``--set`` option.

    Attributes:
        path: Where the value goes; a number is an index into a list.
        value: What goes there.
        position: What the value is called in errors: ``--set #1``.
    """

    path: Path
    value: Node
    position: Position

    def relative_to(self, way: str) -> Override:
        """Return this override with a folder put before the relative paths in its value."""
        tree: Node = rebased(_put_key(Mapping({}, {}, self.position), self.path, self, 0), way)
        for segment in self.path:
            below = child(tree, segment if isinstance(tree, Sequence) else str(segment))
            if below is None:
                return self
            tree = below
        return Override(self.path, tree, self.position)


def parse_override(text: str, number: int) -> Override:
    """Parse the override ``path=value`` of a ``--set`` option, whose value is YAML.

    Args:
        text: The option's argument.
        number: Which ``--set`` of the command line it is, from 1.

    Raises:
        UsageError: The text has no ``=``, or its path or value cannot be read.
        SpecError: A number in it does not fit 64 bits.
    """
    shown = f"--set #{number}"
    path_part, equals, value_part = _split(text)
    path = _parse_path(path_part)
    if not equals or not path or len(path) > DEEPEST:
        mend = "write PATH=VALUE, such as params.k=12 or stop[0].epochs=5"
        raise UsageError.of("E040", f"'{short(text)}' is not PATH=VALUE", mend, where=Origin(shown))
    position: Position = (shown, 0, 0, 1, 0)
    return Override(path, _parse_value(value_part, position, path), position)


def _split(text: str) -> tuple[str, str, str]:
    match = re.match(r'((?:[^="]|"[^"]*")*)(=)(.*)', text, re.DOTALL)
    return (match[1], match[2], match[3]) if match else (text, "", "")


def _parse_path(text: str) -> Path:
    path: list[str | int] = []
    offset = 0
    for match in _SEGMENT.finditer(text):
        if match.start() != offset or (offset == 0 and text.startswith(".")):
            return ()
        offset = match.end()
        if match["index"] is not None:
            path.append(int(match["index"]))
        else:
            path.append(match["quoted"] or match["plain"])
    return tuple(path) if offset == len(text) else ()


def _parse_value(text: str, position: Position, path: Path) -> Node:
    if text[:1] in {"[", "{", '"', "'"}:
        try:
            document = read_document(text, position[0])
        except SpecError as error:
            fault = error.faults[0]
            raise UsageError.of(
                "E041",
                f"the value is not valid YAML: {fault.message}",
                fault.mend,
                where=Origin(position[0]),
                path=path_text(path),
            ) from error
        if document.faults:
            # An option has no lines, so the position is its name and the path.
            where, shown = Origin(position[0]), path_text(path)
            raise SpecError(*(replace(item, where=where, path=shown) for item in document.faults))
        return _moved(document.root, position)
    try:
        # An empty value is empty text, not null.
        return Scalar(resolve(text) if text else "", position, bool(text))
    except NumberRangeError as error:
        mend = "write a number of at most 64 bits"
        where = Origin(position[0])
        raise SpecError.of("E016", str(error), mend, where=where, path=path_text(path)) from error


def _moved(node: Node, position: Position) -> Node:
    """Set ``--set #N`` as the position of an override's value, so that errors show it."""
    if isinstance(node, Scalar):
        return node._replace(position=position)
    if isinstance(node, Sequence):
        return Sequence([_moved(item, position) for item in node.items], position)
    values = {key: _moved(value, position) for key, value in node.values.items()}
    return Mapping(values, dict.fromkeys(values, position), position)


def applied(root: Mapping, override: Override) -> Mapping:
    """Apply an override to a spec: return a copy that shares all unchanged values with it.

    Raises:
        SpecError: The path leads through a value that has no such part, or to an
            unknown param.
    """
    path = override.path
    params = root.values.get("params")
    if len(path) == 1 and path[0] not in JobSpec.model_fields and isinstance(params, Mapping):
        # No key of a spec has this name, but a param has.
        path = ("params", *path) if path[0] in params.values else path
        override = replace(override, path=path)
    if len(path) > 1 and path[0] == "params":
        root = _with_long_form(root, override)
        path = (*path, "default") if len(path) == 2 and isinstance(override.value, Scalar) else path
    return _put_key(root, path, override, 0)


def _with_long_form(root: Mapping, override: Override) -> Mapping:
    """Convert a param in the spec to its long form, so that an override keeps the bounds."""
    params = root.values.get("params")
    known = params.values if isinstance(params, Mapping) else {}
    name = str(override.path[1])
    if not isinstance(params, Mapping) or name not in known:
        raise SpecError.of(
            "E042",
            f"unknown param '{name}'",
            did_you_mean(name, known),
            where=Origin(override.position[0]),
            path=path_text(override.path),
        )
    return replaced(root, "params", replaced(params, name, long_form(known[name])))


def _put(node: Node | None, path: Path, override: Override, depth: int) -> Node:
    if depth == len(path):
        return override.value
    if isinstance(node, Sequence):
        return _put_item(node, path, override, depth)
    # A missing value, or a null, becomes a mapping.
    if node is None or (isinstance(node, Scalar) and node.value is None):
        node = Mapping({}, {}, override.position)
    if isinstance(node, Mapping):
        return _put_key(node, path, override, depth)
    message = f"'{path_text(path[:depth])}' is a single value and has no keys"
    raise _misfit(override, message, f"set {path_text(path[:depth])} itself")


def _put_key(node: Mapping, path: Path, override: Override, depth: int) -> Mapping:
    key = str(path[depth])
    below = _put(node.values.get(key), path, override, depth + 1)
    keys = {**node.keys, key: override.position}
    return Mapping({**node.values, key: below}, keys, node.position)


def _put_item(node: Sequence, path: Path, override: Override, depth: int) -> Sequence:
    segment, count = path[depth], len(node.items)
    index = int(segment) if str(segment).isdecimal() else None
    if index is None or index > count:
        message = (
            f"'{path_text(path[:depth])}' is a list of {count} items; it has no item '{segment}'"
        )
        mend = f"use an index from 0 to {count}; {count} appends an item"
        raise _misfit(override, message, mend)
    items = list(node.items)
    below = _put(items[index] if index < count else None, path, override, depth + 1)
    items[index : index + 1] = [below]
    return Sequence(items, node.position)


def _misfit(override: Override, message: str, mend: str) -> SpecError:
    where, path = Origin(override.position[0]), path_text(override.path)
    return SpecError.of("E043", message, mend, where=where, path=path)
