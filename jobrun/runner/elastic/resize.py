"""Plan how the state of an epoch is redistributed over another number of nodes, and load it.

Only what the job declares is put together and redistributed (``state`` in a spec); everything else
belongs to its node, and is refused with its place. Only reads; what is loaded is below.
Which nodes there were is seen by their files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import PurePath
from typing import Any

import numpy as np

from jobrun.checkpoint.checkpoint_file import read_state
from jobrun.checkpoint.hdf5.index_parser import BlobType
from jobrun.checkpoint.store import Manifest
from jobrun.checkpoint.task_groups import (
    LOAD_TASK,
    checkpointed_blobs,
    load_group,
    saved_settings,
)
from jobrun.core.errors import Fault
from jobrun.core.lazy_dataclass import dataclass, replace
from jobrun.graph.expressions import Call, Const, Dtype, Expr, Sequence
from jobrun.graph.readers import ReadRecords, readers_in
from jobrun.graph.steps import Assign, FilePart, LoadState, NameTarget, Net
from jobrun.graph.types import Job, Scope, Task, TaskGroup
from jobrun.runner.elastic.row_plan import Blob, FamilyPlan, ResizedFamily
from jobrun.runner.identity.drift import Change
from jobrun.runner.saved_progress import Progress, from_json

Positions = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True)
class ResizePlan:
    """How the state of an epoch is distributed over other nodes.

    Attributes:
        families: Those whose state is redistributed.
        parts: Per node of these, what it reads.
        types: Of the blobs that they will have, by node and name, where that is an array.
        faults: By family, why its state cannot be divided; then it is not among ``families``.
    """

    families: tuple[ResizedFamily, ...] = ()
    parts: Mapping[str, tuple[FilePart, ...]] = field(default_factory=dict)
    types: Mapping[Blob, BlobType] = field(default_factory=dict)
    faults: Mapping[str, tuple[Fault, ...]] = field(default_factory=dict)

    @property
    def nodes(self) -> frozenset[str]:
        """All nodes, old and new, of the families whose state the resize redistributes."""
        return frozenset(node for one in self.families for node in (*one.before, *one.after))


def plan_resize(
    job: Job, manifest: Manifest, directory: str, *, compare: bool = False
) -> ResizePlan:
    """Plan a resize: which rows of the saved state each node reads when there are more or fewer.

    Args:
        job: The job, perhaps on other nodes than before.
        manifest: Of the epoch.
        directory: Where its files are.
        compare: Read all copies of what is declared to be the same on all nodes, and see.

    Raises:
        CheckpointError: A file is missing or damaged.
    """
    plans = [
        FamilyPlan(job, family, manifest, directory, compare=compare)
        for family in _find_resized(job, manifest)
    ]
    for plan in plans:
        plan.make()
    good = [plan for plan in plans if not plan.faults and plan.layouts]
    return ResizePlan(
        tuple(replace(plan.family, layouts=tuple(plan.layouts.items())) for plan in good),
        {node: parts for plan in good for node, parts in plan.parts().items()},
        {blob: kind for plan in good for blob, kind in plan.types.items()},
        {plan.family.name: tuple(plan.faults) for plan in plans if plan.faults},
    )


def count_field(family: str) -> str:
    """Return ``nodes.FAMILY.count``, the spec field whose change means a resize of the family."""
    return f"nodes.{family}.count"


def mark_safe_counts(changes: tuple[Change, ...], found: ResizePlan) -> tuple[Change, ...]:
    """Mark drift of node counts as safe where a resize can redistribute the nodes' state."""
    fields = {count_field(one.name) for one in found.families}
    return tuple(
        replace(change, kind="declared safe") if change.field in fields else change
        for change in changes
    )


def refuse_mid_epoch(found: ResizePlan, epoch: int) -> ResizePlan:
    """Add a fault for each family to a resize plan: within an epoch none can be resized."""
    text = f"epoch {epoch} is saved between two of its records, where nodes cannot be others"
    mend = f"continue from the whole epoch before: --epoch {epoch - 1}; or keep the count"
    faults = {
        one.name: (Fault("E387", text, mend, path=count_field(one.name)),) for one in found.families
    }
    return ResizePlan(faults={**found.faults, **faults})


def adapt_progress(progress: Progress, job: Job, families: Iterable[ResizedFamily]) -> Progress:
    """Adapt the progress restored from an epoch to the nodes that the resized run has now.

    What constants were is known of those that were the same everywhere, or are declared to be;
    parts of something are others now, and are not compared.
    """
    layouts = {one.name: one.layout for one in job.layouts}
    constants, made = dict(progress.constants), dict(job.constants)
    for family in families:
        names = {name for node in family.after for name in made.get(node, ())}
        for name in sorted(names):
            old = [constants.pop(f"{node}.{name}", "") for node in family.before]
            # One of one node may be a part, as well as the whole.
            alike = len(set(old)) == 1 and min(len(old), len(family.after)) > 1
            same = layouts.get(name) == "replicated" or (alike and name not in layouts)
            for node in family.after if same and old[:1] != [""] else ():
                constants[f"{node}.{name}"] = old[0]
    there = {node.name for node in job.cluster}
    outputs = {ref: value for ref, value in progress.outputs.items() if ref.node in there}
    return replace(progress, constants=constants, outputs=outputs)


def unknown_constants(
    progress: Progress, job: Job, families: Iterable[ResizedFamily]
) -> tuple[str, ...]:
    """List constants on nodes that a resize adds, for which no digest was recorded to compare."""
    made = dict(job.constants)
    return tuple(
        f"constants.{node}.{name}"
        for family in families
        for node in family.after
        for name in made.get(node, ())
        if f"{node}.{name}" not in progress.constants
    )


def _find_resized(job: Job, manifest: Manifest) -> Iterator[ResizedFamily]:
    """Yield a ``ResizedFamily`` for each family with other nodes than the saved files are of."""
    known = {node.name: node.family or node.name for node in job.cluster}
    names = set(known.values())
    saved = [file.node for file in manifest.files]
    for family in dict.fromkeys(known.values()):
        now = tuple(node for node in job.checkpoint.nodes if known.get(node) == family)
        before = sorted(
            (_index(node, family), node)
            for node in saved
            if known.get(node, _family_of(node, names)) == family
        )
        if before and now and {node for _, node in before} != set(now):
            yield ResizedFamily(family, tuple(node for _, node in before), now)


def _family_of(node: str, names: set[str]) -> str:
    """Return the family (a ``nodes`` entry with ``count``) of a node that a resize may remove."""
    match = re.fullmatch(r"(.+)_\d+", node)
    return match[1] if node not in names and match and match[1] in names else node


def _index(node: str, family: str) -> int:
    return 0 if node == family else int(node.rpartition("_")[2])


def load_repartitioned(job: Job, manifest: Manifest, directory: str) -> TaskGroup:
    """Build the group that loads an epoch for a resize, redistributed over the present nodes.

    Args:
        job: The job, perhaps on other nodes than before.
        manifest: Of the epoch.
        directory: Where its files are.

    Raises:
        CheckpointError: The epoch has no file of a node that has other state; or damage.
    """
    there = {file.node for file in manifest.files}
    if there == set(job.checkpoint.nodes):
        return load_group(job, manifest, directory)
    moved = _read_positions(job, manifest, directory)
    parts = plan_resize(job, manifest, directory).parts
    if not moved and not parts:
        return load_group(job, manifest, directory)
    blobs = checkpointed_blobs(job)
    loading = tuple(
        node
        for node in job.checkpoint.nodes
        if node not in parts and (node in there or set(blobs[node]) - moved.keys())
    )
    fewer = replace(job, checkpoint=replace(job.checkpoint, nodes=loading))
    plain = {task.node: task for task in load_group(fewer, manifest, directory).tasks}
    tasks = tuple(
        _add_positions(
            plain.get(node) or _build_load_task(node, parts.get(node, ()), manifest),
            {name: moved[name] for name in blobs[node] if name in moved},
        )
        for node in job.checkpoint.nodes
    )
    return TaskGroup(name="checkpoint", tasks=tasks, workspace="global")


def restore_progress(
    job: Job, manifest: Manifest, directory: str
) -> tuple[Progress, TaskGroup, tuple[str, ...]]:
    """Restore an epoch on resized nodes; return progress, load group, and constants of new nodes.

    Raises:
        CheckpointError: As by ``load_repartitioned``; or the manifest has no progress.
    """
    families = plan_resize(job, manifest, directory).families
    progress = adapt_progress(from_json(manifest.runner), job, families)
    load = load_repartitioned(job, manifest, directory)
    return progress, load, unknown_constants(progress, job, families)


def _build_load_task(node: str, parts: tuple[FilePart, ...], manifest: Manifest) -> Task:
    step = LoadState(
        "",
        (),
        manifest.epoch,
        manifest.run_id,
        digest="",
        parts=parts,
        path=LOAD_TASK,
        settings=saved_settings(manifest, node),
    )
    return Task(LOAD_TASK, node, (step,), path=LOAD_TASK)


def _read_positions(job: Job, manifest: Manifest, directory: str) -> Positions:
    """Read the positions of readers, from all nodes' files, that a resize must redistribute."""
    names = [
        reader.position
        for task in (task for group in job.groups for task in group.tasks)
        if isinstance(task.read, ReadRecords) and task.read.reader.shard != "none"
        for reader in readers_in(task.read.reader)
    ]
    found: dict[str, list[Any]] = {}
    for file in manifest.files:
        values = read_state(
            str(PurePath(directory, file.name)),
            node=file.node,
            epoch=manifest.epoch,
            run_id=manifest.run_id,
            digest=file.digest,
            names=dict.fromkeys(names),
            partial=True,
        )
        for name, value in values.items():
            found.setdefault(name, []).append(value)
    return {name: np.concatenate(values) for name, values in found.items()}


def _add_positions(task: Task, positions: Positions) -> Task:
    if not positions:
        return task
    ops = tuple(
        Assign((NameTarget(name),), _literal(value), LOAD_TASK) for name, value in positions.items()
    )
    scopes = tuple((name, Scope.NODE) for name in positions)
    return replace(task, steps=(*task.steps, Net(ops)), scopes=(*task.scopes, *scopes))


def _literal(blob: np.ndarray[Any, Any]) -> Expr:
    rows = tuple(Sequence(tuple(Const(one) for one in row)) for row in blob.tolist())
    return Call("array", (Sequence(rows),), (("dtype", Dtype("int64")),))
