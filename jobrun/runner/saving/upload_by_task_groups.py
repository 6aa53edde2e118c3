"""Upload saved epochs by task groups in the session, such as copies to another directory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from jobrun.checkpoint.copy_epoch_groups import UploadBuilder
from jobrun.checkpoint.store import CheckpointStore
from jobrun.core.errors import EnvironmentFaultError, JobrunError
from jobrun.core.events import GroupEnded, GroupStarted, Listener, Noted
from jobrun.core.failpoints import reach
from jobrun.graph.checkpoint_policy import UploadPolicy
from jobrun.session.base import Session
from jobrun.session.errors import GroupCancelledError, TasksStuckError

# For a builder that was handed over where the spec says nothing of uploads.
DEFAULT_UPLOAD = UploadPolicy(to="", when="end", required=True)


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
        """Upload a just committed epoch by a task group, if the policy wants each epoch.

        Raises:
            EnvironmentFaultError: It failed, and is required.
        """
        if self._policy.when == "committed":
            self._upload(epoch)

    def finish(self, epoch: int) -> None:
        """Upload at the end of the run, by upload task groups, the epochs still to be uploaded.

        Args:
            epoch: The newest that is durable; -1 for none.

        Raises:
            EnvironmentFaultError: It failed, and is required.
        """
        if epoch < 0:
            self._fail("no epoch is saved, so there is nothing to upload", None)
        missing = self._store.epochs() if self._policy.when == "committed" else (epoch,)
        for one in missing:
            if one >= 0 and one not in self._done:
                self._upload(one)
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
            how = f"{type(error).__name__}: {error}"
            self._fail(f"epoch {epoch} could not be uploaded: {how}", error)
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
