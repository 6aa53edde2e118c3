"""Check for data races: a shared blob that one thread writes while another uses it.

Reads by reports are no races: they may see old or new values, but each statement reads a value
once. What reports write counts as written by their task.
"""

from __future__ import annotations

from collections.abc import Container

from jobrun.compile.analysis.queues import must_run_concurrently
from jobrun.compile.analysis.scopes import NodeView
from jobrun.compile.checks.visibility import strip_prefix
from jobrun.compile.faults import Faults, Place
from jobrun.compile.job_draft.draft import TaskDraft
from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.types import Scope

_READS, _COUNTS, _WRITES = "reads", "counts in", "writes"


@dataclass(frozen=True, slots=True)
class _Use:
    """The use of one shared name by one task."""

    position: int
    kind: str
    place: Place


def check_races(view: NodeView, reported: Container[tuple[str, str]], faults: Faults) -> None:
    """Check for races between the tasks of a group on one node, and instances of a task.

    Args:
        view: The group on the node.
        reported: Task paths and names with a fault about their order already.
        faults: Collects what is wrong.
    """
    uses: dict[str, list[_Use]] = {}
    rank = view.group.order.rank
    for position in sorted(view.tasks, key=rank.__getitem__):
        task = view.tasks[position]
        if task.hogwild:
            continue
        if task.instances > 1:
            _check_instances(view, task, faults)
        for name, (kind, place) in _find_uses(view, task).items():
            uses.setdefault(name, []).append(_Use(position, kind, place))
    for name, found in uses.items():
        if (
            len(found) > 1
            and any(use.kind != _READS for use in found)
            and view.group.order.is_sound
        ):
            _check_tasks(view, name, found, reported, faults)


def _find_uses(view: NodeView, task: TaskDraft) -> dict[str, tuple[str, Place]]:
    """Map each shared name that a task uses to its riskiest use: a write, a count or a read."""
    flow, shared = task.flow, view.shared
    reads, atomic, writes = flow.inner.reads, flow.inner.atomic, flow.inner.writes
    if not flow.has_body_only:
        reads = {**reads, **flow.once.reads}
        atomic = {**flow.reporting.atomic, **atomic, **flow.once.atomic}
        writes = {**flow.reporting.writes, **writes, **flow.once.writes}
    uses = {name: (_READS, place) for name, place in reads.items() if name in shared}
    for name, place in atomic.items():
        if name in shared:
            # A plain read of a counter is not protected by atomic updates.
            uses[name] = (_WRITES if name in reads else _COUNTS, place)
    for name, place in writes.items():
        if name in shared:
            uses[name] = (_WRITES, place)
    return uses


def _check_tasks(
    view: NodeView,
    name: str,
    uses: list[_Use],
    reported: Container[tuple[str, str]],
    faults: Faults,
) -> None:
    """Check for data races: tasks whose uses of a blob conflict must have an order.

    Uses come in an order that agrees with ``needs``. Neighbours that do not conflict form a
    run; by transitivity it is enough to compare each use with the run before its own.
    """
    order = view.group.order
    before = run = 0
    kind = ""
    for use in uses:
        if use.kind == _WRITES or use.kind != kind:
            before, run, kind = run, 0, use.kind
        beside = order.select_concurrent(before, use.position)
        if beside and (view.tasks[use.position].path, name) not in reported:
            first = (beside & -beside).bit_length() - 1
            other = next(one for one in uses if one.position == first)
            _report_race(view, name, other, use, faults)
        run |= 1 << use.position


def _report_race(view: NodeView, name: str, one: _Use, two: _Use, faults: Faults) -> None:
    first, second = view.tasks[one.position], view.tasks[two.position]
    verb = {_READS: "reads", _COUNTS: "changes", _WRITES: "writes"}
    message = (
        f"tasks '{first.name}' and '{second.name}' race on '{strip_prefix(name)}': the one "
        f"{verb[one.kind]} it at {one.place.path} ({one.place.origin}), the other "
        f"{verb[two.kind]} it at {two.place.path}"
    )
    mend = f"order them, for example with needs: [{first.name}] in '{second.name}'"
    if must_run_concurrently(view.group, one.position, two.position):
        # Queues connect them, so ordering them with needs would be a deadlock.
        mend = (
            f"queues connect them, so neither can wait for the other: use '{strip_prefix(name)}' "
            f"in only one of them, and send what the other needs as a field of the records"
        )
    faults.error("E177", message, mend, two.place)


def _check_instances(view: NodeView, task: TaskDraft, faults: Faults) -> None:
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
            f"the {task.instances} instances of task '{task.name}' race on '{strip_prefix(name)}', "
            f"a blob of {owner[scope]}"
        )
        mend = "use an atomic operator, collect an output per instance, or write hogwild: true"
        faults.error("E178", message, mend, place)
