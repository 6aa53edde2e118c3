"""Define the nodes of a YAML tree (scalar, sequence, mapping) with their places in the file.

A place is kept as a plain tuple and becomes an ``Origin`` on demand: a file has
hundreds of thousands of them, and a fault needs one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jobrun.core.errors import Origin
from jobrun.spec.yaml.scalars import Value

# The fields of an Origin: file, line, column, length, text column.
Place = tuple[str, int, int, int, int]
Path = tuple[str | int, ...]


class Scalar(NamedTuple):
    """A YAML scalar; ``plain`` if it was written without quotes and not as a block of text."""

    value: Value
    place: Place
    plain: bool = True


class Sequence(NamedTuple):
    """A YAML sequence with its place."""

    items: list[Node]
    place: Place


class Mapping(NamedTuple):
    """A YAML mapping: text keys and values with the place of each key, in the order of the file."""

    values: dict[str, Node]
    keys: dict[str, Place]
    place: Place


Node = Scalar | Sequence | Mapping


def origin_of(place: Place) -> Origin:
    """Convert a node's place (a tuple of file, line and column) to an ``Origin``."""
    return Origin(*place)


def plain(node: Node) -> Any:
    """Convert a YAML tree to dicts, lists and scalars, with a copy for each alias."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return {key: plain(value) for key, value in node.values.items()}


def child(node: Node, segment: str | int) -> Node | None:
    """Return the YAML node below another at a key or an index, or None."""
    if isinstance(node, Mapping):
        return node.values.get(segment) if isinstance(segment, str) else None
    if isinstance(node, Sequence) and isinstance(segment, int):
        return node.items[segment] if 0 <= segment < len(node.items) else None
    return None


def path_text(path: Path) -> str:
    """Render the path of a node in a YAML tree as text: ``epoch[0].steps[2].in[0]``."""
    text = ""
    for segment in path:
        if isinstance(segment, int):
            text += f"[{segment}]"
        else:
            text += f".{short(segment)}" if text else short(segment)
    return text


def short(text: str, most: int = 60) -> str:
    """Shorten the text of a node in the YAML tree, which can be megabytes, for a message."""
    return text if len(text) <= most else text[: most - 1] + "…"
