"""Make one epoch durable: stage, write, commit, acknowledge, report, delete old ones.

Done in the loop's thread or in another one, it is the same. Not when, and not whether, an epoch is
saved.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from jobrun.checkpoint.checkpoint_times import NodeSave, SavePause, build_save_times
from jobrun.checkpoint.metadata_handler import MetadataHandler
from jobrun.checkpoint.store_protocol import CheckpointStore, Manifest
from jobrun.checkpoint.stores.retention import epochs_to_delete
from jobrun.checkpoint.task_groups import Ticket
from jobrun.core.errors import EnvironmentFaultError, JobrunError
from jobrun.core.events import CheckpointCommitted, CheckpointTimes, Listener, Noted
from jobrun.core.failpoints import reach
from jobrun.graph.types import Job
from jobrun.runner.preflight.filesystem import require_space
from jobrun.runner.rundir.journal import read_pins
from jobrun.runner.rundir.lock import RunLock
from jobrun.runner.saved_progress import Progress
from jobrun.runner.saving.background_thread import Permit
from jobrun.runner.time_account import TimeAccount
from jobrun.session.base import Session

if TYPE_CHECKING:
    from jobrun.checkpoint.task_groups import UploadBuilder
    from jobrun.runner.saving.upload_to_object_store import ObjectUpload


class RunIdentity(Struct, frozen=True):
    """The fields that every manifest of a run has besides its epoch."""

    run_id: str
    generation: int = 0
    spec_digest: str = ""
    environment: Mapping[str, Any] = field(default_factory=dict)


def _ignore_deletions(epochs: tuple[int, ...]) -> None:
    """Record nothing: no journal is kept."""


class CheckpointTarget(Struct, frozen=True):
    """Where a run keeps its epochs, who is notified of them, and the lock that guards them.

    Attributes:
        handlers: The run's own first: its word is what a user may rely on.
        builder: Uploads epochs; None for no upload.
        run: The run's directory, in which its pins are.
        record_deletions: Records with the next acknowledgement which epochs are deleted after it.
    """

    store: CheckpointStore
    handlers: tuple[MetadataHandler, ...]
    lock: RunLock
    builder: UploadBuilder | ObjectUpload | None = None
    run: Path = Path()
    record_deletions: Callable[[tuple[int, ...]], None] = _ignore_deletions

    def check(self) -> None:
        """Require before a commit that the run's lock and store are the ones it started with.

        Raises:
            RunLostError: E355, the run's directory or lock was removed or replaced.
            EnvironmentFaultError: E390, the directory of its epochs was.
        """
        self.lock.check()
        self.store.check()


class SaveRequest(Struct, frozen=True):
    """A request to save one epoch.

    Attributes:
        progress: The progress of the run.
        progress_json: The same as JSON, for the manifest.
        tickets: For the state of each node.
        started: When the loop stopped for it, on the monotonic clock.
        pause: How long the loop stopped for it.
    """

    progress: Progress
    progress_json: Mapping[str, Any]
    tickets: tuple[Ticket, ...]
    started: float
    pause: SavePause


class Committer:
    """Makes epochs durable, one at a time, by the commit protocol.

    Attributes:
        saved: The newest epoch that is durable; -1 for none.
        held: Returns the epochs in use, which are not deleted meanwhile.
    """

    def __init__(
        self,
        job: Job,
        session: Session,
        target: CheckpointTarget,
        identity: RunIdentity,
        listen: Listener,
        account: TimeAccount | None = None,
    ) -> None:
        self._job = job
        self._account = account
        self._session = session
        self._target = target
        self._store = target.store
        self._identity = identity
        self._listen = listen
        self._nodes = {node.name: number for number, node in enumerate(job.cluster)}
        # Size of the last epoch's files on the local disk; 0 if they are in an object store.
        self._last_bytes = 0
        self.saved = -1
        self.held: Callable[[], frozenset[int]] = frozenset

    def commit_epoch(self, request: SaveRequest, permit: Permit) -> None:
        """Commit one epoch's checkpoint: write its files, publish, acknowledge, report, retain.

        ::

            write into a stage and commit it; if that fails, once more into a new one
            acknowledge in the journal        # from here on the user may rely on it
            report to the listeners and the other handlers
            delete what retention chooses     # never before the new epoch is durable

        Args:
            request: The epoch.
            permit: Asked right before the epoch comes to exist.

        Raises:
            EnvironmentFaultError: It could not be saved, twice; or it is saved, and what comes
                after that failed.
            AbandonedError: It is not wanted any more; nothing of it is visible.
        """
        try:
            path, saves, commit_s = self._commit_twice(request, permit)
            epoch = request.progress.epoch
            reach("runner.saved")
            run_handler, *others = self._target.handlers
            doomed: tuple[int, ...] = ()
            fault: EnvironmentFaultError | None = None
            try:
                doomed = self._choose_old(request.progress)
                self._target.record_deletions(doomed)
            except EnvironmentFaultError as error:
                # A fault that concerns only old epochs must not prevent the acknowledgement of the
                # new one.
                fault = error
            run_handler.written(epoch, self._identity.generation)
            reach("runner.acknowledged")
        finally:
            self._session.release(request.tickets)
        self.saved = epoch
        size_bytes = sum(save.file.size_bytes for save in saves)
        self._last_bytes = 0 if self._job.checkpoint.collect_to else size_bytes
        seconds = time.monotonic() - request.started
        self._listen(CheckpointCommitted(epoch, size_bytes, seconds, path))
        try:
            for other in others:
                other.written(epoch, self._identity.generation)
            times = build_save_times(epoch, saves, request.pause, commit_s)
            if request.pause.in_background and self._account is not None:
                # Time that tasks waited for copies of what they change; the saver counts the other
                # waits.
                self._account.move("saves", max((save.gate_s for save in saves), default=0.0))
            self.report_times(times)
            if fault is not None:
                raise fault
            self._delete(doomed)
        except EnvironmentFaultError as error:
            self._warn_or_raise(epoch, error)

    def report_times(self, times: CheckpointTimes) -> None:
        """Report to every metadata handler how long the save of a committed epoch took."""
        for handler in self._target.handlers:
            handler.report(times)

    def retain(self, progress: Progress) -> None:
        """Delete old epochs after a commit; if that fails, warn, or raise with ``on_error: fail``.

        Raises:
            EnvironmentFaultError: It could not be deleted.
        """
        try:
            if doomed := self._choose_old(progress):
                self._target.record_deletions(doomed)
                self._target.handlers[0].written(progress.epoch, self._identity.generation)
                self._delete(doomed)
        except EnvironmentFaultError as error:
            self._warn_or_raise(progress.epoch, error)

    def _warn_or_raise(self, epoch: int, error: JobrunError) -> None:
        """Raise an error that came after a commit if ``on_error`` is ``fail``; else warn."""
        if self._job.checkpoint.on_error == "fail":
            raise error
        reasons = "; ".join(fault.message for fault in error.faults)
        self._listen(Noted(f"epoch {epoch} is saved, but {reasons}", "warning"))

    def _commit_twice(
        self, request: SaveRequest, permit: Permit
    ) -> tuple[str, tuple[NodeSave, ...], float]:
        try:
            return self._commit(request, permit)
        except EnvironmentFaultError:
            # After the rename the epoch exists, perhaps not durably: a second try would only find
            # it, and a failed fsync must not be retried (fsyncgate).
            if request.progress.epoch in self._store.epochs():
                raise
            return self._commit(request, permit)

    def _commit(
        self, request: SaveRequest, permit: Permit
    ) -> tuple[str, tuple[NodeSave, ...], float]:
        epoch = request.progress.epoch
        # Staging creates missing directories; a run that was moved must not get its old path again.
        self._target.check()
        directory = os.path.dirname(self._store.path(epoch))  # noqa: PTH120 - for each epoch
        staged = self._store.stage(epoch)
        try:
            nodes = len(self._job.checkpoint.nodes)
            require_space(directory, self._last_bytes, nodes, over=staged)
            saves = self._session.persist(request.tickets, staged)
            self._upload_staged(staged, request.progress.epoch, saves)
            started = time.perf_counter()
            manifest = self._manifest(request, saves)
            self._target.check()
            permit.enter()
            path = self._store.commit(staged, manifest)
            return path, saves, time.perf_counter() - started
        except BaseException:
            self._store.discard(staged)
            raise

    def _upload_staged(self, staged: str, epoch: int, saves: Iterable[NodeSave]) -> None:
        """Upload the staged files of an epoch before its commit, if ``collect_to`` is set."""
        if not self._job.checkpoint.collect_to:
            return
        from jobrun.runner.saving.upload_to_object_store import ObjectUpload  # noqa: PLC0415 - seldom

        builder = self._target.builder
        if isinstance(builder, ObjectUpload):
            files = [save.file for save in saves]
            builder.take(staged, epoch, self._identity.generation, files)

    def _manifest(self, request: SaveRequest, saves: Iterable[NodeSave]) -> Manifest:
        files = sorted((save.file for save in saves), key=lambda file: self._nodes[file.node])
        return Manifest(
            epoch=request.progress.epoch,
            run_id=self._identity.run_id,
            generation=self._identity.generation,
            files=tuple(files),
            spec_digest=self._identity.spec_digest,
            runner=request.progress_json,
            environment=self._identity.environment,
        )

    def _choose_old(self, progress: Progress) -> tuple[int, ...]:
        """Choose by the retention policy the epochs to delete after a commit."""
        policy = self._job.checkpoint
        if not (policy.keep_last or policy.keep_every or policy.keep_best[0]):
            # Nothing to delete; and listing ten thousand epochs after each save would be slow.
            return ()
        pinned = read_pins(self._target.run) | self.held()
        return epochs_to_delete(policy, self._store.epochs(), dict(progress.scores), pinned)

    def _delete(self, epochs: tuple[int, ...]) -> None:
        if epochs:
            self._store.remove(epochs, keep_for_reuse=True)
