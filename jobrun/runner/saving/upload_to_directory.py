"""Upload saved epochs to another directory, by task groups that the session runs.

``DirectoryUpload`` builds the groups that ``checkpoint.upload`` means; a caller may give another
``UploadBuilder``. It copies no byte itself: the steps of its groups do.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any

from jobrun.checkpoint.store_protocol import CheckpointStore, Manifest
from jobrun.checkpoint.stores.directory import epoch_name
from jobrun.checkpoint.stores.epoch_copy import is_copied
from jobrun.checkpoint.task_groups import FILE_OUTPUT, UploadBuilder
from jobrun.core.errors import EnvironmentFaultError, JobrunError
from jobrun.core.events import GroupEnded, GroupStarted, Listener, Noted
from jobrun.core.failpoints import reach
from jobrun.core.files.disk import disk_faults, sync_names
from jobrun.graph.checkpoint_policy import UploadPolicy
from jobrun.graph.expressions import Name
from jobrun.graph.steps import CopyState, PublishCopy
from jobrun.graph.types import Output, Scope, Task, TaskGroup
from jobrun.session.base import GroupCancelledError, Session, TasksStuckError

# For a builder passed in ``RunOptions`` when the spec does not mention uploads.
DEFAULT_UPLOAD = UploadPolicy(to="", when="end", required=True)

# A slash: no task of a spec can have such a name.
COPY_TASK = "upload/copy"
PUBLISH_TASK = "upload/publish"


class GroupUploader:
    """Uploads the saved epochs that its policy names, by running groups in the session.

    Args:
        builder: Makes the group for an epoch.
        policy: Which epochs, and what a failure means.
        store: Where the epochs are.
        session: Runs the group.
        listen: Receives events.
        report: Is given what an upload's group has given out.
    """

    def __init__(
        self,
        builder: UploadBuilder,
        policy: UploadPolicy,
        store: CheckpointStore,
        session: Session,
        listen: Listener,
        report: Callable[[int, Mapping[Any, Any]], None],
    ) -> None:
        self._builder = builder
        self._policy = policy
        self._store = store
        self._session = session
        self._listen = listen
        self._report = report
        self._failed = 0
        self._done: set[int] = set()

    def committed(self, epoch: int) -> None:
        """Upload a committed epoch to the directory, if the policy uploads each at its commit.

        Raises:
            EnvironmentFaultError: It failed, and is required.
        """
        if self._policy.when == "committed":
            self._upload(epoch)

    def finish(self, epoch: int) -> None:
        """Upload to the directory, after the last epoch, the epochs that are still due.

        Args:
            epoch: The newest that is durable; -1 for none.

        Raises:
            EnvironmentFaultError: It failed, and is required.
        """
        if epoch < 0:
            self._fail("no epoch is saved, so there is nothing to upload", None)
        missing = self._store.epochs() if self._policy.when == "committed" else (epoch,)
        for due in missing:
            if due >= 0 and due not in self._done:
                self._upload(due)
        reach("runner.uploaded")
        if self._failed:
            many = f"{self._failed} uploads" if self._failed > 1 else "1 upload"
            self._listen(Noted(f"{many} failed; the checkpoints themselves are saved", "warning"))

    def _upload(self, epoch: int) -> None:
        started = time.monotonic()
        try:
            group = self._builder.build(epoch, self._store)
            if group.tasks:
                names = tuple(dict.fromkeys(task.name for task in group.tasks))
                self._listen(GroupStarted(group.name, epoch, names))
                outputs = self._session.run(group, epoch, {})
                self._listen(GroupEnded(group.name, epoch, time.monotonic() - started))
                self._report(epoch, outputs)
        except (GroupCancelledError, TasksStuckError):
            raise
        except JobrunError as error:
            reasons = "; ".join(fault.message for fault in error.faults)
            self._fail(f"epoch {epoch} could not be uploaded: {reasons}", error)
        except Exception as error:  # noqa: BLE001 - a builder's own code may raise anything
            reason = f"{type(error).__name__}: {error}"
            self._fail(f"epoch {epoch} could not be uploaded: {reason}", error)
        else:
            self._done.add(epoch)

    def _fail(self, message: str, cause: Exception | None) -> None:
        if self._policy.required:
            mends = [fault.mend for fault in getattr(cause, "faults", ()) if fault.mend]
            raise EnvironmentFaultError.of(
                "E321", message, mends[0] if mends else "fix the cause, then resume"
            ) from cause
        self._failed += 1
        self._listen(Noted(message, "warning"))


class DirectoryUpload:
    """Copies an epoch to the directory ``root/epoch-000012``; see ``UploadBuilder``.

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
            # The process that renamed it may have been killed before the rename was durable.
            with disk_faults("E318", f"sync {target}"):
                sync_names(target)
            return TaskGroup("upload")
        return upload_group(manifest, store.path(epoch), target, self._node)

    def _settle(self) -> None:
        """Sync the upload directory once to disk, in case an earlier upload was killed."""
        if not self._is_settled and self._root.is_dir():
            with disk_faults("E318", f"sync {self._root}"):
                sync_names(self._root, own_names=3)
        self._is_settled = True

    def target(self, manifest: Manifest) -> str:
        """Return the path of the directory to which an epoch is uploaded."""
        directory = self._root / f"g{manifest.generation}" if manifest.generation else self._root
        return str(directory / epoch_name(manifest.epoch))


def upload_group(manifest: Manifest, directory: str, target: str, node: str) -> TaskGroup:
    """Build the tasks that upload an epoch's files to a directory; the last renames it.

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
    """Return the temporary name of an epoch's upload, by which a later try can continue it.

    Of the form that a store takes for a leftover, and removes.
    """
    identity = repr((manifest.run_id, [(file.name, file.digest) for file in manifest.files]))
    digest = hashlib.sha256(identity.encode()).hexdigest()[:8]
    return f".tmp-{epoch_name(manifest.epoch)}-{manifest.generation}-{digest}"
