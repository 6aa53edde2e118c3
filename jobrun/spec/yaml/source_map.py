"""Map paths within a loaded spec, such as ``epoch[0].steps[2]``, to places in its files."""

from __future__ import annotations

from jobrun.core.errors import Origin
from jobrun.core.lazy_dataclass import dataclass, replace
from jobrun.spec.yaml.nodes import Mapping, Node, Path, Scalar, Sequence, origin_of, path_text

__all__ = ["Path", "SourceMap", "path_text"]


@dataclass(frozen=True, slots=True)
class SourceMap:
    """Maps a path in the spec, in the keys of the YAML, to its place in a file.

    Attributes:
        root: The merged tree.
    """

    root: Node

    def node(self, path: Path) -> Node | None:
        """Return the YAML node that the value at a path of the loaded spec is from, or None."""
        found, rest = self._walk(path)
        return None if rest else found

    def at(self, path: Path) -> Origin:
        """Map the path of a value in the spec to its place, or to the nearest around it."""
        return _origin(self._walk(path)[0])

    def items(self, path: Path, count: int) -> list[Origin]:
        """Return the places in the source file of the items of a list at a path of the spec."""
        node, rest = self._walk(path)
        if rest or not isinstance(node, Sequence) or len(node.items) != count:
            return [self.at((*path, index)) for index in range(count)]
        return [_origin(item) for item in node.items]

    def key(self, path: Path) -> Origin:
        """Map a spec path to the place of its last key, or of the value where it has no key."""
        if path:
            parent = self.node(path[:-1])
            last = path[-1]
            if isinstance(parent, Mapping) and isinstance(last, str) and last in parent.keys:
                return origin_of(parent.keys[last])
        return self.at(path)

    def _walk(self, path: Path) -> tuple[Node, int]:
        """Find the source node nearest to a spec path; return it, and how many segments remain.

        Not by ``child``, because a large spec asks for hundreds of thousands of places.
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
        # What is put in for ${…} moves the columns behind it.
        return replace(origin_of(node.place), text_column=0)
    return Origin(*node.place)
