"""Where every part of a loaded spec stands. Answers about places; holds no meaning."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jobrun.core.origin import Origin
from jobrun.spec.nodes import Mapping, Node, Path, Scalar, child, origin_of, path_text

__all__ = ["Path", "SourceMap", "path_text"]


@dataclass(frozen=True, slots=True)
class SourceMap:
    """From a path in the spec, in the keys of the YAML, to its place in a file.

    Attributes:
        root: The merged tree.
    """

    root: Node

    def node(self, path: Path) -> Node | None:
        """What stands at ``path``, or None when nothing does."""
        found: Node | None = self.root
        for segment in path:
            found = child(found, segment) if found is not None else None
        return found

    def at(self, path: Path) -> Origin:
        """The place of the value at ``path``, else of the nearest thing around it."""
        node = self._nearest(path)
        origin = origin_of(node.place)
        if isinstance(node, Scalar) and isinstance(node.value, str) and "$" in node.value:
            # What is put in for ${…} moves the columns behind it.
            return replace(origin, text_column=0)
        return origin

    def key(self, path: Path) -> Origin:
        """The place of the key that ends ``path``; of the value where that is no key."""
        if path:
            parent = self.node(path[:-1])
            last = path[-1]
            if isinstance(parent, Mapping) and isinstance(last, str) and last in parent.keys:
                return origin_of(parent.keys[last])
        return self.at(path)

    def _nearest(self, path: Path) -> Node:
        nearest = self.root
        for segment in path:
            below = child(nearest, segment)
            if below is None:
                break
            nearest = below
        return nearest
