"""Plan the copying of a committed epoch elsewhere as a task group: which tasks on which nodes.

``UploadBuilder`` is what anybody may write; ``DirectoryUpload`` is the one that
``checkpoint.upload`` means. Neither copies a byte: the group's steps do, in the session.
"""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePath
from typing import Protocol

from jobrun.checkpoint.store import CheckpointStore, Manifest
from jobrun.checkpoint.stores.directory import epoch_name
from jobrun.checkpoint.stores.epoch_copy import is_copied
from jobrun.checkpoint.task_groups import FILE_OUTPUT
from jobrun.core.files.disk import disk_faults, sync_names
from jobrun.graph.expressions import Name
from jobrun.graph.steps import CopyState, PublishCopy
from jobrun.graph.types import Output, Scope, Task, TaskGroup

# A slash: no task of a spec can have such a name.
COPY_TASK = "upload/copy"
PUBLISH_TASK = "upload/publish"


class UploadBuilder(Protocol):
    """Builds the task groups that copy epochs to another place."""

    def build(self, epoch: int, store: CheckpointStore) -> TaskGroup:
        """Build the task group that uploads an epoch; without tasks if it was uploaded before.

        It runs at least once per epoch: a run that was killed before it went on runs it again.

        Raises:
            CheckpointError: The epoch is not there, or damaged.
            EnvironmentFaultError: The place cannot take it.
        """


class DirectoryUpload:
    """Copies an epoch to ``root/epoch-000012``; see ``UploadBuilder``.

    Epochs that were computed again after going back (``resume --epoch``) are in a directory
    of their generation, ``root/g1``: a copy is never replaced, and never mixed with others.

    Args:
        root: The directory; made when the first epoch is copied.
        node: Where the copy is published, if the epoch has no file of any node.
    """

    def __init__(self, root: str, node: str) -> None:
        self._root = Path(root)
        self._node = node
        self._is_settled = False

    def build(self, epoch: int, store: CheckpointStore) -> TaskGroup:
        """Build the task group that uploads an epoch to a directory; empty if it is there."""
        manifest = store.manifest(epoch)
        target = self.target(manifest)
        self._settle()
        if is_copied(target, manifest):
            # Who gave it its name may have been killed before that was durable.
            with disk_faults("E318", f"sync {target}"):
                sync_names(target)
            return TaskGroup("upload")
        return upload_group(manifest, store.path(epoch), target, self._node)

    def _settle(self) -> None:
        """Make names durable that a killed upload left, before the first upload group is built."""
        if not self._is_settled and self._root.is_dir():
            with disk_faults("E318", f"sync {self._root}"):
                sync_names(self._root, own=3)
        self._is_settled = True

    def target(self, manifest: Manifest) -> str:
        """Return the path to which an upload group copies an epoch."""
        place = self._root / f"g{manifest.generation}" if manifest.generation else self._root
        return str(place / epoch_name(manifest.epoch))


def upload_group(manifest: Manifest, directory: str, target: str, node: str) -> TaskGroup:
    """Build a task group that copies an epoch's files, each from its node, then publishes the copy.

    The output ``file`` of each copying task is the ``StoredFile`` that it has made.

    Args:
        manifest: Of the epoch.
        directory: Where its files are.
        target: Where they go, seen from every node alike.
        node: Publishes where the epoch has no file; else the first node that has one does.
    """
    staged = str(PurePath(target).with_name(_staged_name(manifest)))
    copies = tuple(
        Task(
            name=COPY_TASK,
            node=file.node,
            steps=(
                CopyState(
                    file=str(PurePath(directory, file.name)),
                    staged=staged,
                    node=file.node,
                    size_bytes=file.size_bytes,
                    digest=file.digest,
                    path=COPY_TASK,
                ),
            ),
            outputs=(Output(FILE_OUTPUT, Name(FILE_OUTPUT)),),
            scopes=((FILE_OUTPUT, Scope.TASK),),
            path=COPY_TASK,
        )
        for file in manifest.files
    )
    publish = Task(
        name=PUBLISH_TASK,
        node=manifest.files[0].node if manifest.files else node,
        steps=(PublishCopy(directory, staged, target, path=PUBLISH_TASK),),
        needs=(COPY_TASK,) if copies else (),
        path=PUBLISH_TASK,
    )
    return TaskGroup("upload", (*copies, publish))


def _staged_name(manifest: Manifest) -> str:
    """Return the staging name of an epoch's upload, the same each time: a later try continues it.

    Of the form that a store takes for a leftover, and removes.
    """
    what = repr((manifest.run_id, [(file.name, file.digest) for file in manifest.files]))
    digest = hashlib.sha256(what.encode()).hexdigest()[:8]
    return f".tmp-{epoch_name(manifest.epoch)}-{manifest.generation}-{digest}"
