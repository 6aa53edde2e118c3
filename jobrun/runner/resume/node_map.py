"""Check ``--map`` against the job's nodes: which nodes share a process.

The nodes stay what they are, with their names, counts, random streams and files; only where they
run changes, which changes no bit.
"""

from __future__ import annotations

from collections.abc import Sequence

from jobrun.core.errors import UsageError
from jobrun.core.text.names import did_you_mean
from jobrun.graph.types import Cluster


def parse_node_map(cluster: Cluster, given: Sequence[str]) -> dict[str, str]:
    """Parse ``--map A=B`` options into a map of nodes: node A shares the process of node B.

    Args:
        cluster: The nodes of the job.
        given: ``trainer_1=trainer_0`` each.

    Raises:
        UsageError: E403, one of them is not two nodes, or they contradict each other.
    """
    names = [node.name for node in cluster]
    found: dict[str, str] = {}
    for text in given:
        node, equals, place = text.partition("=")
        if not equals:
            raise _map_error(text, "it is not NODE=NODE", f"write --map {names[-1]}={names[0]}")
        for name in (node, place):
            if name not in names:
                raise _map_error(text, f"there is no node '{name}'", did_you_mean(name, names))
        if node == place:
            raise _map_error(text, "a node is in its own place already", "leave it out")
        if found.setdefault(node, place) != place:
            raise _map_error(text, f"'{node}' is in the place of '{found[node]}'", "choose one")
    for node, place in found.items():
        if place in found:
            further = found[place]
            mend = f"write --map {node}={further}" if further != node else "leave one of them out"
            why = f"'{place}' is itself in the place of '{further}'"
            raise _map_error(f"{node}={place}", why, mend)
    return found


def _map_error(text: str, why: str, mend: str) -> UsageError:
    return UsageError.of("E403", f"--map cannot be '{text}': {why}", mend)
