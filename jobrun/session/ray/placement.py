"""Choose which resources and machine of a Ray cluster a node requests, without importing Ray."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from jobrun.core.errors import EnvironmentFaultError
from jobrun.graph.types import Node

_OWN_NAMES = {"cpu": "CPU", "cpus": "CPU", "gpu": "GPU", "gpus": "GPU", "memory": "memory"}
# The share of a machine's own resource that a node takes: 10,000 nodes fit on one.
_HOST_SHARE = 0.0001


class Machine(Struct, frozen=True):
    """A machine of the cluster that is alive.

    Attributes:
        key: What the cluster knows it by.
        names: Its names and addresses.
        resources: Its total amounts, used or not.
    """

    key: str
    names: frozenset[str]
    resources: Mapping[str, float] = field(default_factory=dict)


class ResourceRequest(Struct, frozen=True):
    """The resources requested of the cluster for one node.

    Attributes:
        asks: Amounts by the cluster's names of resources; only those that the spec gives.
        machine: The key of the only machine that will do; empty for any.
    """

    asks: Mapping[str, float]
    machine: str = ""


def resource_request(node: Node, machines: Sequence[Machine]) -> ResourceRequest:
    """Build the Ray resource request of a node's placement, and choose a machine that fits it.

    Raises:
        EnvironmentFaultError: E398, no machine that is there will ever do.
    """
    asks: dict[str, float] = {}
    for name, amount in node.resources:
        if amount:
            asks[_OWN_NAMES.get(name.lower(), name)] = _require_whole(node, name, amount)
    key = ""
    if node.host:
        key = next((machine.key for machine in machines if node.host in machine.names), "")
        if not key:
            asks[node.host] = _HOST_SHARE
    fitting = [
        machine for machine in machines if (not key or machine.key == key) and _fits(asks, machine)
    ]
    if not fitting:
        raise _no_machine_error(node, machines)
    return ResourceRequest(asks, key)


def _fits(asks: Mapping[str, float], machine: Machine) -> bool:
    return all(machine.resources.get(name, 0.0) >= amount for name, amount in asks.items())


def _require_whole(node: Node, name: str, amount: float) -> float:
    if amount > 1 and amount != int(amount):
        raise EnvironmentFaultError.of(
            "E398",
            f"node '{node.name}' asks for {amount:g} of '{name}', and more than one can only be "
            "had in whole numbers",
            "give a whole number, or less than one",
            where=node.origin,
        )
    return amount


def _no_machine_error(node: Node, machines: Sequence[Machine]) -> EnvironmentFaultError:
    wanted = [f"{name} {amount:g}" for name, amount in node.resources]
    wanted += [f"host {node.host}"] if node.host else []
    there = "; ".join(
        f"{min(machine.names, default=machine.key)} has {_describe_resources(machine)}"
        for machine in machines
    )
    return EnvironmentFaultError.of(
        "E398",
        f"no machine of the cluster has the resources that node "
        f"'{node.name}' asks for ({', '.join(wanted)})",
        f"change 'resources' or 'host' of the node, or add machines; {there or 'there are none'}",
        where=node.origin,
    )


def _describe_resources(machine: Machine) -> str:
    mine = {name: amount for name, amount in machine.resources.items() if ":" not in name}
    return ", ".join(f"{name} {mine[name]:g}" for name in sorted(mine)) or "nothing"
