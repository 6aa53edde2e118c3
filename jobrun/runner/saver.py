"""Saving an epoch: stage, write, commit, acknowledge, tell, and only then delete old ones."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from jobrun.checkpoint.plan import save_group
from jobrun.checkpoint.retain import victims
from jobrun.checkpoint.store import CheckpointStore, Manifest, StoredFile
from jobrun.core.crashpoints import reach
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.events import CheckpointCommitted, CheckpointFailed, Listener, ignore
from jobrun.graph.types import Job
from jobrun.runner.journal import Journal
from jobrun.runner.lock import RunLock
from jobrun.runner.progress import Progress, to_json
from jobrun.session.base import Session


@dataclass(frozen=True, slots=True)
class Identity:
    """What every manifest of a run says besides its epoch."""

    run_id: str
    generation: int = 0
    spec_digest: str = ""
    environment: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run keeps its epochs: the store, the journal, and the lock that makes them ours."""

    store: CheckpointStore
    journal: Journal
    lock: RunLock


class Saver(Protocol):
    """How the loop keeps an epoch."""

    def is_due(self, progress: Progress) -> bool:
        """Whether the policy wants this epoch saved."""

    def save(self, progress: Progress) -> Progress:
        """Save the epoch; the progress, in which a failure that may be passed over is counted.

        Raises:
            EnvironmentFaultError: It could not be saved, twice.
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
        self._journal = place.journal
        self._lock = place.lock
        self._identity = identity
        self._listen = listen
        self._saved_at = time.monotonic()
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
            tell the listener
            delete what retention chooses     # never before the new epoch is durable
        """
        try:
            self._keep(progress)
        except EnvironmentFaultError as error:
            if self._job.checkpoint.on_error == "fail":
                raise
            self._listen(CheckpointFailed(progress.epoch, str(error)))
            return replace(progress, failed_saves=progress.failed_saves + 1)
        return progress

    def _keep(self, progress: Progress) -> None:
        started = time.monotonic()
        try:
            path, files = self._commit(progress)
        except EnvironmentFaultError:
            # After the rename the epoch exists, perhaps not durably: a second try would only
            # meet it, and an fsync that failed must not be asked again.
            if progress.epoch in self._store.epochs():
                raise
            path, files = self._commit(progress)
        reach("runner.saved")
        self._journal.acknowledge(progress.epoch, self._identity.generation)
        reach("runner.acknowledged")
        self._saved_at = time.monotonic()
        self.seconds = self._saved_at - started
        self.saved = progress.epoch
        size_bytes = sum(file.size_bytes for file in files)
        self._listen(CheckpointCommitted(progress.epoch, size_bytes, self.seconds, path))
        self._retain(progress)

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
