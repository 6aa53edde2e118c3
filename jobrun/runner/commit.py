"""How one epoch becomes durable: stage, write, commit, acknowledge, tell, and then delete old ones.

Done in the loop's thread or in another one, it is the same. Not when, and not whether, an epoch is
saved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobrun.checkpoint.metadata import MetadataHandler
from jobrun.checkpoint.plan import Ticket
from jobrun.checkpoint.retain import victims
from jobrun.checkpoint.store import CheckpointStore, Manifest
from jobrun.checkpoint.times import NodeSave, Stillness, times_of_save
from jobrun.checkpoint.upload import UploadBuilder
from jobrun.core.crashpoints import reach
from jobrun.core.errors import EnvironmentFaultError, JobrunError
from jobrun.core.events import CheckpointCommitted, CheckpointTimes, Listener, Noted
from jobrun.graph.types import Job
from jobrun.runner.background import Permit
from jobrun.runner.lock import RunLock
from jobrun.runner.pins import read_pins
from jobrun.runner.progress import Progress
from jobrun.runner.sending import ObjectUpload
from jobrun.runner.space import expect_space
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
    """Where a run keeps its epochs, who is told of them, and the lock that makes them ours.

    Attributes:
        handlers: The run's own first: its word is what a user may rely on.
        builder: Brings epochs elsewhere; None for nobody.
        run: The run's directory, in which its pins are.
    """

    store: CheckpointStore
    handlers: tuple[MetadataHandler, ...]
    lock: RunLock
    builder: UploadBuilder | ObjectUpload | None = None
    run: Path = Path()


@dataclass(frozen=True, slots=True)
class Order:
    """One epoch that is to be kept.

    Attributes:
        progress: How the run stands.
        form: The same, as the manifest has it.
        tickets: For the state of each node.
        started: When the loop stood still for it, on the monotonic clock.
        still: How long it did.
    """

    progress: Progress
    form: Mapping[str, Any]
    tickets: tuple[Ticket, ...]
    started: float
    still: Stillness


class Commits:
    """Makes epochs durable, one at a time.

    Attributes:
        saved: The newest epoch that is durable; -1 for none.
        held: Epochs that somebody reads, and that stay for so long.
    """

    def __init__(
        self, job: Job, session: Session, place: Place, identity: Identity, listen: Listener
    ) -> None:
        self._job = job
        self._session = session
        self._place = place
        self._store = place.store
        self._identity = identity
        self._listen = listen
        self._nodes = {node.name: number for number, node in enumerate(job.cluster)}
        # How much of the last epoch is on the disk here, and not in an object store.
        self._last_bytes = 0
        self.saved = -1
        self.held: Callable[[], frozenset[int]] = frozenset

    def carry_out(self, order: Order, permit: Permit) -> None:
        """Make an epoch durable, and let go of its tickets.

        ::

            write into a stage and commit it; if the disk says no, once more into a new one
            acknowledge in the journal        # from here on the user may rely on it
            tell the listeners and the other handlers
            delete what retention chooses     # never before the new epoch is durable

        Args:
            order: The epoch.
            permit: Asked right before the epoch comes to exist.

        Raises:
            EnvironmentFaultError: It could not be saved, twice; or it is saved, and what comes
                after that failed.
            GivenUpError: It is not wanted any more; nothing of it is visible.
        """
        try:
            path, saves, commit_s = self._commit_twice(order, permit)
            epoch = order.progress.epoch
            reach("runner.saved")
            own, *others = self._place.handlers
            own.written(epoch, self._identity.generation)
            reach("runner.acknowledged")
        finally:
            self._session.release(order.tickets)
        self.saved = epoch
        size_bytes = sum(save.file.size_bytes for save in saves)
        self._last_bytes = 0 if self._job.checkpoint.collect_to else size_bytes
        seconds = time.monotonic() - order.started
        self._listen(CheckpointCommitted(epoch, size_bytes, seconds, path))
        try:
            for other in others:
                other.written(epoch, self._identity.generation)
            self.tell_times(times_of_save(epoch, saves, order.still, commit_s))
            self._delete_old(order.progress)
        except EnvironmentFaultError as error:
            self._pass_over(epoch, error)

    def tell_times(self, times: CheckpointTimes) -> None:
        """Tell every handler how long something took."""
        for handler in self._place.handlers:
            handler.report(times)

    def retain(self, progress: Progress) -> None:
        """Delete what an epoch that is known to be good has made superfluous.

        Raises:
            EnvironmentFaultError: It could not be deleted.
        """
        try:
            self._delete_old(progress)
        except EnvironmentFaultError as error:
            self._pass_over(progress.epoch, error)

    def _pass_over(self, epoch: int, error: JobrunError) -> None:
        """The epoch is saved, whatever failed after that."""
        if self._job.checkpoint.on_error == "fail":
            raise error
        reasons = "; ".join(fault.message for fault in error.faults)
        self._listen(Noted(f"epoch {epoch} is saved, but {reasons}", "warning"))

    def _commit_twice(
        self, order: Order, permit: Permit
    ) -> tuple[str, tuple[NodeSave, ...], float]:
        try:
            return self._commit(order, permit)
        except EnvironmentFaultError:
            # After the rename the epoch exists, perhaps not durably: a second try would only
            # meet it, and an fsync that failed must not be asked again.
            if order.progress.epoch in self._store.epochs():
                raise
            return self._commit(order, permit)

    def _commit(self, order: Order, permit: Permit) -> tuple[str, tuple[NodeSave, ...], float]:
        epoch = order.progress.epoch
        place = Path(self._store.path(epoch)).parent
        expect_space(str(place), self._last_bytes, len(self._job.checkpoint.nodes))
        staged = self._store.stage(epoch)
        try:
            saves = self._session.persist(order.tickets, staged)
            self._bring(staged, order.progress.epoch, saves)
            started = time.perf_counter()
            manifest = self._manifest(order, saves)
            self._place.lock.check()
            permit.enter()
            path = self._store.commit(staged, manifest)
            return path, saves, time.perf_counter() - started
        except BaseException:
            self._store.discard(staged)
            raise

    def _bring(self, staged: str, epoch: int, saves: Iterable[NodeSave]) -> None:
        """See that all files of an epoch are in the object store, if that is where they go."""
        builder = self._place.builder
        if self._job.checkpoint.collect_to and isinstance(builder, ObjectUpload):
            files = [save.file for save in saves]
            builder.take(staged, epoch, self._identity.generation, files)

    def _manifest(self, order: Order, saves: Iterable[NodeSave]) -> Manifest:
        files = sorted((save.file for save in saves), key=lambda file: self._nodes[file.node])
        return Manifest(
            epoch=order.progress.epoch,
            run_id=self._identity.run_id,
            generation=self._identity.generation,
            files=tuple(files),
            spec_digest=self._identity.spec_digest,
            runner=order.form,
            environment=self._identity.environment,
        )

    def _delete_old(self, progress: Progress) -> None:
        policy = self._job.checkpoint
        if not (policy.keep_last or policy.keep_every or policy.keep_best[0]):
            # Keeps all: listing ten thousand epochs after each one would take its time.
            return
        pinned = read_pins(self._place.run) | self.held()
        chosen = victims(policy, self._store.epochs(), dict(progress.scores), pinned)
        if chosen:
            self._store.remove(chosen, keep_spare=True)
