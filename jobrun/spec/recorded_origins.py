"""Record where the values of a resolved spec were written, and restore the places on reload.

A resolved spec is one file; its author wrote others. Faults of a resumed run have to point at
those. The places are kept as one list, in the order in which the resolved tree is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jobrun.core.lazy_dataclass import dataclass
from jobrun.spec.yaml.nodes import Mapping, Node, Place, Scalar
from jobrun.spec.yaml.nodes import Sequence as ListNode

# These come first in a resolved spec, whatever their place in the file was.
FIRST_KEYS = ("jobrun", "name")


@dataclass(frozen=True, slots=True)
class AuthoredFile:
    """A file that a recorded spec was put together from, or the text of an option.

    Attributes:
        shown: The name it has in places now.
        text: What it said when it was recorded.
        path: The absolute path of the original; empty for an option.
        changed: Whether the original says something else now, or is gone.
    """

    shown: str
    text: str
    path: str = ""
    changed: bool = False


@dataclass(frozen=True, slots=True)
class Origins:
    """The recorded origins of a resolved spec: the author's files, and the places in them.

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


def recorded_places(root: Node, files: Sequence[str]) -> list[list[int]]:
    """List the origin (file, line, column) to record for each key and value of a resolved spec.

    Args:
        root: The merged tree of a spec.
        files: The names of its files in places.
    """
    numbers = {name: number for number, name in enumerate(files)}
    return [[numbers.get(place[0], 0), *place[1:]] for place in _places(_ordered(root))]


def relocated(root: Mapping, origins: Origins) -> Mapping:
    """Replace the positions (file, line) in a resolved spec by their recorded origins.

    Returns:
        The tree as it is where the places do not fit it.
    """
    names = [file.shown for file in origins.files]
    try:
        places = [(names[one[0]], *one[1:]) for one in origins.places]
    except (IndexError, TypeError):
        return root
    if len(places) != sum(1 for _ in _places(root)) or any(
        len(one) != len(root.place) for one in places
    ):
        return root
    found = _with_places(root, iter(places))
    return found if isinstance(found, Mapping) else root


def _ordered(root: Node) -> Node:
    if isinstance(root, Mapping):
        return Mapping(ordered(root.values), root.keys, root.place)
    return root


def _places(node: Node) -> Iterator[Place]:
    waiting: list[Node] = [node]
    while waiting:
        one = waiting.pop()
        yield one.place
        if isinstance(one, Mapping):
            yield from (one.keys[key] for key in one.values)
            waiting += reversed(one.values.values())
        elif isinstance(one, ListNode):
            waiting += reversed(one.items)


def _with_places(node: Node, places: Iterator[Any]) -> Node:
    """Set the position of each key and value of a spec to its recorded origin (file and line)."""
    place = next(places)
    if isinstance(node, Scalar):
        return node._replace(place=place)
    if isinstance(node, ListNode):
        return ListNode([_with_places(item, places) for item in node.items], place)
    keys = {key: next(places) for key in node.values}
    return Mapping(
        {key: _with_places(one, places) for key, one in node.values.items()}, keys, place
    )
