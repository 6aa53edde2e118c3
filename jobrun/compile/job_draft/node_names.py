"""Resolve texts that mean nodes: a name, a counted name, or a pattern such as ``worker-*``."""

from __future__ import annotations

from fnmatch import fnmatchcase

from jobrun.compile.faults import Faults, Located
from jobrun.core.text.names import did_you_mean
from jobrun.graph.types import Cluster


class NodeNames:
    """A table of a job's nodes by name, counted name and pattern."""

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
        """Return the names of all nodes that the job declares, which patterns may match."""
        return self._all

    def __contains__(self, name: str) -> bool:
        return name in self._single

    def find(self, text: str | None) -> tuple[str, ...]:
        """Return the nodes that a name or a pattern such as ``worker-*`` means; () for none.

        Without a text it is the only node, if there is only one.
        """
        if text is None:
            return self._all if len(self._all) == 1 else ()
        if text not in self._found:
            self._found[text] = self._find(text)
        return self._found[text]

    def note_unknown(self, text: str | None, where: Located, faults: Faults) -> None:
        """Add the fault that no node matches a name, or a pattern such as ``worker-*``."""
        if text is None:
            shown = ", ".join(list(self._families)[:8])
            mend = f"write 'node: NAME', a counted name, or a pattern; the nodes are: {shown}"
            faults.error("E141", "there are several nodes, so a node is required", mend, where)
            return
        message = f"unknown node '{text}'"
        if _is_pattern(text):
            message = f"pattern '{text}' matches no node"
        faults.error("E142", message, did_you_mean(text, [*self._families, *self._all]), where)

    def resolve(self, text: str, where: Located, faults: Faults) -> tuple[str, ...]:
        """Resolve a node name or a pattern such as ``worker-*``; refuse an unknown one."""
        nodes = self.find(text)
        if not nodes:
            self.note_unknown(text, where, faults)
        return nodes

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
