"""Lower the nodes of a spec to a cluster, and check their settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from jobrun.compile.faults import Faults, Place
from jobrun.core.codes import Code
from jobrun.core.origin import Origin
from jobrun.graph.types import Cluster, Node
from jobrun.spec.models.job import JobSpec, NodeSpec
from jobrun.spec.yaml.source_map import Path, SourceMap, path_text

DEFAULT_NODE = "local"

_Found = Iterator[tuple[Code, Path, str, str]]


def build_cluster(spec: JobSpec, source: SourceMap) -> Cluster:
    """Build the cluster from a spec's nodes; without nodes, one node called ``local``."""
    if not spec.nodes:
        return Cluster((Node(DEFAULT_NODE, DEFAULT_NODE),))
    return Cluster(
        tuple(
            node
            for family, declared in spec.nodes.items()
            for node in _build_family(family, declared, source.key(("nodes", family)))
        )
    )


def _build_family(family: str, declared: NodeSpec, origin: Origin) -> list[Node]:
    one = Node(
        family,
        family,
        0,
        1,
        tuple(declared.props.items()),
        tuple(declared.resources.items()),
        declared.host or "",
        origin,
    )
    if declared.count is None:
        return [one]
    count = declared.count
    return [replace(one, name=f"{family}_{i}", index=i, count=count) for i in range(count)]


def check_node_settings(spec: JobSpec, source: SourceMap, faults: Faults) -> None:
    """Check the settings of a spec's nodes, and warn of those that have no effect."""
    for name, node in spec.nodes.items():
        at: Path = ("nodes", name)
        found = [*_bad_amounts(node, at), *_conflicts(node, at)]
        for code, path, message, mend in found:
            faults.error(code, message, mend, Place(path_text(path), source.at(path)))
        for key in ("host", "resources"):
            if not found and getattr(node, key):
                place = Place(path_text((*at, key)), source.key((*at, key)))
                faults.warn(
                    "W135",
                    f"'{key}' of node '{name}' has an effect only in the session 'ray'",
                    "run with --session ray, or remove it",
                    place,
                )


def _bad_amounts(node: NodeSpec, at: Path) -> _Found:
    for name, amount in node.resources.items():
        if amount < 0:
            message = f"invalid amount {amount:g} of resource '{name}'"
            yield "E123", (*at, "resources", name), message, "use 0 or more"


def _conflicts(node: NodeSpec, at: Path) -> _Found:
    """Yield what in ``props`` contradicts a node's own keys, in the ``nodes`` of the spec."""
    meant = {"host": node.host, "count": node.count, "resources": node.resources}
    for key, value in meant.items():
        if value and key in node.props and node.props[key] != value:
            message = f"the property '{key}' is {node.props[key]!r}, and '{key}' is {value!r}"
            yield "E124", (*at, "props", key), message, "remove it from 'props'"
    for key, amount in node.resources.items():
        if key in node.props and node.props[key] != amount:
            message = f"the property '{key}' is {node.props[key]!r}, and the resource is {amount:g}"
            yield "E124", (*at, "props", key), message, "remove one of the two"
