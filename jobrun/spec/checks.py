"""Rules over a whole spec that no single field can check. Names only; no meaning."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from jobrun.core.errors import Fault
from jobrun.spec.models import JobSpec
from jobrun.spec.source import SourceMap, path_text

MOST_NODES = 100_000


def check_nodes(spec: JobSpec, source: SourceMap) -> list[Fault]:
    """Node names that one file system or another would take for the same; too many nodes."""
    total = sum(node.count or 1 for node in spec.nodes.values())
    if total > MOST_NODES:
        message = f"{total:,} nodes; a job has at most {MOST_NODES:,}"
        where = source.key(("nodes",))
        return [Fault("E033", message, "give smaller counts", where, "nodes")]
    return list(_collisions(spec, source))


def _collisions(spec: JobSpec, source: SourceMap) -> Iterator[Fault]:
    taken: dict[str, str] = {}
    for name, node in spec.nodes.items():
        count = node.count
        members = [name] if count is None else [f"{name}_{index}" for index in range(count)]
        for member in members:
            folded = unicodedata.normalize("NFC", member).casefold()
            other = taken.setdefault(folded, member)
            if other is not member:
                path = ("nodes", name)
                message = f"node '{member}' and node '{other}' have the same name but for case"
                if other == member:
                    message = f"two nodes have the name '{member}'"
                mend = "rename one: each node has files of its name"
                yield Fault("E032", message, mend, source.key(path), path_text(path))
                break
