"""Saving and loading as ordinary task groups: which tasks, on which nodes. Pure; no disk.

A session runs them as it runs any group, so a node's file is written and read where the
node lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from jobrun.checkpoint.store import Manifest
from jobrun.core.errors import CheckpointError
from jobrun.core.names import did_you_mean
from jobrun.graph.expr import Name
from jobrun.graph.steps import LoadState, SaveState
from jobrun.graph.types import Job, Output, Scope, Task, TaskGroup

# A slash: no task of a spec can have such a name.
SAVE_TASK = "checkpoint/save"
LOAD_TASK = "checkpoint/load"
FILE_OUTPUT = "file"


def file_name(node: str) -> str:
    """The name of a node's file in an epoch's directory."""
    return f"{node}.h5"


def save_group(job: Job, epoch: int, staged: str, run_id: str) -> TaskGroup:
    """Write the state of every checkpointed node into the directory ``staged``.

    The output ``file`` of each task is the ``StoredFile`` it has written.
    """
    state = dict(job.state)
    tasks = tuple(
        Task(
            name=SAVE_TASK,
            node=node,
            steps=(
                SaveState(
                    file=str(PurePath(staged, file_name(node))),
                    names=_state_names(state, node),
                    epoch=epoch,
                    run_id=run_id,
                    path=SAVE_TASK,
                ),
            ),
            outputs=(Output(FILE_OUTPUT, Name(FILE_OUTPUT)),),
            scopes=((FILE_OUTPUT, Scope.TASK),),
            path=SAVE_TASK,
        )
        for node in job.checkpoint.nodes
    )
    return TaskGroup(name="checkpoint", tasks=tasks)


def load_group(job: Job, manifest: Manifest, directory: str) -> TaskGroup:
    """Read the state of every checkpointed node from an epoch's directory.

    Files of nodes that the job does not checkpoint stay unread.

    Raises:
        CheckpointError: The epoch has no file of a node.
    """
    state = dict(job.state)
    files = {file.node: file for file in manifest.files}
    for node in job.checkpoint.nodes:
        if node not in files:
            raise CheckpointError.of(
                "E307",
                f"epoch {manifest.epoch} has no file of node '{node}'",
                did_you_mean(node, files),
            )
    tasks = tuple(
        Task(
            name=LOAD_TASK,
            node=node,
            steps=(
                LoadState(
                    file=str(PurePath(directory, files[node].name)),
                    names=_state_names(state, node),
                    epoch=manifest.epoch,
                    run_id=manifest.run_id,
                    digest=files[node].digest,
                    path=LOAD_TASK,
                ),
            ),
            path=LOAD_TASK,
        )
        for node in job.checkpoint.nodes
    )
    return TaskGroup(name="checkpoint", tasks=tasks, workspace="global")


def _state_names(state: Mapping[str, tuple[str, ...]], node: str) -> tuple[str, ...]:
    return tuple(sorted(state.get(node, ())))
