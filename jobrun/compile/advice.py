"""Warnings about specs that compile and probably do not do what is meant; and empty groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from jobrun.compile.context import Context
from jobrun.compile.faults import Place
from jobrun.compile.groups import GroupDraft
from jobrun.compile.state import Left
from jobrun.compile.tasks import Draft
from jobrun.graph.conditions import CheckpointPolicy
from jobrun.graph.expr import Builtin
from jobrun.graph.query import walk
from jobrun.graph.steps import Load, RunProgram, Save
from jobrun.graph.types import GroupName
from jobrun.spec.models import JobSpec

_FETCHERS = re.compile(
    r"(?:^|[\s/;&|(])(?:curl|wget|rsync|scp|aws|gsutil|gcloud|rclone|kaggle|git\s+clone)(?:\s|$)"
)


def give_advice(
    context: Context, spec: JobSpec, groups: Mapping[GroupName, GroupDraft],
    kept: Mapping[str, Left], policy: CheckpointPolicy,
) -> None:  # fmt: skip
    """Note what is probably not meant."""
    if not groups["epoch"].tasks:
        key = "epoch" if "epoch" in spec.model_fields_set else ""
        place = Place("epoch", context.source.key((key,) if key else ()))
        context.faults.error("E139", "'epoch' has no task, so there is nothing to repeat",
                             "put the work of one epoch there", place)  # fmt: skip
    lent = {name for task in groups["epoch"].tasks for name in task.flow.lent()}
    if policy.enabled and not any(one.state or lent & {*one.callables} for one in kept.values()):
        place = Place("init", context.source.key(("init",)))
        context.faults.warn(
            "W132", "init makes no state, so a checkpoint holds nothing and a resumed run starts "
            "with nothing", "make the blobs that change from epoch to epoch in a task of init, or "
            "write checkpoint: none", place,
        )  # fmt: skip
    for task in groups["download"].tasks:
        if any(_fetches(task)):
            context.faults.warn(
                "W130", f"task '{task.name}' seems to fetch data, and 'download' runs once after "
                "the last epoch", "move the task to init; 'download' brings results together",
                task.place,
            )  # fmt: skip
    if policy.node_dir:
        _far_results(context, groups)
    _unused(context, spec, groups)


def _far_results(context: Context, groups: Mapping[GroupName, GroupDraft]) -> None:
    """Files in the run's directory, where nodes have no share of it."""
    for task in (task for group in groups.values() for task in group.tasks):
        if any(_writes_into_run(task)):
            context.faults.warn(
                "W139", f"task '{task.name}' writes into ${{run.dir}}, and with 'node_dir' that "
                "may be a directory of its node's own machine", "save on a node that is on the "
                "master's machine; pull or output what it needs there", task.place,
            )  # fmt: skip


def _writes_into_run(task: Draft) -> Iterator[bool]:
    for step in walk(task.steps):
        match step:
            case Save(files=files):
                yield not all(_is_input(file.path.parts) for file in files)
            case RunProgram(command=command):
                yield not all(_is_input(text.parts) for text in command)
            case _:
                pass


def _fetches(task: Draft) -> Iterator[bool]:
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
    """A file that the run itself did not write."""
    return not any(isinstance(part, Builtin) and part.name == "run.dir" for part in parts)


def _unused(context: Context, spec: JobSpec, groups: Mapping[GroupName, GroupDraft]) -> None:
    used = {node for group in groups.values() for task in group.tasks for node in task.nodes}
    used |= {net.node for group in groups.values() for net in group.remote}
    for family, declared in spec.nodes.items():
        count = declared.count
        members = [family] if count is None else [f"{family}_{i}" for i in range(count)]
        if used.isdisjoint(members):
            place = Place(f"nodes.{family}", context.source.key(("nodes", family)))
            context.faults.warn("W133", f"no task runs on node '{family}'", "take it out, or "
                                f"write node: {family} in a task", place)  # fmt: skip
