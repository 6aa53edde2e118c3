"""Folders of programs as state: which node keeps which, and that init starts with them empty.

A ``run`` step with ``state_dir`` reads and binds a state blob of its node, the folder's content.
No task makes it: it is there, empty, before init, and comes back with the checkpoint after that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from jobrun.compile.faults import Faults, Place
from jobrun.compile.groups import GroupDraft
from jobrun.compile.state import Left
from jobrun.core.origin import Origin
from jobrun.graph.conditions import CheckpointPolicy
from jobrun.graph.expr import Call, Const, Dtype, Sequence
from jobrun.graph.query import walk
from jobrun.graph.steps import Assign, NameTarget, Net, RunProgram, Step
from jobrun.graph.types import GroupName, NodeSetup, Scope, SetupNets, TaskGroup

# Per node the blobs that keep folders there, each with the first step that uses it.
StateDirs = Mapping[str, Mapping[str, RunProgram]]
_SETUP = "state_dirs"


def state_dirs_of(groups: Mapping[GroupName, GroupDraft]) -> StateDirs:
    """The folders of programs that a job keeps."""
    found: dict[str, dict[str, RunProgram]] = {}
    for nodes, steps in _everywhere(groups):
        for step in walk(steps):
            if isinstance(step, RunProgram) and step.state_dir:
                for node in nodes:
                    found.setdefault(node, {}).setdefault(step.folders[0], step)
    return found


def with_state_dirs(kept: Mapping[str, Left], state_dirs: StateDirs) -> dict[str, Left]:
    """What is there at each epoch boundary, the folders of programs included."""
    found = dict(kept)
    for node, blobs in state_dirs.items():
        one = found.get(node, Left())
        found[node] = replace(one, state=tuple(sorted({*one.state, *blobs})))
    return found


def with_empty_state_dirs(init: TaskGroup, state_dirs: StateDirs) -> TaskGroup:
    """Init, which starts with an empty folder for each."""
    setups = tuple(
        NodeSetup(
            node,
            SetupNets((Net(tuple(_empty(*one) for one in blobs.items())),), (), _SETUP),
            tuple((blob, Scope.NODE) for blob in blobs),
        )
        for node, blobs in state_dirs.items()
    )
    return replace(init, setup=(*setups, *init.setup))


def without_empty_state_dirs(init: TaskGroup) -> TaskGroup:
    """Init as it was written."""
    return replace(init, setup=tuple(one for one in init.setup if one.nets.name != _SETUP))


def check_state_dirs(
    state_dirs: StateDirs, policy: CheckpointPolicy, saved_at: Origin, faults: Faults
) -> None:
    """Note folders on nodes that are not saved."""
    for node, blobs in state_dirs.items():
        if node not in policy.nodes:
            name = next(iter(blobs.values())).state_dir
            faults.error(
                "E120", f"'{node}' holds the 'state_dir' {name} of a program, and is not among the "
                "nodes that are saved", f"add '{node}'", Place("checkpoint.nodes", saved_at),
            )  # fmt: skip


def _empty(blob: str, step: RunProgram) -> Assign:
    value = Call("zeros", (Sequence((Const(0),)),), (("dtype", Dtype("uint8")),))
    return Assign((NameTarget(blob),), value, step.path, step.origin)


def _everywhere(
    groups: Mapping[GroupName, GroupDraft],
) -> Iterator[tuple[tuple[str, ...], tuple[Step, ...]]]:
    """All steps of a job, with the nodes they run on."""
    for group in groups.values():
        for task in group.tasks:
            yield task.nodes, task.steps
            for nets in (*task.setup, *task.instance_setup):
                yield task.nodes, (*nets.init, *nets.exit)
            for report in task.reports:
                yield task.nodes, report.steps
        for node, setups in group.setups.items():
            for nets in setups:
                yield (node,), (*nets.init, *nets.exit)
        for node, reports in group.reports.items():
            for report in reports:
                yield (node,), report.steps
