"""Check that what ``pull`` steps read on other nodes exists, and is not written meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jobrun.compile.analysis.scopes import NodeView, find_write_place
from jobrun.compile.faults import Faults, Place
from jobrun.compile.job_draft.draft import GroupDraft, TaskDraft
from jobrun.graph.query import walk
from jobrun.graph.steps import Pull, Step
from jobrun.graph.types import Scope

# A blob, the nodes it is pulled from, and the place of the pull.
_Pulled = tuple[str, tuple[str, ...], Place]


def check_pulls(
    group: GroupDraft,
    views: Mapping[str, NodeView],
    start: Mapping[str, frozenset[str]],
    faults: Faults,
) -> None:
    """Check every ``pull``: its blob exists on the source node, and no task writes it meanwhile.

    Args:
        group: The group.
        views: The group on each of its nodes.
        start: Per node, the names of its global workspace when the group starts.
        faults: Collects what is wrong.
    """
    around = [steps for one in group.setups.values() for s in one for steps in (s.init, s.exit)]
    around += [report.steps for one in group.reports.values() for report in one]
    for _, _, place in dict.fromkeys(read for steps in around for read in _pulls(steps)):
        _note_setup_pull(place, faults)
    for position, task in enumerate(group.tasks):
        if task.has_operators_only:
            continue
        for name, nodes, place in _task_pulls(task):
            missing = []
            for node in nodes:
                view = views.get(node)
                if name not in start.get(node, frozenset()) and not (
                    view is not None and _is_made_before(view, position, name, task)
                ):
                    missing.append(node)
                elif view is not None:
                    _check_race(view, position, name, place, faults)
            if missing:
                _note_missing(name, missing, place, faults)


def _task_pulls(task: TaskDraft) -> Iterator[_Pulled]:
    around = (*task.setup, *task.instance_setup)
    for steps in (
        task.steps,
        *(part for one in around for part in (one.init, one.exit)),
        *(report.steps for report in task.reports),
    ):
        yield from _pulls(steps)


def _pulls(steps: tuple[Step, ...]) -> Iterator[_Pulled]:
    for step in walk(steps):
        if isinstance(step, Pull):
            for one in step.blobs:
                yield one.name, one.nodes, Place(step.path, step.origin)


def _is_made_before(view: NodeView, position: int, name: str, reader: TaskDraft) -> bool:
    """Return whether a task that ends before a ``pull`` certainly makes the pulled blob."""
    order = view.group.order
    return name in view.global_names and any(
        name in task.flow.made()
        and order.is_before(maker, position)
        # A task that runs again on resume cannot use what one that does not has made.
        and (task.rebuild or not reader.rebuild)
        for maker, task in view.tasks.items()
    )


def _check_race(view: NodeView, position: int, name: str, place: Place, faults: Faults) -> None:
    order = view.group.order
    reader = view.group.tasks[position]
    if not order.is_sound or reader.hogwild:
        return
    for other, task in view.tasks.items():
        writes = {*task.flow.made(), *task.flow.inner.atomic, *task.flow.once.atomic}
        if name not in writes or view.scope(task, name) is not Scope.NODE or task.hogwild:
            continue
        if other == position and reader.nodes == (view.node,):
            message = f"task '{task.name}' writes '{name}', and pulls it from its own node"
            faults.error("E272", message, f"read '{name}' itself", place)
        elif other == position:
            message = (
                f"task '{task.name}' races with itself on '{name}': on one node it writes it at "
                f"{find_write_place(task, name).path}, while on another it pulls it from there"
            )
            mend = (
                "pull it in a separate task that returns it as an output, and let this task need it"
            )
            faults.error("E272", message, mend, place)
        elif not (order.is_before(other, position) or order.is_before(position, other)):
            message = (
                f"tasks '{task.name}' and '{reader.name}' race on '{name}' of node '{view.node}': "
                f"the one writes it at {find_write_place(task, name).path}, the other pulls it"
            )
            mend = f"order them, for example with needs: [{task.name}]"
            faults.error("E272", message, mend, place)
            return
    if name in view.around.writes:
        message = f"set-up of node '{view.node}' writes '{name}', and the two are not ordered"
        faults.error("E272", message, "write it in a task that this one needs", place)


def _note_missing(name: str, nodes: list[str], place: Place, faults: Faults) -> None:
    strip_prefix = ", ".join(f"'{node}'" for node in nodes[:3]) + (" …" if len(nodes) > 3 else "")
    faults.error(
        "E273",
        f"the global blob '{name}' may not exist on {strip_prefix} when it is pulled",
        "make it in init, or in a task of a global group that this one needs",
        place,
    )


def _note_setup_pull(place: Place, faults: Faults) -> None:
    faults.error(
        "E272",
        "set-up around all tasks of a node cannot pull: tasks of other nodes do not wait for it",
        "pull in a task",
        place,
    )
