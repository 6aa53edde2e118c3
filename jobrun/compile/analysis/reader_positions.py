"""Analyse the positions of readers: as state of nodes, and the order of tasks that move them.

The readers themselves are lowered by ``lowering.readers``.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobrun.compile.analysis.state import KeptNames, add_setup, add_state
from jobrun.compile.faults import Faults, SpecPosition
from jobrun.compile.job_draft.tasks_and_groups import GroupDraft, Groups, TaskDraft, walk_readers
from jobrun.core.errors import Origin
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.expressions import Call, Const, Dtype
from jobrun.graph.expressions import Sequence as Items
from jobrun.graph.readers import POSITION, Reader, readers_in
from jobrun.graph.steps import Assign, NameTarget
from jobrun.graph.types import TaskGroup

POSITION_SETUP = "readers"


def add_positions(names_by_node: Mapping[str, KeptNames], groups: Groups) -> dict[str, KeptNames]:
    """Add the names of the reader positions on each node to the names of the node's state."""
    positions = {
        node: [reader.position for reader, _ in shares.values()]
        for node, shares in _count_shares(groups).items()
    }
    return add_state(names_by_node, positions)


def add_position_setup(init: TaskGroup, groups: Groups) -> TaskGroup:
    """Add to init the steps that set each reader position (a state blob) to the start."""
    first_values = {
        node: tuple(_build_first_position(*share) for share in shares.values())
        for node, shares in _count_shares(groups).items()
    }
    return add_setup(init, POSITION_SETUP, first_values)


def check_saved_positions(
    groups: Groups, policy: CheckpointPolicy, saved_at: Origin, faults: Faults
) -> None:
    """Check that all nodes with reader positions are saved in checkpoints."""
    for node, shares in _count_shares(groups).items():
        if node not in policy.nodes:
            faults.error(
                "E120",
                f"'{node}' holds the position of reader '{next(iter(shares))}', "
                f"but is not checkpointed",
                f"add '{node}'",
                SpecPosition("checkpoint.nodes", saved_at),
            )


def check_reader_order(groups: Groups, faults: Faults) -> None:
    """Check that tasks that move one reader's position on a node have an order."""
    for group in groups.values():
        _check_group_order(group, faults)


def _build_first_position(reader: Reader, shares: int) -> Assign:
    shape = Items((Const(shares), Const(len(POSITION))))
    value = Call("zeros", (shape,), (("dtype", Dtype("int64")),))
    return Assign((NameTarget(reader.position),), value, f"readers.{reader.name}", reader.origin)


def _count_shares(groups: Groups) -> dict[str, dict[str, tuple[Reader, int]]]:
    """Map each node to its readers, and the number of positions each has there."""
    shares: dict[str, dict[str, tuple[Reader, int]]] = {}
    for reader, task in walk_readers(groups):
        count = task.instances if reader.shard == "instance" else 1
        for node in task.nodes:
            for inner_reader in readers_in(reader):
                shares.setdefault(node, {}).setdefault(inner_reader.name, (inner_reader, count))
    return shares


def _check_group_order(group: GroupDraft, faults: Faults) -> None:
    """Check that tasks that move the position of one reader on a node have an order."""
    seen: dict[tuple[str, str], list[TaskDraft]] = {}
    for reader, task in walk_readers({group.name: group}):
        for inner_reader in readers_in(reader):
            for node in task.nodes:
                others = seen.setdefault((node, inner_reader.name), [])
                for other in others:
                    if not _is_ordered(group, other, task):
                        faults.error(
                            "E120",
                            f"tasks '{other.name}' and '{task.name}' read '{inner_reader.name}' "
                            f"concurrently, so which of them gets a record would depend on "
                            f"timing",
                            f"order them with needs: [{other.name}]; use instances; or declare "
                            f"a second reader of the same data",
                            task.records.read_at,
                        )
                        return
                others.append(task)


def _is_ordered(group: GroupDraft, first: TaskDraft, second: TaskDraft) -> bool:
    order = group.order
    if not order.is_sound:
        return True
    return order.is_before(first.position, second.position) or order.is_before(
        second.position, first.position
    )
