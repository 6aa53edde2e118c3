"""Plan the saving and loading of checkpoints as task groups: which tasks on which nodes.

A session runs them as it runs any group, so a node's file is written and read where the
node lives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, ClassVar, Protocol, TypedDict

from msgspec import field
from msgspec.structs import replace

from jobrun.checkpoint.store_protocol import CheckpointStore, Manifest, StoredFile
from jobrun.checkpoint.stores.manifest import saved_settings
from jobrun.core.errors import CheckpointError
from jobrun.core.partly_compared import PartlyCompared
from jobrun.core.text.names import did_you_mean
from jobrun.graph.expressions import Name
from jobrun.graph.query import checkpointed_blobs, makers
from jobrun.graph.steps import (
    AdoptState,
    CallPython,
    LoadState,
    SaveState,
)
from jobrun.graph.traversal import find_parts
from jobrun.graph.types import Job, Output, Scope, Scopes, Task, TaskGroup

# A slash: no task of a spec can have such a name.
SAVE_TASK = "checkpoint/save"
LOAD_TASK = "checkpoint/load"
ADOPT_TASK = "checkpoint/adopt"
FILE_OUTPUT = "file"
TICKET_OUTPUT = "ticket"
NAMES_OUTPUT = "names"


class Ticket(PartlyCompared, frozen=True):
    """A reference to a node's state as it was when a save began; the session has the state.

    Attributes:
        node: Whose state.
        epoch: After which epoch.
        number: No two tickets of a session have the same.
        size_bytes: How much memory the state takes.
        settings: Those of libraries that callables of the node have made; not compared.
    """

    uncompared: ClassVar[tuple[str, ...]] = ("settings",)

    node: str
    epoch: int
    number: int
    size_bytes: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)


class UploadBuilder(Protocol):
    """Builds the task groups that copy epochs to another place."""

    def build(self, epoch: int, store: CheckpointStore) -> TaskGroup:
        """Build the task group that copies an epoch elsewhere, empty if a copy is there already.

        It runs at least once per epoch: a run that was killed before it went on runs it again.

        Raises:
            CheckpointError: The epoch is not there, or damaged.
            EnvironmentFaultError: The place cannot take it.
        """


def file_name(node: str) -> str:
    """Return the name of the file that a node's save task writes, such as ``trainer.h5``."""
    return f"{node}.h5"


def _origins(tasks: Sequence[Task], names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return for each blob that a checkpoint saves the path of the ``init`` step that makes it.

    Args:
        tasks: Those of init on a node.
        names: Of blobs of the node.
    """
    makers_by_name = makers(tasks)
    return tuple(
        (name, makers_by_name[name][0])
        for name in names
        if name in makers_by_name and makers_by_name[name][0]
    )


def save_group(job: Job, run_id: str) -> TaskGroup:
    """Build the task group that begins to save the state of all checkpointed nodes.

    The output ``ticket`` of each task is the ``Ticket`` for what it holds, which the session
    then writes (``Session.persist``).
    """
    constants = dict(job.constants)
    making: dict[str, list[Task]] = {}
    for task in job.init.tasks:
        making.setdefault(task.node, []).append(task)
    tasks = tuple(
        Task(
            name=SAVE_TASK,
            node=node,
            steps=(
                SaveState(
                    file=file_name(node),
                    names=names,
                    run_id=run_id,
                    path=SAVE_TASK,
                    compression=job.checkpoint.compression,
                    origins=_origins(making.get(node, ()), (*names, *constants.get(node, ()))),
                    objects=constants.get(node, ()),
                ),
            ),
            path=SAVE_TASK,
            **_outputs_only(TICKET_OUTPUT),
        )
        for node, names in checkpointed_blobs(job).items()
    )
    return TaskGroup(name="checkpoint", tasks=tasks)


def load_group(job: Job, manifest: Manifest, directory: str) -> TaskGroup:
    """Build the task group that loads the state of all checkpointed nodes from an epoch.

    Files of nodes that the job does not checkpoint stay unread. The output ``file`` of each
    task is the ``StoredFile`` it has read, with the seconds that took.

    Raises:
        CheckpointError: The epoch has no file of a node.
    """
    files = {file.node: file for file in manifest.files}
    blobs = checkpointed_blobs(job)
    for node in blobs:
        if node not in files:
            raise CheckpointError.of(
                "E307",
                f"epoch {manifest.epoch} has no file of node '{node}'",
                did_you_mean(node, files),
            )
    constants = dict(job.constants)
    calls = find_parts(job.groups, CallPython)
    callables = tuple(dict.fromkeys((call.target, call.folder) for call in calls))
    tasks = tuple(
        Task(
            name=LOAD_TASK,
            node=node,
            steps=(
                replace(
                    _load_step(manifest, directory, files[node], names),
                    objects=constants.get(node, ()),
                    callables=callables,
                    settings=saved_settings(manifest, node),
                ),
            ),
            path=LOAD_TASK,
            **_outputs_only(FILE_OUTPUT),
        )
        for node, names in blobs.items()
    )
    return TaskGroup(name="checkpoint", tasks=tasks, workspace="global")


def partial_group(
    manifest: Manifest, directory: str, wanted: Mapping[str, tuple[str, ...]]
) -> TaskGroup:
    """Build the task group that loads some blobs of some nodes, and leaves out missing blobs.

    All nodes read into the group run's workspace first. Only when all of them have ended do
    the blobs go into the nodes' own: a file that is missing or damaged changes nothing
    anywhere. The outputs ``file`` and ``names`` of each reading task say what was read.

    Args:
        manifest: Of the epoch.
        directory: Where its files are.
        wanted: Names of blobs by node; each node has a file in the manifest.
    """
    files = {file.node: file for file in manifest.files}
    reading = tuple(
        Task(
            name=LOAD_TASK,
            node=node,
            steps=(_load_step(manifest, directory, files[node], names, partial=True),),
            path=LOAD_TASK,
            **_outputs_only(FILE_OUTPUT, NAMES_OUTPUT),
        )
        for node, names in wanted.items()
    )
    adopting = tuple(
        Task(
            name=ADOPT_TASK,
            node=node,
            steps=(AdoptState(names, path=ADOPT_TASK),),
            # Waits for loading on all nodes, so that loading takes effect as one step.
            needs=(LOAD_TASK,),
            path=ADOPT_TASK,
        )
        for node, names in wanted.items()
    )
    return TaskGroup(name="checkpoint", tasks=(*reading, *adopting))


def stored_files(outputs: Mapping[Any, Any]) -> tuple[StoredFile, ...]:
    """Select from a task group's outputs each ``StoredFile``: a file's name, size, digest."""
    return tuple(value for value in outputs.values() if isinstance(value, StoredFile))


def _load_step(
    manifest: Manifest,
    directory: str,
    file: StoredFile,
    names: tuple[str, ...],
    *,
    partial: bool = False,
) -> LoadState:
    return LoadState(
        file=str(PurePath(directory, file.name)),
        names=names,
        epoch=manifest.epoch,
        run_id=manifest.run_id,
        digest=file.digest,
        partial=partial,
        path=LOAD_TASK,
    )


class _OutputsOnly(TypedDict):
    outputs: tuple[Output, ...]
    scopes: Scopes


def _outputs_only(*names: str) -> _OutputsOnly:
    """Return the arguments ``outputs`` and ``scopes`` of a ``Task`` that saves or loads."""
    return {
        "outputs": tuple(Output(name, Name(name)) for name in names),
        "scopes": tuple((name, Scope.TASK) for name in names),
    }
