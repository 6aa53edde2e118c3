"""Warn of data files that are saved more than once, so that one save replaces another's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jobrun.compile.faults import Faults
from jobrun.compile.job_draft.tasks_and_groups import GroupDraft, TaskDraft
from jobrun.graph.expression_text import render_text
from jobrun.graph.expressions import Builtin
from jobrun.graph.query import walk
from jobrun.graph.steps import Save
from jobrun.graph.types import GroupName

# Placeholders that differ between the nodes, and between the instances, of one task.
_BY_NODE, _BY_INSTANCE = "node.name", "instance"


def warn_of_replaced_files(groups: Mapping[GroupName, GroupDraft], faults: Faults) -> None:
    """Warn of data files of which a later save replaces what another one has written.

    To save the same members of a file again, in a later group or task, is a way to keep the newest.
    """
    seen: dict[str, tuple[str, GroupName, str, frozenset[str]]] = {}
    for group in groups.values():
        for task, step in _walk_saves(group):
            for path, members in _members(step).items():
                other = seen.setdefault(path, (step.path, group.name, task.name, members))
                at_once = other[1:3] != (group.name, task.name) and other[1] == group.name
                if other[0] != step.path and (other[3] != members or at_once):
                    faults.warn(
                        "W145",
                        f"{path} is saved at {other[0]} too, and each save replaces the whole file",
                        "save all members of a file in one step, or use files of their own",
                        step,
                    )
            _warn_of_copies(task, step, faults)


def _warn_of_copies(task: TaskDraft, step: Save, faults: Faults) -> None:
    """Warn of a file to which all nodes, or all instances, of a task save."""
    for file in step.files:
        varying = {part.name for part in file.path.parts if isinstance(part, Builtin)}
        for count, name, noun in (
            (len(task.nodes), _BY_NODE, "nodes"),
            (task.instances, _BY_INSTANCE, "instances"),
        ):
            if count > 1 and name not in varying:
                word = name.partition(".")[0]
                message = (
                    f"{count} {noun} save {render_text(file.path)}, and each save replaces the "
                    f"whole file"
                )
                faults.warn("W145", message, f"write ${{{word}}} in the path", step)


def _walk_saves(group: GroupDraft) -> Iterator[tuple[TaskDraft, Save]]:
    for task in group.tasks:
        for steps in task.step_lists():
            for step in walk(steps):
                if isinstance(step, Save):
                    yield task, step


def _members(step: Save) -> dict[str, frozenset[str]]:
    members: dict[str, set[str]] = {}
    for file in step.files:
        members.setdefault(render_text(file.path), set()).add(file.member)
    return {path: frozenset(names) for path, names in members.items()}
