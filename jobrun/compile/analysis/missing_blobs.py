"""Explain why a blob that is read may not exist there, and how to fix it; only on faults."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from jobrun.compile.analysis.queues import must_run_concurrently
from jobrun.compile.analysis.scopes import NodeView
from jobrun.compile.faults import Faults, SpecPosition
from jobrun.compile.job_draft.definite_assignment import FAILED
from jobrun.compile.job_draft.tasks_and_groups import GroupDraft, TaskDraft
from jobrun.core.codes import Code
from jobrun.core.text.names import did_you_mean, nearest
from jobrun.graph.expressions import BUILTINS
from jobrun.graph.types import GroupName

# Searching for the nearest name is slow, and of little use among so many.
_MOST_NAMES = 2_000


class _Explanation(NamedTuple):
    """The code, message and fix of the fault about a missing blob."""

    code: Code
    message: str
    mend: str


class MissingBlobs:
    """Reports blobs that are read and may not exist.

    Args:
        groups: All groups of the job.
        params: Names of the params.
        faults: Where to report.
    """

    def __init__(
        self, groups: Mapping[GroupName, GroupDraft], params: Mapping[str, object], faults: Faults
    ) -> None:
        self._groups = groups
        self._params = params
        self._faults = faults
        self._reported: set[tuple[str, SpecPosition]] = set()

    def report(
        self,
        view: NodeView,
        position: int | None,
        name: str,
        spec_position: SpecPosition,
        unsaved: frozenset[str],
    ) -> bool:
        """Report that a blob is missing; return whether the order of tasks is the cause.

        Args:
            view: The group on the node of the read.
            position: The position of the reading task; None for set-up and reports of the group.
            name: The blob.
            spec_position: The position of the read.
            unsaved: State of the node that is not checkpointed.
        """
        task = view.tasks[position] if position is not None else None
        if (name, spec_position) in self._reported or (
            task is not None and task.records.are_unknown
        ):
            # Report once for all nodes, and not at all if a record might bind the name.
            return False
        self._reported.add((name, spec_position))
        if name in self._made_on_no_node:
            # Its task has no node, which is reported already; fixing that fixes this.
            return False
        explanation = (
            self._explain_special(view, name, unsaved)
            or self._explain_own_task(task, name)
            or self._explain_other_task(view, task, position, name)
            or self._explain_other_workspace(view, task, name)
            or self._explain_unknown(view, task, name)
        )
        is_unordered = explanation.code == "E182"
        if is_unordered and not view.group.order.is_sound:
            return False
        self._faults.error(*explanation, spec_position, name.rsplit(":", 1)[-1])
        return is_unordered

    @staticmethod
    def _explain_special(view: NodeView, name: str, unsaved: frozenset[str]) -> _Explanation | None:
        if name == FAILED:
            message = "'failed' exists only in reports and in the exit part of set-up"
            return _Explanation("E180", message, "move the step there, or rename the blob")
        if ":" in name:
            plain_name = name.rsplit(":", 1)[1]
            return _Explanation(
                "E186",
                f"'{plain_name}' was not passed to the net, and may not be assigned before this "
                "step",
                f"add '{plain_name}' to the net's 'in', and pass a value where the net is used",
            )
        if name in unsaved:
            return _Explanation(
                "E184",
                f"'checkpoint.nodes' does not include node '{view.node}', so '{name}', which "
                f"init makes there, is deleted after init",
                f"add '{view.node}' to 'checkpoint.nodes'",
            )
        return None

    @staticmethod
    def _explain_own_task(task: TaskDraft | None, name: str) -> _Explanation | None:
        if task is None or name not in task.flow.written_names():
            return None
        write_position = task.find_write_position(name)
        return _Explanation(
            "E181",
            f"'{name}' may be read before it is assigned; the task assigns it at "
            f"{write_position.path}",
            "assign it earlier on every path: in each branch, and before a loop that may have "
            "no iteration",
        )

    def _explain_other_task(
        self, view: NodeView, task: TaskDraft | None, position: int | None, name: str
    ) -> _Explanation | None:
        """Explain a missing blob that another task on the node makes, but perhaps too late."""
        if view.shared_scope(name) is None:
            return None
        others = (other for other in self._writers.get(name, []) if other is not task)
        other = next((candidate for candidate in others if _runs_in(candidate, view)), None)
        if other is None:
            return None
        made_by = f"'{name}' is made by task '{other.name}'"
        if position is None or task is None:
            return _Explanation(
                "E182", f"{made_by}, and may not exist yet", "make it in the init of the set-up"
            )
        if task.rebuild and not other.rebuild:
            message = f"{made_by}, which does not run again on resume, unlike this task"
            mend = f"give '{other.name}' 'rebuild: true' too, or remove it from this one"
            return _Explanation("E182", message, mend)
        return _explain_order(view, position, other.position, made_by)

    def _explain_other_workspace(
        self, view: NodeView, task: TaskDraft | None, name: str
    ) -> _Explanation | None:
        """Explain a missing blob that only another task, node or group of tasks has."""
        others = (other for other in self._writers.get(name, []) if other is not task)
        for other in others:
            hand_over = f"give '{other.name}' outputs: [{name}] and read {other.name}.{name}"
            if view.node in other.nodes and not other.is_global:
                message = f"'{name}' is private to task '{other.name}', and is deleted when it ends"
                return _Explanation("E183", message, f"{suggest_state(other)}, or {hand_over}")
            if view.node not in other.nodes:
                message = f"'{name}' is a blob of node '{other.nodes[0]}', not of '{view.node}'"
                return _Explanation("E183", message, hand_over)
            if other.group != view.group.name:
                message = (
                    f"'{name}', which task '{other.name}' makes, is deleted at the end "
                    f"of '{other.group}'"
                )
                return _Explanation("E183", message, f"{suggest_state(other)}: that makes it state")
        return None

    def _explain_unknown(self, view: NodeView, task: TaskDraft | None, name: str) -> _Explanation:
        if name in self._params:
            return _Explanation(
                "E180", f"'{name}' is a param, not a blob", "assign its value to a blob first"
            )
        message = f"unknown blob '{name}'"
        if max(len(view.start), len(view.global_names)) > _MOST_NAMES:
            # Do not even collect the names: there may be as many faults as names.
            return _Explanation("E180", message, "assign it first")
        known = set(view.start) | view.global_names | view.group_names | set(self._params)
        if task is not None:
            known |= task.flow.written_names()
        # Names inside nets and positions of readers cannot be written in a spec.
        known = {candidate for candidate in known if ":" not in candidate and "/" not in candidate}
        builtin = nearest(name, [candidate for candidate in BUILTINS if "." not in candidate])
        if builtin is not None and nearest(name, known) is None:
            return _Explanation("E180", message, f"did you mean '{builtin}'?")
        return _Explanation("E180", message, did_you_mean(name, known))

    @cached_property
    def _made_on_no_node(self) -> frozenset[str]:
        tasks = (task for group in self._groups.values() for task in group.tasks)
        return frozenset(
            name for task in tasks if not task.nodes for name in task.flow.written_names()
        )

    @cached_property
    def _writers(self) -> dict[str, list[TaskDraft]]:
        writers: dict[str, list[TaskDraft]] = {}
        for group in self._groups.values():
            for task in group.tasks:
                # A field of a record is bound by the reading task itself.
                written = task.flow.written_names() - {*task.records.fields}
                for name in written if task.nodes else ():
                    writers.setdefault(name, []).append(task)
        return writers


def suggest_state(task: TaskDraft) -> str:
    """Suggest where to make a missing blob that is now private to another task."""
    if task.group == "init":
        return "make it in a global task without instances"
    return "make it in init"


def _runs_in(task: TaskDraft, view: NodeView) -> bool:
    return task.group == view.group.name and view.node in task.nodes


def _explain_order(view: NodeView, position: int, other: int, made_by: str) -> _Explanation:
    name = view.group.tasks[other].name
    order = view.group.order
    if order.is_before(position, other):
        return _Explanation(
            "E182", f"{made_by}, which waits for this task", "make it earlier, or reverse the needs"
        )
    if order.is_before(other, position):
        return _Explanation(
            "E182",
            f"{made_by}, which may end without it: it makes it on some paths only, or deletes it",
            "make it on every path through that task",
        )
    mend = f"write needs: [{name}]"
    if must_run_concurrently(view.group, other, position):
        mend = "a queue connects the two tasks: send it as a field of the records"
    return _Explanation("E182", f"{made_by}, which runs concurrently", mend)
