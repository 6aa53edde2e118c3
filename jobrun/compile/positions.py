"""Who reads which reader where: positions as state, shares, and when data have ended.

What one reader means is told by ``readers``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from jobrun.compile.context import Context
from jobrun.compile.faults import Faults, Place
from jobrun.compile.groups import GroupDraft
from jobrun.compile.state import Left
from jobrun.compile.tasks import Draft
from jobrun.core.names import did_you_mean
from jobrun.graph.conditions import CheckpointPolicy, Probe
from jobrun.graph.data import POSITION, Reader, ReadQueue, ReadRecords, readers_in
from jobrun.graph.expr import Call, Compare, Const, Dtype, Expr, Index, NodeBlob, Sequence, Slice
from jobrun.graph.steps import Assign, NameTarget, Net
from jobrun.graph.types import Cluster, GroupName, NodeSetup, Scope, SetupNets, TaskGroup
from jobrun.spec.models import CheckpointSpec, JobSpec
from jobrun.spec.source import Path, path_text

Groups = Mapping[GroupName, GroupDraft]
_SETUP = "readers"


def placed_read(draft: Draft, node: str) -> ReadRecords | ReadQueue | None:
    """What a draft reads, on one of its nodes: shares are divided among them in their order."""
    read = draft.records.read
    if not isinstance(read, ReadRecords) or read.reader.shard == "none":
        return read
    return replace(read, part=draft.nodes.index(node), parts=len(draft.nodes))


def keeping_nodes(
    groups: Groups, cluster: Cluster, others: Collection[str] = ()
) -> tuple[str, ...]:
    """The nodes that hold state: those of init, those that read, and ``others``."""
    used = dict.fromkeys(groups["init"].nodes())
    reading = {node for _, task in _reading(groups) for node in task.nodes}
    late = reading.union(others) - used.keys()
    return (*used, *(node.name for node in cluster if node.name in late))


def with_positions(kept: Mapping[str, Left], groups: Groups) -> dict[str, Left]:
    """What is there at each epoch boundary, the positions of readers included."""
    found = dict(kept)
    for node, shares in _shares(groups).items():
        one = found.get(node, Left())
        names = (reader.position for reader, _ in shares.values())
        found[node] = replace(one, state=tuple(sorted({*one.state, *names})))
    return found


def with_first_positions(init: TaskGroup, groups: Groups) -> TaskGroup:
    """Init, which makes the positions of all readers: nothing is read yet."""
    setups = tuple(
        NodeSetup(
            node,
            SetupNets((Net(tuple(_first(*one) for one in shares.values())),), (), _SETUP),
            tuple((reader.position, Scope.NODE) for reader, _ in shares.values()),
        )
        for node, shares in _shares(groups).items()
    )
    return replace(init, setup=(*setups, *init.setup))


def without_first_positions(init: TaskGroup) -> TaskGroup:
    """Init as it was written."""
    return replace(init, setup=tuple(one for one in init.setup if one.nets.name != _SETUP))


def check_reading(
    spec: JobSpec, context: Context, groups: Groups, policy: CheckpointPolicy
) -> None:
    """Note what is wrong with who reads: two at once, nobody, nowhere saved."""
    check_orders(groups, context.faults)
    used = {one.name for reader, _ in _reading(groups) for one in readers_in(reader)}
    for name in spec.readers:
        if name not in used:
            place = Place(f"readers.{name}", context.source.key(("readers", name)))
            context.faults.warn("W137", f"reader '{name}' is never read",
                                f"take it out, or write read: {name} in a task", place)  # fmt: skip
    written = spec.checkpoint
    if isinstance(written, CheckpointSpec) and written.nodes is not None:
        for node, shares in _shares(groups).items():
            if node not in policy.nodes:
                place = Place("checkpoint.nodes", context.source.at(("checkpoint", "nodes")))
                context.faults.error(
                    "E120", f"'{node}' holds the position of reader '{next(iter(shares))}', and is "
                    "not among the nodes that are saved", f"add '{node}'", place,
                )  # fmt: skip


def check_orders(groups: Groups, faults: Faults) -> None:
    """Note tasks that read one reader on one node at the same time."""
    for group in groups.values():
        _check_order(group, faults)


class Finished:
    """Lowers ``data_finished``."""

    def __init__(self, context: Context, groups: Groups) -> None:
        self._context = context
        self._readers: dict[str, Reader] = {}
        self._nodes: dict[str, dict[str, None]] = {}
        for reader, task in _reading({"epoch": groups["epoch"]}):
            for one in readers_in(reader):
                self._readers[one.name] = one
                self._nodes.setdefault(one.name, {}).update(dict.fromkeys(task.nodes))
        self._others = {one.name for reader, _ in _reading(groups) for one in readers_in(reader)}

    def probe(self, name: str, at: Path) -> Probe | None:
        """True when the readers of that name on all nodes have found no more; None: a fault."""
        place = Place(path_text(at), self._context.source.at(at))
        reader = self._readers.get(name)
        if reader is None:
            message = f"no task of 'epoch' reads '{name}', so its data never end"
            mend = did_you_mean(name, self._readers)
            if name in self._others or not self._readers:
                mend = f"write read: {name} in a task of 'epoch'"
            self._context.faults.error("E121", message, mend, place)
            return None
        if reader.restart == "epoch":
            self._context.faults.error(
                "E121", f"reader '{name}' begins anew in each epoch, so that its data have ended "
                "says nothing", f"give '{name}' restart: never, or stop by epochs", place,
            )  # fmt: skip
            return None
        parts = tuple(_has_finished(node, reader) for node in self._nodes[name])
        return Probe(f"the data of '{name}' have ended", parts, "all", place.path, place.origin)


def _has_finished(node: str, reader: Reader) -> Expr:
    column = Sequence((Slice(), Const(POSITION.index("finished"))))
    flags = Index(NodeBlob(node, reader.position), column)
    return Call("all", (Compare(flags, ("!=",), (Const(0),)),))


def _first(reader: Reader, shares: int) -> Assign:
    shape = Sequence((Const(shares), Const(len(POSITION))))
    value = Call("zeros", (shape,), (("dtype", Dtype("int64")),))
    return Assign((NameTarget(reader.position),), value, f"readers.{reader.name}", reader.origin)


def _reading(groups: Mapping[GroupName, GroupDraft]) -> Iterator[tuple[Reader, Draft]]:
    """Every task that reads a reader, group by group."""
    for group in groups.values():
        for task in group.tasks:
            if isinstance(task.records.read, ReadRecords):
                yield task.records.read.reader, task


def _shares(groups: Groups) -> dict[str, dict[str, tuple[Reader, int]]]:
    """Per node, the readers that have a position there, and for how many shares of their rows."""
    found: dict[str, dict[str, tuple[Reader, int]]] = {}
    for reader, task in _reading(groups):
        count = task.spec.instances if reader.shard == "instance" else 1
        for node in task.nodes:
            for one in readers_in(reader):
                found.setdefault(node, {}).setdefault(one.name, (one, count))
    return found


def _check_order(group: GroupDraft, faults: Faults) -> None:
    """A reader has one position on a node, so tasks that read it do so one after the other."""
    seen: dict[tuple[str, str], list[Draft]] = {}
    for reader, task in _reading({group.name: group}):
        for one in readers_in(reader):
            for node in task.nodes:
                others = seen.setdefault((node, one.name), [])
                for other in others:
                    if not _is_ordered(group, other, task):
                        faults.error(
                            "E120", f"tasks '{other.name}' and '{task.name}' read '{one.name}' at "
                            "the same time, and which of them gets a record would depend on timing",
                            f"let one wait: needs: [{other.name}]; use instances; or declare a "
                            "second reader of the same data", task.records.read_at,
                        )  # fmt: skip
                        return
                others.append(task)


def _is_ordered(group: GroupDraft, one: Draft, two: Draft) -> bool:
    order = group.order
    if not order.is_sound:
        return True
    return order.is_before(one.position, two.position) or order.is_before(
        two.position, one.position
    )
