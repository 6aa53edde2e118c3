"""Trees of small Python objects, as graphs, populations and studies are, and one step of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jobrun


@dataclass
class Item:
    """A dataclass of four leaves."""

    number: int
    weight: float
    title: str
    flag: bool


class Gene:
    """An object of four attributes, of an adapted class."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.weight = number * 0.5
        self.title = f"gene {number}"
        self.flag = number % 2 == 0


jobrun.adapt(Gene)


def make(kind: str, leaves: int) -> Any:
    """Make a tree of some kind with so many leaves."""
    count = leaves // 4
    match kind:
        case "dicts":
            return {
                f"key {n}": {"number": n, "weight": n * 0.5, "title": f"t{n}", "flag": True}
                for n in range(count)
            }
        case "lists":
            return [[n, n * 0.5, f"t{n}", True] for n in range(count)]
        case "dataclasses":
            return [Item(n, n * 0.5, f"t{n}", True) for n in range(count)]
        case "adapted":
            return [Gene(n) for n in range(count)]
    raise ValueError(kind)


def change(tree: Any) -> None:
    """Change one leaf of a tree."""
    first = next(iter(tree.values())) if isinstance(tree, dict) else tree[0]
    if isinstance(first, dict):
        first["number"] += 1
    elif isinstance(first, list):
        first[0] += 1
    else:
        first.number += 1


def read(tree: Any) -> int:
    """Read one leaf of a tree."""
    return len(tree)


def make_graph(nodes: int) -> Any:
    """Make a graph of networkx with weights."""
    import networkx  # noqa: PLC0415

    graph = networkx.barabasi_albert_graph(nodes, 3, seed=1)
    for number, (_, _, facts) in enumerate(graph.edges(data=True)):
        facts["weight"] = 1.0 + number % 7
    for _, facts in graph.nodes(data=True):
        facts["rank"] = 1.0
    return graph


def spread(graph: Any) -> None:
    """Let each node of a graph take a weighted mean of its neighbours' ranks."""
    ranks = {}
    for node, neighbours in graph.adjacency():
        total = sum(facts["weight"] for facts in neighbours.values())
        ranks[node] = sum(
            graph.nodes[other]["rank"] * facts["weight"] for other, facts in neighbours.items()
        ) / max(total, 1.0)
    for node, rank in ranks.items():
        graph.nodes[node]["rank"] = 0.9 * rank + 0.1
