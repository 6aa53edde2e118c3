"""Define the nodes of a YAML tree with their positions, and map paths such as ``epoch[0]`` to them.

A position is kept as a plain tuple and becomes an ``Origin`` on demand: a file has
hundreds of thousands of them, and a fault needs one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from jobrun.core.errors import Origin
from jobrun.spec.yaml.scalars import Value

# The fields of an Origin: file, line, column, length, text column.
Position = tuple[str, int, int, int, int]
Path = tuple[str | int, ...]


class Scalar(NamedTuple):
    """A YAML scalar; ``plain`` if it was written without quotes and not as a block of text."""

    value: Value
    position: Position
    plain: bool = True


class Sequence(NamedTuple):
    """A YAML sequence with its position."""

    items: list[Node]
    position: Position


class Mapping(NamedTuple):
    """A YAML mapping: text keys, their positions, and values, in the order of the file."""

    values: dict[str, Node]
    keys: dict[str, Position]
    position: Position


Node = Scalar | Sequence | Mapping


def origin_of(position: Position) -> Origin:
    """Convert a YAML node's position (tuple of file, line, column) to an ``Origin``."""
    return Origin(*position)


def plain(node: Node) -> Any:
    """Convert YAML nodes to nested dicts, lists and scalars; each alias becomes a copy."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return {key: plain(value) for key, value in node.values.items()}


def child(node: Node, segment: str | int) -> Node | None:
    """Return the YAML node at a key or an index of the given YAML node, or None."""
    if isinstance(node, Mapping):
        return node.values.get(segment) if isinstance(segment, str) else None
    if isinstance(node, Sequence) and isinstance(segment, int):
        return node.items[segment] if 0 <= segment < len(node.items) else None
    return None


def path_text(path: Path) -> str:
    """Render the path of a YAML node as text, such as ``epoch[0].steps[2].in[0]``."""
    text = ""
    for segment in path:
        if isinstance(segment, int):
            text += f"[{segment}]"
        else:
            text += f".{short(segment)}" if text else short(segment)
    return text


def short(text: str, most: int = 60) -> str:
    """Shorten the text of a YAML node, which may be megabytes long, for a message."""
    return text if len(text) <= most else text[: most - 1] + "…"


class SourceMap(Struct, frozen=True):
    """Maps a path in the spec, in the keys of the YAML, to its position in a file.

    Attributes:
        root: The merged tree.
    """

    root: Node

    def node(self, path: Path) -> Node | None:
        """Return the YAML node at a path of a spec, or None if the value has no node."""
        node, remaining = self._walk(path)
        return None if remaining else node

    def at(self, path: Path) -> Origin:
        """Return the source position of the YAML node at a path, or of one around it."""
        return _origin(self._walk(path)[0])

    def items(self, path: Path, count: int) -> list[Origin]:
        """Return the source position of each YAML node in the list at a path of keys."""
        node, remaining = self._walk(path)
        if remaining or not isinstance(node, Sequence) or len(node.items) != count:
            return [self.at((*path, index)) for index in range(count)]
        return [_origin(item) for item in node.items]

    def key(self, path: Path) -> Origin:
        """Return the source position of the key at a path, or of the YAML node there."""
        if path:
            parent = self.node(path[:-1])
            last = path[-1]
            if isinstance(parent, Mapping) and isinstance(last, str) and last in parent.keys:
                return origin_of(parent.keys[last])
        return self.at(path)

    def _walk(self, path: Path) -> tuple[Node, int]:
        """Find the YAML node nearest to a path; return it and the number of path segments left.

        Not by ``child``, because a large spec asks for hundreds of thousands of positions.
        """
        node = self.root
        for depth, segment in enumerate(path):
            below: Node | None = None
            if type(node) is Mapping:
                below = node.values.get(segment)  # type: ignore[arg-type]  # an int is no key
            elif type(node) is Sequence and type(segment) is int and 0 <= segment < len(node.items):
                below = node.items[segment]
            if below is None:
                return node, len(path) - depth
            node = below
        return node, 0


def _origin(node: Node) -> Origin:
    if type(node) is Scalar and type(node.value) is str and "$" in node.value:
        # The text that replaces ${…} has another length, so the columns behind it are unknown.
        return replace(origin_of(node.position), text_column=0)
    return Origin(*node.position)
