"""Loads a checkpoint on other nodes than it was saved on: readers, and state that is declared.

A node that does nothing but read has no state but its place in the data. When the nodes among
which a reader's rows are divided are others than before, each of them gets the positions of all:
with them it can tell which rows are left, and which of those are its own (``runtime.standing``).
Whether that can be exact is decided there. State that is declared to be divided, or the same on all
nodes, is put together and divided anew (``resizing``); any other state of a node is not made up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import numpy as np

from jobrun.checkpoint.hdf5 import read_state
from jobrun.checkpoint.plan import LOAD_TASK, checkpointed_blobs, load_group
from jobrun.checkpoint.store import Manifest
from jobrun.graph.data import ReadRecords, readers_in
from jobrun.graph.divided import FilePart
from jobrun.graph.expr import Call, Const, Dtype, Expr, Sequence
from jobrun.graph.steps import Assign, LoadState, NameTarget, Net
from jobrun.graph.types import Job, Scope, Task, TaskGroup
from jobrun.runner.progress import Progress, from_json
from jobrun.runner.resizing import adapted, resizing, unknown_constants

Positions = Mapping[str, np.ndarray[Any, Any]]


def load_divided(job: Job, manifest: Manifest, directory: str) -> TaskGroup:
    """As ``load_group``; nodes that are there anew begin with the positions of those before.

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
    moved = _positions(job, manifest, directory)
    parts = resizing(job, manifest, directory).parts
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
        _with_positions(
            plain.get(node) or _from_parts(node, parts.get(node, ()), manifest),
            {name: moved[name] for name in blobs[node] if name in moved},
        )
        for node in job.checkpoint.nodes
    )
    return TaskGroup(name="checkpoint", tasks=tasks, workspace="global")


def stood(
    job: Job, manifest: Manifest, directory: str
) -> tuple[Progress, TaskGroup, tuple[str, ...]]:
    """How the run stood at an epoch, the group that loads it, and constants not to be compared.

    Raises:
        CheckpointError: As by ``load_divided``; or the manifest does not say how it stood.
    """
    families = resizing(job, manifest, directory).families
    progress = adapted(from_json(manifest.runner), job, families)
    load = load_divided(job, manifest, directory)
    return progress, load, unknown_constants(progress, job, families)


def _from_parts(node: str, parts: tuple[FilePart, ...], manifest: Manifest) -> Task:
    step = LoadState(
        "", (), manifest.epoch, manifest.run_id, digest="", parts=parts, path=LOAD_TASK
    )
    return Task(LOAD_TASK, node, (step,), path=LOAD_TASK)


def _positions(job: Job, manifest: Manifest, directory: str) -> Positions:
    """What all nodes together know of each reader whose rows are divided among nodes."""
    names = [
        reader.position
        for task in (task for group in job.groups for task in group.tasks)
        if isinstance(task.read, ReadRecords) and task.read.reader.shard != "none"
        for reader in readers_in(task.read.reader)
    ]
    found: dict[str, list[Any]] = {}
    for file in manifest.files:
        values = read_state(
            str(PurePath(directory, file.name)), node=file.node, epoch=manifest.epoch,
            run_id=manifest.run_id, digest=file.digest, names=dict.fromkeys(names), partial=True,
        )  # fmt: skip
        for name, value in values.items():
            found.setdefault(name, []).append(value)
    return {name: np.concatenate(values) for name, values in found.items()}


def _with_positions(task: Task, positions: Positions) -> Task:
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
