"""From the nodes of a spec to a cluster, and from a task's ``node`` to nodes of it."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

from jobrun.compile.faults import Faults, Place
from jobrun.core.names import did_you_mean
from jobrun.core.origin import Origin
from jobrun.graph.types import Cluster, Node
from jobrun.spec.models import JobSpec, NodeSpec
from jobrun.spec.source import SourceMap

DEFAULT_NODE = "local"


def cluster(spec: JobSpec, source: SourceMap) -> Cluster:
    """All nodes in the order of their declaration; without any, the one called ``local``."""
    if not spec.nodes:
        return Cluster((Node(DEFAULT_NODE, DEFAULT_NODE),))
    return Cluster(
        tuple(
            node
            for family, declared in spec.nodes.items()
            for node in _family(family, declared, source.key(("nodes", family)))
        )
    )


def _family(family: str, declared: NodeSpec, origin: Origin) -> list[Node]:
    one = Node(
        family, family, 0, 1, tuple(declared.props.items()), tuple(declared.resources.items()),
        declared.host or "", origin,
    )  # fmt: skip
    if declared.count is None:
        return [one]
    count = declared.count
    return [replace(one, name=f"{family}_{i}", index=i, count=count) for i in range(count)]


class NodeNames:
    """Answers which nodes a name, a counted name or a pattern stands for."""

    def __init__(self, nodes: Cluster) -> None:
        self.cluster = nodes
        self._all = tuple(node.name for node in nodes)
        self._single = frozenset(self._all)
        self._families: dict[str, list[str]] = {}
        for node in nodes:
            self._families.setdefault(node.family, []).append(node.name)
        self._found: dict[str, tuple[str, ...]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """All nodes."""
        return self._all

    def __contains__(self, name: str) -> bool:
        return name in self._single

    def find(self, text: str | None) -> tuple[str, ...]:
        """The nodes that ``text`` stands for, None being the only node; else empty."""
        if text is None:
            return self._all if len(self._all) == 1 else ()
        if text not in self._found:
            self._found[text] = self._find(text)
        return self._found[text]

    def not_found(self, text: str | None, place: Place, faults: Faults) -> None:
        """Note that ``text`` stands for no node."""
        if text is None:
            shown = ", ".join(list(self._families)[:8])
            mend = f"write 'node: NAME', a counted name, or a pattern; the nodes are: {shown}"
            faults.error("E141", "there are several nodes, so a node is needed", mend, place)
            return
        message = f"unknown node '{text}'"
        if _is_pattern(text):
            message = f"pattern '{text}' matches no node"
        faults.error("E142", message, did_you_mean(text, [*self._families, *self._all]), place)

    def resolve(self, text: str, place: Place, faults: Faults) -> tuple[str, ...]:
        """As ``find``, with a fault when there is none."""
        found = self.find(text)
        if not found:
            self.not_found(text, place, faults)
        return found

    def _find(self, text: str) -> tuple[str, ...]:
        if text in self._single:
            return (text,)
        if text in self._families:
            return tuple(self._families[text])
        if _is_pattern(text):
            return tuple(name for name in self._all if fnmatchcase(name, text))
        return ()


def _is_pattern(text: str) -> bool:
    return any(sign in text for sign in "*?[")
