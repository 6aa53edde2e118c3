"""Treat the ``state_dir`` of programs as state: which node has which, empty at first.

A ``run`` step with ``state_dir`` reads and binds a state blob of its node, the content of the
directory. No task makes it: it exists, empty, before init, and is restored from checkpoints later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from jobrun.compile.analysis.state import KeptNames
from jobrun.compile.faults import Faults, Place
from jobrun.compile.job_draft.draft import GroupDraft
from jobrun.core.origin import Origin
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.expressions import Call, Const, Dtype, Sequence
from jobrun.graph.step_traversal import walk
from jobrun.graph.steps import Assign, NameTarget, Net, RunProgram, Step
from jobrun.graph.types import GroupName, NodeSetup, Scope, SetupNets, TaskGroup

# Node → blob of a state directory → the first step that uses it.
StateDirs = Mapping[str, Mapping[str, RunProgram]]
_SETUP = "state_dirs"


def find_state_dirs(groups: Mapping[GroupName, GroupDraft]) -> StateDirs:
    """Find the state directories of a job's programs, per node."""
    found: dict[str, dict[str, RunProgram]] = {}
    for nodes, steps in _walk_job(groups):
        for step in walk(steps):
            if isinstance(step, RunProgram) and step.state_dir:
                for node in nodes:
                    found.setdefault(node, {}).setdefault(step.folders[0], step)
    return found


def add_state_dirs(kept: Mapping[str, KeptNames], state_dirs: StateDirs) -> dict[str, KeptNames]:
    """Add the state directories of programs to the state at epoch boundaries."""
    found = dict(kept)
    for node, blobs in state_dirs.items():
        one = found.get(node, KeptNames())
        found[node] = replace(one, state=tuple(sorted({*one.state, *blobs})))
    return found


def add_state_dir_setup(init: TaskGroup, state_dirs: StateDirs) -> TaskGroup:
    """Add to init, as set-up, the creation of each program's ``state_dir``, empty at first."""
    setups = tuple(
        NodeSetup(
            node,
            SetupNets((Net(tuple(_build_empty(*one) for one in blobs.items())),), (), _SETUP),
            tuple((blob, Scope.NODE) for blob in blobs),
        )
        for node, blobs in state_dirs.items()
    )
    return replace(init, setup=(*setups, *init.setup))


def remove_state_dir_setup(init: TaskGroup) -> TaskGroup:
    """Remove from init the set-up that makes state directories."""
    return replace(init, setup=tuple(one for one in init.setup if one.nets.name != _SETUP))


def check_state_dirs(
    state_dirs: StateDirs, policy: CheckpointPolicy, saved_at: Origin, faults: Faults
) -> None:
    """Report each ``state_dir`` of a program as a fault of the job where its node is not saved."""
    for node, blobs in state_dirs.items():
        if node not in policy.nodes:
            name = next(iter(blobs.values())).state_dir
            faults.error(
                "E120",
                f"'{node}' holds the 'state_dir' {name} of a program, but is not checkpointed",
                f"add '{node}'",
                Place("checkpoint.nodes", saved_at),
            )


def _build_empty(blob: str, step: RunProgram) -> Assign:
    value = Call("zeros", (Sequence((Const(0),)),), (("dtype", Dtype("uint8")),))
    return Assign((NameTarget(blob),), value, step.path, step.origin)


def _walk_job(
    groups: Mapping[GroupName, GroupDraft],
) -> Iterator[tuple[tuple[str, ...], tuple[Step, ...]]]:
    """Yield all steps of a job with the nodes they run on, to find state directories."""
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
