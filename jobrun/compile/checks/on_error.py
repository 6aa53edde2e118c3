"""Check tasks with ``on_error: warn``: after a failure no other task may see half of their work."""

from __future__ import annotations

from collections.abc import Iterator

from jobrun.compile.analysis.scopes import NodeView, find_write_place
from jobrun.compile.checks.visibility import strip_prefix
from jobrun.compile.faults import Faults, Place
from jobrun.compile.job_draft.draft import GroupDraft, TaskDraft
from jobrun.graph.types import Scope

_OWNERS = {Scope.NODE: "the node", Scope.GROUP: "the group run"}


def check_tolerant_writes(view: NodeView, faults: Faults) -> None:
    """Check that a task with ``on_error: warn`` writes no blob outside its private workspaces."""
    for task in view.tasks.values():
        if task.on_error == "warn":
            for name, scope in _shared_writes(view, task):
                faults.error(
                    "E122",
                    f"task '{task.name}' has 'on_error: warn', but writes "
                    f"'{strip_prefix(name)}', a blob of {_OWNERS[scope]}: a failure could leave "
                    f"it incomplete",
                    "use another blob name in a private workspace, or remove 'on_error'",
                    find_write_place(task, name),
                )


def check_tolerant_tasks(group: GroupDraft, faults: Faults) -> None:
    """Check that no task needs an ``on_error: warn`` task, and that such tasks have no outputs."""
    tolerant = {task.name for task in group.tasks if task.on_error == "warn"}
    for task in group.tasks:
        if task.name in tolerant and task.outputs:
            faults.error(
                "E122",
                f"task '{task.name}' has 'on_error: warn', so its output "
                f"'{task.outputs[0].name}' may not exist",
                "remove the outputs, or 'on_error'",
                Place(task.path, task.place.origin),
            )
        for need in task.needs:
            if need in tolerant:
                faults.error(
                    "E122",
                    f"task '{task.name}' needs '{need}', which has 'on_error: warn' and "
                    "may have failed",
                    f"remove the need, or 'on_error' of '{need}'",
                    Place(task.path, task.place.origin),
                )


def _shared_writes(view: NodeView, task: TaskDraft) -> Iterator[tuple[str, Scope]]:
    flow = task.flow
    all_uses = (flow.once, flow.inner, flow.reporting)
    touched = {name for one in all_uses for name in (*one.writes, *one.atomic, *one.deletes)}
    for name in sorted(touched):
        scope = view.scope(task, name)
        if scope in _OWNERS:
            yield name, scope
