"""Remote nets: lowered and put on their nodes, for a session that has a use for them."""

from __future__ import annotations

from collections.abc import Mapping

from jobrun.compile.context import FINDER, Context, Env
from jobrun.compile.faults import Faults, Place
from jobrun.compile.nodes import NodeNames
from jobrun.compile.steps import StepLowering
from jobrun.core.names import did_you_mean
from jobrun.graph.query import walk
from jobrun.graph.types import Node, RemoteNet
from jobrun.spec.models import GroupSpec
from jobrun.spec.models import RemoteNet as RemoteSpec
from jobrun.spec.source import Path


class RemoteLowering:
    """Lowers the ``remote`` entries of groups.

    Args:
        context: The tables of the job.
        steps: What lowers steps.
        nodes: All nodes, by name.
    """

    def __init__(self, context: Context, steps: StepLowering, nodes: NodeNames) -> None:
        self._context = context
        self._steps = steps
        self._nodes = nodes
        self._by_name: Mapping[str, Node] = {node.name: node for node in nodes.cluster}

    def nets(self, spec: GroupSpec, group: str) -> tuple[RemoteNet, ...]:
        """The remote nets of a group, one for each node that an entry stands for."""
        return tuple(
            net
            for index, entry in enumerate(spec.remote)
            for net in self._entry(entry, (group, "remote", index), f"{group}/remote[{index}]")
        )

    def _entry(self, entry: RemoteSpec, at: Path, path: str) -> list[RemoteNet]:
        source, faults = self._context.source, self._context.faults
        nodes = self._nodes.resolve(entry.node, Place(path, source.at((*at, "node"))), faults)
        place = Place(path, source.at((*at, "net")))
        net = self._context.nets.get(entry.net)
        if net is None:
            mend = did_you_mean(entry.net, self._context.nets)
            faults.error("E145", f"unknown net '{entry.net}'", mend, place)
            return []
        self._steps.used.add(net.name)
        if not net.sound:
            return []
        used: dict[str, None] = {net.name: None}
        # It stands in no task: what it stops is itself.
        env = Env((("", path),), nets=(net.name,), used=used)
        steps = self._steps.steps(net.steps, net.steps_path, f"{path}.{net.name}", env)
        setup = tuple(
            one
            for level in ("node", "task", "instance")
            for one in self._steps.net_setups(used, level)
        )
        origin = source.at(at)
        nets = [
            RemoteNet(net.name, node, steps, self._by_name[node].props, setup, path, origin)
            for node in nodes
        ]
        for one in nets[:1]:
            check_local(one, faults)
        faults.warn(
            "W136", f"the remote net '{net.name}' does not run in the session 'threads'",
            "use a session whose nodes answer requests, or use the net in a task", place,
        )  # fmt: skip
        return nets


def check_local(net: RemoteNet, faults: Faults) -> None:
    """Note every read of a task's output: it stays where the task ran."""
    around = [part for one in net.setup for part in (one.init, one.exit)]
    for step in (step for block in (net.steps, *around) for step in walk(block)):
        for read in FINDER.of_step(step).outputs:
            faults.error(
                "E125", f"a remote net cannot read the output '{read.task}.{read.output}'",
                "read a blob of the node instead", Place(step.path, step.origin),
            )  # fmt: skip
