"""On which machine of a cluster a node is to be: its properties as a request. Pure.

``resources`` named cpu, gpu and memory are what these words mean to the cluster; all others are
names that its machines were given. ``host`` is a machine's name or address, or else a resource
that only this machine has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jobrun.core.errors import EnvironmentFaultError
from jobrun.graph.types import Node

_OWN_NAMES = {"cpu": "CPU", "cpus": "CPU", "gpu": "GPU", "gpus": "GPU", "memory": "memory"}
# Of a resource that stands for a machine: so many nodes fit on it.
_HERE = 0.0001


@dataclass(frozen=True, slots=True)
class Machine:
    """One that is there.

    Attributes:
        key: What the cluster knows it by.
        names: Its names and addresses.
        resources: What it has in all, whoever uses it.
    """

    key: str
    names: frozenset[str]
    resources: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """What is asked of the cluster for one node.

    Attributes:
        asks: Amounts by the cluster's names of resources; nothing that is not said, since a
            node mostly waits for its tasks.
        machine: The key of the only machine that will do; empty for any.
    """

    asks: Mapping[str, float]
    machine: str = ""


def place_of(node: Node, machines: Sequence[Machine]) -> Place:
    """What to ask for a node.

    Raises:
        EnvironmentFaultError: E398, no machine that is there will ever do.
    """
    asks: dict[str, float] = {}
    for name, amount in node.resources:
        if amount:
            asks[_OWN_NAMES.get(name.lower(), name)] = _whole(node, name, amount)
    key = ""
    if node.host:
        key = next((one.key for one in machines if node.host in one.names), "")
        if not key:
            asks[node.host] = _HERE
    fitting = [one for one in machines if (not key or one.key == key) and _fits(asks, one)]
    if not fitting:
        raise _no_place(node, machines)
    return Place(asks, key)


def _fits(asks: Mapping[str, float], machine: Machine) -> bool:
    return all(machine.resources.get(name, 0.0) >= amount for name, amount in asks.items())


def _whole(node: Node, name: str, amount: float) -> float:
    if amount > 1 and amount != int(amount):
        raise EnvironmentFaultError.of(
            "E398",
            f"node '{node.name}' asks for {amount:g} of '{name}', and more than one can only be "
            "had in whole numbers",
            "give a whole number, or less than one",
            where=node.origin,
        )
    return amount


def _no_place(node: Node, machines: Sequence[Machine]) -> EnvironmentFaultError:
    wanted = [f"{name} {amount:g}" for name, amount in node.resources]
    wanted += [f"host {node.host}"] if node.host else []
    there = "; ".join(f"{min(one.names, default=one.key)} has {_has(one)}" for one in machines)
    return EnvironmentFaultError.of(
        "E398",
        f"no machine of the cluster has what node '{node.name}' asks for ({', '.join(wanted)})",
        f"change 'resources' or 'host' of the node, or add machines; {there or 'there are none'}",
        where=node.origin,
    )


def _has(machine: Machine) -> str:
    mine = {name: amount for name, amount in machine.resources.items() if ":" not in name}
    return ", ".join(f"{name} {mine[name]:g}" for name in sorted(mine)) or "nothing"
