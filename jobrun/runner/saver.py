"""Saving an epoch: stage, write, commit, acknowledge, tell, and only then delete old ones."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from jobrun.checkpoint.metadata import MetadataHandler
from jobrun.checkpoint.plan import save_group
from jobrun.checkpoint.retain import victims
from jobrun.checkpoint.store import CheckpointStore, Manifest, StoredFile
from jobrun.checkpoint.times import stored_files, times_of
from jobrun.checkpoint.upload import UploadBuilder
from jobrun.core.crashpoints import reach
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.events import (
    CheckpointCommitted,
    CheckpointFailed,
    CheckpointTimes,
    Listener,
    ignore,
)
from jobrun.graph.types import Job
from jobrun.runner.lock import RunLock
from jobrun.runner.progress import Progress, to_json
from jobrun.runner.uploader import HANDED_OVER, Uploader
from jobrun.session.base import Outputs, Session


@dataclass(frozen=True, slots=True)
class Identity:
    """What every manifest of a run says besides its epoch."""

    run_id: str
    generation: int = 0
    spec_digest: str = ""
    environment: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run keeps its epochs, who is told of them, and the lock that makes them ours.

    Attributes:
        handlers: The run's own first: its word is what a user may rely on.
        builder: Brings epochs elsewhere; None for nobody.
    """

    store: CheckpointStore
    handlers: tuple[MetadataHandler, ...]
    lock: RunLock
    builder: UploadBuilder | None = None


class Saver(Protocol):
    """How the loop keeps an epoch."""

    def is_due(self, progress: Progress) -> bool:
        """Whether the policy wants this epoch saved."""

    def save(self, progress: Progress) -> Progress:
        """Save the epoch; the progress, in which a failure that may be passed over is counted.

        Raises:
            EnvironmentFaultError: It could not be saved, twice.
        """

    def loaded(self, epoch: int, outputs: Outputs) -> None:
        """An epoch was loaded; ``outputs`` are those of its load group."""

    def finish(self) -> None:
        """The last epoch has run: bring elsewhere what is to be brought.

        Raises:
            EnvironmentFaultError: It failed, and is required.
        """

    @property
    def seconds(self) -> float:
        """How long the last save took."""

    @property
    def saved(self) -> int:
        """The newest epoch that is durable; -1 for none."""


class NoSaver:
    """``checkpoint: none``: nothing is kept."""

    seconds: float = 0.0
    saved: int = -1

    def is_due(self, progress: Progress) -> bool:
        """Never."""
        del progress
        return False

    def save(self, progress: Progress) -> Progress:
        """Nothing happens."""
        return progress

    def loaded(self, epoch: int, outputs: Outputs) -> None:
        """Nothing happens."""

    def finish(self) -> None:
        """Nothing happens."""


class CheckpointSaver:
    """Saves the state of a session's nodes into a store, as the job's policy says."""

    def __init__(
        self,
        job: Job,
        session: Session,
        place: Place,
        identity: Identity,
        listen: Listener = ignore,
        saved: int = -1,
    ) -> None:
        self._job = job
        self._session = session
        self._store = place.store
        self._handlers = place.handlers
        self._lock = place.lock
        self._identity = identity
        self._listen = listen
        self._saved_at = time.monotonic()
        self._uploader = self._uploader_of(place.builder)
        self.seconds = 0.0
        self.saved = saved

    def is_due(self, progress: Progress) -> bool:
        """By epochs, or by the time since the last save; epoch 0 always is."""
        policy = self._job.checkpoint
        if policy.every_epochs:
            return progress.epoch % policy.every_epochs == 0
        return progress.epoch == 0 or time.monotonic() - self._saved_at >= policy.every_s

    def save(self, progress: Progress) -> Progress:
        """See ``Saver.save``.

        ::

            write into a stage and commit it; if the disk says no, once more into a new one
            acknowledge in the journal        # from here on the user may rely on it
            tell the listeners and the other handlers
            delete what retention chooses     # never before the new epoch is durable
            upload it, if each one is
        """
        started = time.monotonic()
        try:
            self._keep(progress)
        except EnvironmentFaultError as error:
            if self._job.checkpoint.on_error == "fail":
                raise
            self._listen(CheckpointFailed(progress.epoch, str(error)))
            return replace(progress, failed_saves=progress.failed_saves + 1)
        if self._uploader:
            self._uploader.committed(progress.epoch)
        self.seconds = time.monotonic() - started
        return progress

    def loaded(self, epoch: int, outputs: Outputs) -> None:
        """See ``Saver.loaded``. A kill may have come between the epoch's save and its upload."""
        self._report("load", epoch, outputs)
        if self._uploader:
            self._uploader.committed(epoch)

    def finish(self) -> None:
        """See ``Saver.finish``."""
        if self._uploader:
            self._uploader.finish(self.saved)

    def _keep(self, progress: Progress) -> None:
        started = time.monotonic()
        self._expect_accessible(progress.epoch)
        try:
            path, files = self._commit(progress)
        except EnvironmentFaultError:
            # After the rename the epoch exists, perhaps not durably: a second try would only
            # meet it, and an fsync that failed must not be asked again.
            if progress.epoch in self._store.epochs():
                raise
            path, files = self._commit(progress)
        reach("runner.saved")
        own, *others = self._handlers
        own.written(progress.epoch, self._identity.generation)
        reach("runner.acknowledged")
        self._saved_at = time.monotonic()
        self.saved = progress.epoch
        size_bytes = sum(file.size_bytes for file in files)
        seconds = self._saved_at - started
        self._listen(CheckpointCommitted(progress.epoch, size_bytes, seconds, path))
        for other in others:
            other.written(progress.epoch, self._identity.generation)
        self._tell_times(times_of("save", progress.epoch, files))
        self._retain(progress)

    def _expect_accessible(self, epoch: int) -> None:
        if not all(handler.accessible(None) for handler in self._handlers):
            raise EnvironmentFaultError.of(
                "E324",
                f"epoch {epoch} was not saved: the metadata handler says that nothing can be "
                "saved now",
                "see to what the handler looks at, then resume",
            )

    def _report(self, action: str, epoch: int, outputs: Mapping[Any, Any]) -> None:
        files = stored_files(outputs)
        if files:
            self._tell_times(times_of(action, epoch, files))

    def _tell_times(self, times: CheckpointTimes) -> None:
        for handler in self._handlers:
            handler.report(times)

    def _uploader_of(self, builder: UploadBuilder | None) -> Uploader | None:
        if builder is None:
            return None
        policy = self._job.checkpoint.upload or HANDED_OVER
        report = partial(self._report, "upload")
        return Uploader(builder, policy, self._store, self._session, self._listen, report)

    def _commit(self, progress: Progress) -> tuple[str, tuple[StoredFile, ...]]:
        staged = self._store.stage(progress.epoch)
        try:
            group = save_group(self._job, progress.epoch, staged, self._identity.run_id)
            outputs = self._session.run(group, progress.epoch, {})
            files = tuple(outputs[ref] for ref in outputs if ref.output == "file")
            manifest = self._manifest(progress, files)
            self._lock.check()
            return self._store.commit(staged, manifest), manifest.files
        except BaseException:
            self._store.discard(staged)
            raise

    def _manifest(self, progress: Progress, files: tuple[StoredFile, ...]) -> Manifest:
        order = {node.name: place for place, node in enumerate(self._job.cluster)}
        return Manifest(
            epoch=progress.epoch,
            run_id=self._identity.run_id,
            generation=self._identity.generation,
            files=tuple(sorted(files, key=lambda file: order[file.node])),
            spec_digest=self._identity.spec_digest,
            runner=to_json(progress),
            environment=self._identity.environment,
        )

    def _retain(self, progress: Progress) -> None:
        policy = self._job.checkpoint
        if not (policy.keep_last or policy.keep_every or policy.keep_best[0]):
            # Keeps all: listing ten thousand epochs after each one would take its time.
            return
        chosen = victims(policy, self._store.epochs(), dict(progress.scores))
        if chosen:
            self._store.remove(chosen)
