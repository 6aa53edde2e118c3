"""Blobs of a shared workspace that are written by one thread while another uses them.

Reports only look: what they read may be written meanwhile, each value being read once per
statement. What they write counts as their task's.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from jobrun.compile.faults import Faults, Place
from jobrun.compile.scopes import NodeView
from jobrun.compile.tasks import Draft
from jobrun.compile.visible import shown
from jobrun.graph.types import Scope

_READS, _COUNTS, _WRITES = "reads", "counts in", "writes"


@dataclass(frozen=True, slots=True)
class _Use:
    """What one task does with one shared name."""

    position: int
    kind: str
    place: Place


def check_races(view: NodeView, told: Container[tuple[str, str]], faults: Faults) -> None:
    """Note races between the tasks of a group on one node, and between instances of a task.

    Args:
        view: The group on the node.
        told: Task paths and names whose order has been found missing already.
        faults: Where to note them.
    """
    uses: dict[str, list[_Use]] = {}
    rank = view.group.order.rank
    for position in sorted(view.tasks, key=rank.__getitem__):
        task = view.tasks[position]
        if task.spec.hogwild:
            continue
        if task.spec.instances > 1:
            _check_instances(view, task, faults)
        for name, (kind, place) in _uses(task).items():
            if view.shared_scope(name) is not None:
                uses.setdefault(name, []).append(_Use(position, kind, place))
    for name, found in uses.items():
        if (
            len(found) > 1
            and any(use.kind != _READS for use in found)
            and view.group.order.is_sound
        ):
            _check_tasks(view, name, found, told, faults)


def _uses(task: Draft) -> dict[str, tuple[str, Place]]:
    """The strongest use of each name, with its place."""
    flow = task.flow
    reads = {**flow.inner.reads, **flow.once.reads}
    atomic = {**flow.reporting.atomic, **flow.inner.atomic, **flow.once.atomic}
    writes = {**flow.reporting.writes, **flow.inner.writes, **flow.once.writes}
    uses = {name: (_READS, place) for name, place in reads.items()}
    for name, place in atomic.items():
        # Whoever also reads a counter plainly is not protected by its being atomic.
        uses[name] = (_WRITES if name in reads else _COUNTS, place)
    uses.update({name: (_WRITES, place) for name, place in writes.items()})
    return uses


def _check_tasks(
    view: NodeView, name: str, uses: list[_Use], told: Container[tuple[str, str]], faults: Faults
) -> None:
    """Every use must be ordered after every earlier one that it conflicts with.

    Uses come in an order that agrees with ``needs``. Neighbours that do not conflict form a
    run; by transitivity it is enough to compare each use with the run before its own.
    """
    order = view.group.order
    before = run = 0
    kind = ""
    for use in uses:
        if use.kind == _WRITES or use.kind != kind:
            before, run, kind = run, 0, use.kind
        beside = order.not_before(before, use.position)
        if beside and (view.tasks[use.position].path, name) not in told:
            first = (beside & -beside).bit_length() - 1
            other = next(one for one in uses if one.position == first)
            _report(view, name, other, use, faults)
        run |= 1 << use.position


def _report(view: NodeView, name: str, one: _Use, two: _Use, faults: Faults) -> None:
    first, second = view.tasks[one.position], view.tasks[two.position]
    verb = {_READS: "reads", _COUNTS: "changes", _WRITES: "writes"}
    message = (
        f"tasks '{first.name}' and '{second.name}' race on '{shown(name)}': the one "
        f"{verb[one.kind]} it at {one.place.path} ({one.place.origin}), the other "
        f"{verb[two.kind]} it at {two.place.path}"
    )
    mend = f"let one wait for the other, for example needs: [{first.name}] in '{second.name}'"
    faults.error("E177", message, mend, two.place)


def _check_instances(view: NodeView, task: Draft, faults: Faults) -> None:
    flow = task.flow
    writes = {**flow.reporting.writes, **flow.inner.writes}
    counts = {**flow.reporting.atomic, **flow.inner.atomic}
    mixed = {name: place for name, place in counts.items() if name in flow.inner.reads}
    for name, place in {**mixed, **writes}.items():
        scope = view.scope(task, name)
        if scope is Scope.INSTANCE:
            continue
        owner = {Scope.NODE: "the node", Scope.GROUP: "the group run", Scope.TASK: "the task"}
        message = (
            f"the {task.spec.instances} instances of task '{task.name}' race on '{shown(name)}', "
            f"a blob of {owner[scope]}"
        )
        mend = "use an atomic operator, collect an output per instance, or write hogwild: true"
        faults.error("E178", message, mend, place)
