"""What ``pull`` steps read on other nodes is there, and nobody writes it meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jobrun.compile.faults import Faults, Place
from jobrun.compile.groups import GroupDraft
from jobrun.compile.scopes import NodeView, place_of
from jobrun.compile.tasks import Draft
from jobrun.graph.query import walk
from jobrun.graph.steps import Pull, Step
from jobrun.graph.types import Scope

# A name, the nodes it is read on, and where.
_Read = tuple[str, tuple[str, ...], Place]


def check_pulls(
    group: GroupDraft,
    views: Mapping[str, NodeView],
    start: Mapping[str, frozenset[str]],
    faults: Faults,
) -> None:
    """Note every pull of what may not be there, or may change while it is read.

    Args:
        group: The group.
        views: It, on each of its nodes.
        start: Per node, the names of its global workspace when the group starts.
        faults: Where to note them.
    """
    around = [steps for one in group.setups.values() for s in one for steps in (s.init, s.exit)]
    around += [report.steps for one in group.reports.values() for report in one]
    for _, _, place in dict.fromkeys(read for steps in around for read in _reads(steps)):
        _refuse_around(place, faults)
    for position, task in enumerate(group.tasks):
        for name, nodes, place in _reads_of(task):
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
                _tell_missing(name, missing, place, faults)


def _reads_of(task: Draft) -> Iterator[_Read]:
    around = (*task.setup, *task.instance_setup)
    for steps in (
        task.steps,
        *(part for one in around for part in (one.init, one.exit)),
        *(report.steps for report in task.reports),
    ):
        yield from _reads(steps)


def _reads(steps: tuple[Step, ...]) -> Iterator[_Read]:
    for step in walk(steps):
        if isinstance(step, Pull):
            for one in step.blobs:
                yield one.name, one.nodes, Place(step.path, step.origin)


def _is_made_before(view: NodeView, position: int, name: str, reader: Draft) -> bool:
    """Whether a task that has certainly ended leaves the name on the node."""
    order = view.group.order
    return name in view.global_names and any(
        name in task.flow.made()
        and order.is_before(maker, position)
        # What is rebuilt at a resume cannot use what is not.
        and (task.spec.rebuild or not reader.spec.rebuild)
        for maker, task in view.tasks.items()
    )


def _check_race(view: NodeView, position: int, name: str, place: Place, faults: Faults) -> None:
    order = view.group.order
    reader = view.group.tasks[position]
    if not order.is_sound or reader.spec.hogwild:
        return
    for other, task in view.tasks.items():
        writes = {*task.flow.made(), *task.flow.inner.atomic, *task.flow.once.atomic}
        if name not in writes or view.scope(task, name) is not Scope.NODE or task.spec.hogwild:
            continue
        if other == position and reader.nodes == (view.node,):
            message = f"task '{task.name}' writes '{name}', and pulls it from its own node"
            faults.error("E272", message, f"read '{name}' itself", place)
        elif other == position:
            message = (
                f"task '{task.name}' races with itself on '{name}': on one node it writes it at "
                f"{place_of(task, name).path}, while on another it pulls it from there"
            )
            mend = "pull it in a task of its own, which gives it out, and which this one needs"
            faults.error("E272", message, mend, place)
        elif not (order.is_before(other, position) or order.is_before(position, other)):
            message = (
                f"tasks '{task.name}' and '{reader.name}' race on '{name}' of node '{view.node}': "
                f"the one writes it at {place_of(task, name).path}, the other pulls it"
            )
            mend = f"let one wait for the other, for example needs: [{task.name}]"
            faults.error("E272", message, mend, place)
            return
    if name in view.around.writes:
        message = f"set-up of node '{view.node}' writes '{name}', and nothing orders the two"
        faults.error("E272", message, "write it in a task that this one needs", place)


def _tell_missing(name: str, nodes: list[str], place: Place, faults: Faults) -> None:
    shown = ", ".join(f"'{node}'" for node in nodes[:3]) + (" …" if len(nodes) > 3 else "")
    faults.error(
        "E273", f"there may be no global blob '{name}' on {shown} when it is pulled",
        "make it in init, or in a task of a global group that this one needs", place,
    )  # fmt: skip


def _refuse_around(place: Place, faults: Faults) -> None:
    faults.error(
        "E272", "what runs around all tasks of a node cannot pull: tasks of others do not wait",
        "pull in a task", place,
    )  # fmt: skip
