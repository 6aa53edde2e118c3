"""Check for unordered access: data races between threads, and pulls of blobs written meanwhile.

A race is a shared blob that one thread writes while another uses it. Reads by reports are no
races: they may see old or new values, but each statement reads a value once. What reports write
counts as written by their task.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import chain

from msgspec import Struct

from jobrun.compile.analysis.queues import must_run_concurrently
from jobrun.compile.analysis.scopes import NodeView
from jobrun.compile.checks.visibility import strip_prefix
from jobrun.compile.faults import Faults, SpecPosition
from jobrun.compile.job_draft.tasks_and_groups import GroupDraft, TaskDraft
from jobrun.graph.query import walk
from jobrun.graph.steps import Pull, Step
from jobrun.graph.types import Scope, step_lists_around

_READS, _COUNTS, _WRITES = "reads", "counts in", "writes"

# A blob, the nodes it is pulled from, and the position of the pull.
_Pulled = tuple[str, tuple[str, ...], SpecPosition]


class _Use(Struct, frozen=True):
    """The use of one shared name by one task."""

    position: int
    kind: str
    spec_position: SpecPosition


def check_races(view: NodeView, reported: Container[tuple[str, str]], faults: Faults) -> None:
    """Check for races on one node: between tasks of a group, and between instances of a task.

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
        for name, (kind, spec_position) in _find_uses(view, task).items():
            uses.setdefault(name, []).append(_Use(position, kind, spec_position))
    for name, blob_uses in uses.items():
        if (
            len(blob_uses) > 1
            and any(use.kind != _READS for use in blob_uses)
            and view.group.order.is_sound
        ):
            _check_tasks(view, name, blob_uses, reported, faults)


def check_pulls(
    group: GroupDraft,
    views: Mapping[str, NodeView],
    start: Mapping[str, frozenset[str]],
    faults: Faults,
) -> None:
    """Check every ``pull``: its blob exists, and no task writes it meanwhile.

    Args:
        group: The group.
        views: The group on each of its nodes.
        start: Per node, the names of its global workspace when the group starts.
        faults: Collects what is wrong.
    """
    setups, reports = chain(*group.setups.values()), chain(*group.reports.values())
    for _, _, spec_position in dict.fromkeys(_pulls(step_lists_around(setups, reports))):
        _note_setup_pull(spec_position, faults)
    for position, task in enumerate(group.tasks):
        if task.has_operators_only:
            continue
        for name, nodes, spec_position in _pulls(task.step_lists()):
            missing = []
            for node in nodes:
                view = views.get(node)
                if name not in start.get(node, frozenset()) and not (
                    view is not None and _is_made_before(view, position, name, task)
                ):
                    missing.append(node)
                elif view is not None:
                    _check_race(view, position, name, spec_position, faults)
            if missing:
                _note_missing(name, missing, spec_position, faults)


def _find_uses(view: NodeView, task: TaskDraft) -> dict[str, tuple[str, SpecPosition]]:
    """Map each blob that tasks share to one task's most race-prone use of it: write or read."""
    flow, shared = task.flow, view.shared
    reads, atomic, writes = flow.inner.reads, flow.inner.atomic, flow.inner.writes
    if not flow.has_body_only:
        reads = {**reads, **flow.once.reads}
        atomic = {**flow.reporting.atomic, **atomic, **flow.once.atomic}
        writes = {**flow.reporting.writes, **writes, **flow.once.writes}
    uses = {
        name: (_READS, spec_position) for name, spec_position in reads.items() if name in shared
    }
    for name, spec_position in atomic.items():
        if name in shared:
            # A plain read of a counter is not protected by atomic updates.
            uses[name] = (_WRITES if name in reads else _COUNTS, spec_position)
    for name, spec_position in writes.items():
        if name in shared:
            uses[name] = (_WRITES, spec_position)
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
        concurrent = order.select_concurrent(before, use.position)
        if concurrent and (view.tasks[use.position].path, name) not in reported:
            first = (concurrent & -concurrent).bit_length() - 1
            other = next(earlier for earlier in uses if earlier.position == first)
            _report_race(view, name, other, use, faults)
        run |= 1 << use.position


def _report_race(
    view: NodeView, name: str, first_use: _Use, second_use: _Use, faults: Faults
) -> None:
    first, second = view.tasks[first_use.position], view.tasks[second_use.position]
    verb = {_READS: "reads", _COUNTS: "changes", _WRITES: "writes"}
    message = (
        f"tasks '{first.name}' and '{second.name}' race on '{strip_prefix(name)}': the one "
        f"{verb[first_use.kind]} it at {first_use.spec_position.path} "
        f"({first_use.spec_position.origin}), the other "
        f"{verb[second_use.kind]} it at {second_use.spec_position.path}"
    )
    mend = f"order them, for example with needs: [{first.name}] in '{second.name}'"
    if must_run_concurrently(view.group, first_use.position, second_use.position):
        # Queues connect them, so ordering them with needs would be a deadlock.
        mend = (
            f"queues connect them, so neither can wait for the other: use '{strip_prefix(name)}' "
            f"in only one of them, and send what the other needs as a field of the records"
        )
    faults.error("E177", message, mend, second_use.spec_position)


def _check_instances(view: NodeView, task: TaskDraft, faults: Faults) -> None:
    flow = task.flow
    writes = {**flow.reporting.writes, **flow.inner.writes}
    counts = {**flow.reporting.atomic, **flow.inner.atomic}
    mixed = {
        name: spec_position for name, spec_position in counts.items() if name in flow.inner.reads
    }
    for name, spec_position in {**mixed, **writes}.items():
        scope = view.scope(task, name)
        if scope is Scope.INSTANCE:
            continue
        owner = {Scope.NODE: "the node", Scope.GROUP: "the group run", Scope.TASK: "the task"}
        message = (
            f"the {task.instances} instances of task '{task.name}' race on '{strip_prefix(name)}', "
            f"a blob of {owner[scope]}"
        )
        mend = "use an atomic operator, collect an output per instance, or write hogwild: true"
        faults.error("E178", message, mend, spec_position)


def _pulls(step_lists: Iterable[tuple[Step, ...]]) -> Iterator[_Pulled]:
    for step in chain.from_iterable(map(walk, step_lists)):
        if isinstance(step, Pull):
            for pulled in step.blobs:
                yield pulled.name, pulled.nodes, SpecPosition(step.path, step.origin)


def _is_made_before(view: NodeView, position: int, name: str, reader: TaskDraft) -> bool:
    """Return whether a ``pull`` follows a task that makes its blob: they do not race."""
    order = view.group.order
    return name in view.global_names and any(
        name in task.flow.written_names()
        and order.is_before(maker, position)
        # A task that runs again on resume cannot use what one that does not has made.
        and (task.rebuild or not reader.rebuild)
        for maker, task in view.tasks.items()
    )


def _check_race(
    view: NodeView, position: int, name: str, spec_position: SpecPosition, faults: Faults
) -> None:
    order = view.group.order
    reader = view.group.tasks[position]
    if not order.is_sound or reader.hogwild:
        return
    for other, task in view.tasks.items():
        writes = {*task.flow.written_names(), *task.flow.inner.atomic, *task.flow.once.atomic}
        if name not in writes or view.scope(task, name) is not Scope.NODE or task.hogwild:
            continue
        if other == position and reader.nodes == (view.node,):
            message = f"task '{task.name}' writes '{name}', and pulls it from its own node"
            faults.error("E272", message, f"read '{name}' itself", spec_position)
        elif other == position:
            message = (
                f"task '{task.name}' races with itself on '{name}': on one node it writes it at "
                f"{task.find_write_position(name).path}, while on another it pulls it from there"
            )
            mend = (
                "pull it in a separate task that returns it as an output, and let this task need it"
            )
            faults.error("E272", message, mend, spec_position)
        elif not (order.is_before(other, position) or order.is_before(position, other)):
            message = (
                f"tasks '{task.name}' and '{reader.name}' race on '{name}' of node '{view.node}': "
                f"the one writes it at {task.find_write_position(name).path}, the other pulls it"
            )
            mend = f"order them, for example with needs: [{task.name}]"
            faults.error("E272", message, mend, spec_position)
            return
    if name in view.setup_uses.writes:
        message = f"set-up of node '{view.node}' writes '{name}', and the two are not ordered"
        faults.error("E272", message, "write it in a task that this one needs", spec_position)


def _note_missing(name: str, nodes: list[str], spec_position: SpecPosition, faults: Faults) -> None:
    shown = ", ".join(f"'{node}'" for node in nodes[:3]) + (" …" if len(nodes) > 3 else "")
    message = f"the global blob '{name}' may not exist on {shown} when it is pulled"
    mend = "make it in init, or in a task of a global group that this one needs"
    faults.error("E273", message, mend, spec_position)


def _note_setup_pull(spec_position: SpecPosition, faults: Faults) -> None:
    message = (
        "set-up around all tasks of a node cannot pull: tasks of other nodes do not wait for it"
    )
    faults.error("E272", message, "pull in a task", spec_position)
