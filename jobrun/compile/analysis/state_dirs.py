"""Analyse the state directories of programs (``state_dir``): blobs of state, empty before init."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jobrun.compile.analysis.state import KeptNames
from jobrun.compile.faults import Faults, Place
from jobrun.compile.job_draft.draft import GroupDraft
from jobrun.core.errors import Origin
from jobrun.core.lazy_dataclass import replace
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.expressions import Call, Const, Dtype, Sequence
from jobrun.graph.query import walk
from jobrun.graph.steps import Assign, NameTarget, Net, RunProgram, Step
from jobrun.graph.types import GroupName, NodeSetup, Scope, SetupNets, TaskGroup

# Node → blob of a state directory → the first step that uses it.
StateDirs = Mapping[str, Mapping[str, RunProgram]]
_SETUP = "state_dirs"


def find_state_dirs(groups: Mapping[GroupName, GroupDraft]) -> StateDirs:
    """Find by node the state directories (``state_dir``) that the programs of a job have."""
    found: dict[str, dict[str, RunProgram]] = {}
    for nodes, steps in _walk_job(groups):
        for step in walk(steps):
            if isinstance(step, RunProgram) and step.state_dir:
                for node in nodes:
                    found.setdefault(node, {}).setdefault(step.folders[0], step)
    return found


def add_state_dirs(kept: Mapping[str, KeptNames], state_dirs: StateDirs) -> dict[str, KeptNames]:
    """Add the state directories of programs to the state that each node keeps between epochs."""
    found = dict(kept)
    for node, blobs in state_dirs.items():
        one = found.get(node, KeptNames())
        found[node] = replace(one, state=tuple(sorted({*one.state, *blobs})))
    return found


def add_state_dir_setup(init: TaskGroup, state_dirs: StateDirs) -> TaskGroup:
    """Add set-up steps to init that create an empty state blob for each program's ``state_dir``."""
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
    """Remove from init the set-up steps that create the state blobs of programs' ``state_dir``."""
    return replace(init, setup=tuple(one for one in init.setup if one.nets.name != _SETUP))


def check_state_dirs(
    state_dirs: StateDirs, policy: CheckpointPolicy, saved_at: Origin, faults: Faults
) -> None:
    """Add a fault for each node that has a program's ``state_dir``, but no checkpoint."""
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
    """Yield all steps of a job's drafted groups with their nodes, to find state directories."""
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
