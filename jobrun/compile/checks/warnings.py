"""Warn about jobs that compile but probably do not do what was intended.

Such as a data file that is saved more than once, so that one save replaces another's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jobrun.compile.analysis.state import KeptNames
from jobrun.compile.faults import Faults, SpecPosition
from jobrun.compile.job_draft.tasks_and_groups import GroupDraft, Groups, JobDraft, TaskDraft
from jobrun.core.text.patterns import lazy_pattern
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.expression_text import render_text
from jobrun.graph.expressions import Builtin
from jobrun.graph.query import walk
from jobrun.graph.steps import Load, RunProgram, Save
from jobrun.graph.types import GroupName, Node

_FETCHERS = lazy_pattern(
    r"(?:^|[\s/;&|(])(?:curl|wget|rsync|scp|aws|gsutil|gcloud|rclone|kaggle|git\s+clone)(?:\s|$)"
)
# Placeholders that differ between the nodes, and between the instances, of one task.
_BY_NODE, _BY_INSTANCE = "node.name", "instance"


def warn_of_mistakes(
    draft: JobDraft,
    names_by_node: Mapping[str, KeptNames],
    policy: CheckpointPolicy,
    faults: Faults,
) -> None:
    """Warn of probable mistakes in a job that compiles, such as no state or a node never used.

    Args:
        draft: The job.
        names_by_node: Names that exist at each epoch boundary, by node.
        policy: The checkpoint policy.
        faults: Collects the warnings.
    """
    groups = draft.groups
    lent = {name for task in groups["epoch"].tasks for name in task.flow.lent()}
    if policy.enabled and not any(
        names.state or lent & names.callables for names in names_by_node.values()
    ):
        spec_position = SpecPosition("init", groups["init"].origin)
        faults.warn(
            "W132",
            "init makes no state, so checkpoints are empty and a resumed run starts without data",
            "make the blobs that change between epochs in a task of init, "
            "or write checkpoint: none",
            spec_position,
        )
    for task in groups["download"].tasks:
        if any(_fetches(task)):
            faults.warn(
                "W130",
                f"task '{task.name}' seems to fetch data, but 'download' runs once, "
                f"after the last epoch",
                "move the task to init; 'download' collects results",
                task.spec_position,
            )
    if policy.node_dir:
        _warn_of_remote_results(groups, faults)
    _warn_of_unused_nodes(draft, faults)


def _warn_of_remote_results(groups: Groups, faults: Faults) -> None:
    """Warn of a probable mistake: a node writes to a ``${run.dir}`` on another machine."""
    for task in (task for group in groups.values() for task in group.tasks):
        if any(_writes_into_run(task)):
            faults.warn(
                "W139",
                f"task '{task.name}' writes into ${{run.dir}}, which with 'node_dir' "
                f"may be a local directory on the node's machine",
                "save on a node on the master's machine, and pull the values there",
                task.spec_position,
            )


def _writes_into_run(task: TaskDraft) -> Iterator[bool]:
    for step in walk(task.steps):
        match step:
            case Save(files=files):
                yield not all(_is_input(file.path.parts) for file in files)
            case RunProgram(command=command):
                yield not all(_is_input(text.parts) for text in command)
                yield any("JOBRUN_RUN_PATH" in str(part) for text in command for part in text.parts)
            case _:
                pass


def _fetches(task: TaskDraft) -> Iterator[bool]:
    for step in walk(task.steps):
        match step:
            case Load(files=files):
                yield any(_is_input(file.path.parts) for file in files)
            case RunProgram(command=command):
                words = " ".join(
                    part for text in command for part in text.parts if isinstance(part, str)
                )
                yield _FETCHERS.search(words) is not None
            case _:
                pass


def _is_input(parts: tuple[object, ...]) -> bool:
    """Return whether a step's file is outside ``${run.dir}``, to warn of mistakes."""
    return not any(isinstance(part, Builtin) and part.name == "run.dir" for part in parts)


def _warn_of_unused_nodes(draft: JobDraft, faults: Faults) -> None:
    used = {node for group in draft.groups.values() for node in group.nodes()}
    used |= {net.node for group in draft.groups.values() for net in group.remote}
    families: dict[str, list[Node]] = {}
    for node in draft.job.cluster:
        families.setdefault(node.family, []).append(node)
    for family, members in families.items():
        if used.isdisjoint(node.name for node in members):
            spec_position = SpecPosition(f"nodes.{family}", members[0].origin)
            mend = f"remove it, or write node: {family} in a task"
            faults.warn("W133", f"no task runs on node '{family}'", mend, spec_position)


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
