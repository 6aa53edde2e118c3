"""Record where the values of a resolved spec were written, and restore the positions on reload.

A resolved spec is one file; its author wrote others. Faults of a resumed run have to point at
those. The positions are kept as one list, in the order in which the resolved tree is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from jobrun.spec.yaml.nodes import Mapping, Node, Position, Scalar
from jobrun.spec.yaml.nodes import Sequence as ListNode

# These come first in a resolved spec, whatever their position in the file was.
FIRST_KEYS = ("jobrun", "name")


class AuthoredFile(Struct, frozen=True):
    """A file that a recorded spec was put together from, or the text of an option.

    Attributes:
        shown: The name it has in positions now.
        text: What it said when it was recorded.
        path: The absolute path of the original; empty for an option.
        changed: Whether the original says something else now, or is gone.
    """

    shown: str
    text: str
    path: str = ""
    changed: bool = False


class Origins(Struct, frozen=True):
    """The recorded origins of a resolved spec: the author's files, and the positions in them.

    Attributes:
        files: In the order in which they were read.
        places: For each key and each value of the resolved tree, in its order: the number of the
            file, then line, column, length and text column.
    """

    files: tuple[AuthoredFile, ...]
    places: Sequence[Sequence[int]]


def ordered(tree: dict[str, Any]) -> dict[str, Any]:
    """Return a spec's dict with its keys in the order in which their origins are recorded."""
    return {key: tree[key] for key in FIRST_KEYS if key in tree} | tree


def recorded_positions(root: Node, files: Sequence[str]) -> list[list[int]]:
    """List the origin (file, line, column) to record for each key and value of a resolved spec.

    Args:
        root: The merged tree of a spec.
        files: The names of its files in positions.
    """
    numbers = {name: number for number, name in enumerate(files)}
    return [[numbers.get(position[0], 0), *position[1:]] for position in _positions(_ordered(root))]


def relocated(root: Mapping, origins: Origins) -> Mapping:
    """Replace the positions (file, line) in a resolved spec by their recorded origins.

    Returns:
        The tree as it is where the positions do not fit it.
    """
    names = [file.shown for file in origins.files]
    try:
        positions = [(names[recorded[0]], *recorded[1:]) for recorded in origins.places]
    except (IndexError, TypeError):
        return root
    if len(positions) != sum(1 for _ in _positions(root)) or any(
        len(recorded) != len(root.position) for recorded in positions
    ):
        return root
    relocated_root = _with_positions(root, iter(positions))
    return relocated_root if isinstance(relocated_root, Mapping) else root


def _ordered(root: Node) -> Node:
    if isinstance(root, Mapping):
        return Mapping(ordered(root.values), root.keys, root.position)
    return root


def _positions(node: Node) -> Iterator[Position]:
    waiting: list[Node] = [node]
    while waiting:
        current = waiting.pop()
        yield current.position
        if isinstance(current, Mapping):
            yield from (current.keys[key] for key in current.values)
            waiting += reversed(current.values.values())
        elif isinstance(current, ListNode):
            waiting += reversed(current.items)


def _with_positions(node: Node, positions: Iterator[Any]) -> Node:
    """Set the position of each key and value of a spec to its recorded origin (file and line)."""
    position = next(positions)
    if isinstance(node, Scalar):
        return node._replace(position=position)
    if isinstance(node, ListNode):
        return ListNode([_with_positions(item, positions) for item in node.items], position)
    keys = {key: next(positions) for key in node.values}
    return Mapping(
        {key: _with_positions(value, positions) for key, value in node.values.items()},
        keys,
        position,
    )
