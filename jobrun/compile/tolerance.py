"""Tasks whose failure is only told: refused where half of their work could be seen by others."""

from __future__ import annotations

from collections.abc import Iterator

from jobrun.compile.faults import Faults, Place
from jobrun.compile.groups import GroupDraft
from jobrun.compile.scopes import NodeView, place_of
from jobrun.compile.tasks import Draft
from jobrun.compile.visible import shown
from jobrun.graph.types import Scope

_OWNERS = {Scope.NODE: "the node", Scope.GROUP: "the group run"}


def check_tolerance(view: NodeView, faults: Faults) -> None:
    """Note what a task with ``on_error: warn`` writes that outlives it on a node."""
    for task in view.tasks.values():
        if task.spec.on_error == "warn":
            for name, scope in _shared(view, task):
                faults.error(
                    "E122", f"task '{task.name}' has 'on_error: warn', and writes '{shown(name)}', "
                    f"a blob of {_OWNERS[scope]}: a failure could leave it half made",
                    "write to a blob of another name in a private workspace, or take 'on_error' "
                    "out", place_of(task, name),
                )  # fmt: skip


def check_tolerant_tasks(group: GroupDraft, faults: Faults) -> None:
    """Note outputs of such tasks, and tasks that need them: after a failure there is nothing."""
    tolerant = {task.name for task in group.tasks if task.spec.on_error == "warn"}
    for task in group.tasks:
        if task.name in tolerant and task.outputs:
            faults.error(
                "E122", f"task '{task.name}' has 'on_error: warn', so its output "
                f"'{task.outputs[0].name}' may not be there", "leave the outputs out, or "
                "'on_error'", Place(task.path, task.place.origin),
            )  # fmt: skip
        for need in task.spec.needs:
            if need in tolerant:
                faults.error(
                    "E122", f"task '{task.name}' needs '{need}', which has 'on_error: warn' and "
                    "may have failed", f"leave out the need, or 'on_error' of '{need}'",
                    Place(task.path, task.place.origin),
                )  # fmt: skip


def _shared(view: NodeView, task: Draft) -> Iterator[tuple[str, Scope]]:
    flow = task.flow
    ledgers = (flow.once, flow.inner, flow.reporting)
    touched = {
        name for one in ledgers for name in (*one.writes, *one.atomic, *one.deletes)
    }  # fmt: skip
    for name in sorted(touched):
        scope = view.scope(task, name)
        if scope in _OWNERS:
            yield name, scope
