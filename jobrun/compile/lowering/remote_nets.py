"""Lower remote nets, which a session keeps on nodes and runs on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jobrun.compile.faults import Faults, Place
from jobrun.compile.job_draft.definite_assignment import FINDER
from jobrun.compile.lowering.context import Context, Env
from jobrun.compile.lowering.steps import StepLowering
from jobrun.core.text.names import did_you_mean
from jobrun.graph.query import walk
from jobrun.graph.types import Node, RemoteNet
from jobrun.spec.yaml.nodes import Path

if TYPE_CHECKING:
    from jobrun.spec.models.optional_parts import RemoteNet as RemoteSpec


class RemoteLowering:
    """Lowers the ``remote`` entries of groups.

    Args:
        context: The tables of the job.
        steps: The lowering of steps.
    """

    def __init__(self, context: Context, steps: StepLowering) -> None:
        self._context = context
        self._steps = steps
        self._nodes = context.nodes
        self._by_name: Mapping[str, Node] = {node.name: node for node in context.nodes.cluster}

    def nets(self, entries: Sequence[RemoteSpec], group: str) -> tuple[RemoteNet, ...]:
        """Lower a group's ``remote`` entries to remote nets, one for each node an entry names."""
        return tuple(
            net
            for index, entry in enumerate(entries)
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
        self._steps.nets.used.add(net.name)
        if not net.sound:
            return []
        used: dict[str, None] = {net.name: None}
        # It is not in a task: a stop leaves the net itself.
        env = Env((("", path),), nets=(net.name,), used=used)
        steps = self._steps.steps(net.steps, net.steps_path, f"{path}.{net.name}", env)
        setup = tuple(
            one
            for level in ("node", "task", "instance")
            for one in self._steps.nets.setups(used, level)
        )
        origin = source.at(at)
        nets = [
            RemoteNet(net.name, node, steps, self._by_name[node].props, setup, path, origin)
            for node in nodes
        ]
        for one in nets[:1]:
            check_remote_reads(one, faults)
        faults.warn(
            "W136",
            f"the remote net '{net.name}' does not run in the session 'threads'",
            "use a session whose nodes answer requests, or use the net in a task",
            place,
        )
        return nets


def check_remote_reads(net: RemoteNet, faults: Faults) -> None:
    """Refuse reads of a task's output in a remote net, as outputs exist only on their own node."""
    around = [part for one in net.setup for part in (one.init, one.exit)]
    for step in (step for block in (net.steps, *around) for step in walk(block)):
        for read in FINDER.of_step(step).outputs:
            faults.error(
                "E125",
                f"a remote net cannot read the output '{read.task}.{read.output}'",
                "read a blob of the node instead",
                Place(step.path, step.origin),
            )
