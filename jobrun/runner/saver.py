"""When an epoch is saved, in which thread, and what a failure means. How is ``commit``'s matter.

::

    boundary E      hold the state of all nodes; hand it to the background; go on
    epoch E + 1     |  write, commit, acknowledge, tell, delete old ones
    boundary E + 1  wait for that; tell what it came to; upload; hold the state again …

Without memory for it, for many small blobs, or where the spec says so, all of it happens at the
boundary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from jobrun.checkpoint.plan import TICKET_OUTPUT, checkpointed_blobs, save_group
from jobrun.checkpoint.times import Stillness, stored_files, times_of
from jobrun.compile.plan_text import size_text
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.events import CheckpointFailed, Listener, Noted, ignore
from jobrun.graph.types import Job
from jobrun.runner.background import Background, GivenUpError, Permit
from jobrun.runner.commit import Commits, Identity, Order, Place
from jobrun.runner.headroom import Headroom, free_memory_bytes
from jobrun.runner.progress import Progress, to_json
from jobrun.runner.sending import ObjectUpload, Sender
from jobrun.runner.uploader import HANDED_OVER, Uploader
from jobrun.session.base import Outputs, Session


class Saver(Protocol):
    """How the loop keeps an epoch."""

    def is_due(self, progress: Progress) -> bool:
        """Whether the policy wants this epoch saved."""

    def save(self, progress: Progress) -> Progress:
        """Save the epoch, or begin to; the progress, with what was passed over counted.

        Raises:
            EnvironmentFaultError: It, or the one before, could not be saved, twice.
        """

    def look(self, progress: Progress) -> Progress:
        """What a save came to that has ended meanwhile; the progress, as by ``save``.

        Raises:
            EnvironmentFaultError: It failed.
        """

    def settle(self, progress: Progress) -> Progress:
        """Wait until what was begun is durable, then look; see ``look``."""

    def loaded(self, progress: Progress, outputs: Outputs) -> None:
        """An epoch was loaded; ``outputs`` are those of its load group.

        Raises:
            EnvironmentFaultError: What it makes superfluous could not be deleted.
        """

    def finish(self) -> None:
        """The last epoch has run: bring elsewhere what is to be brought.

        Raises:
            EnvironmentFaultError: It failed, and is required.
        """

    def close(self) -> None:
        """Wait until what was begun is durable; tell of a failure, and raise nothing."""

    @property
    def seconds(self) -> float:
        """How long the last save took until it was durable."""

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

    def look(self, progress: Progress) -> Progress:
        """Nothing has happened."""
        return progress

    def settle(self, progress: Progress) -> Progress:
        """Nothing was begun."""
        return progress

    def loaded(self, progress: Progress, outputs: Outputs) -> None:
        """Nothing happens."""

    def finish(self) -> None:
        """Nothing happens."""

    def close(self) -> None:
        """Nothing happens."""


@dataclass(slots=True)
class _Outcome:
    """What a save came to; ``error`` None: the epoch is durable."""

    epoch: int
    error: BaseException | None = None
    seconds: float = 0.0


def _never() -> bool:
    return False


class CheckpointSaver:
    """Saves the state of a session's nodes into a store, as the job's policy says.

    Args:
        job: What is run.
        session: Has the state.
        place: Where epochs are kept.
        identity: What every manifest says.
        listen: Is told.
        saved: The newest epoch that is durable already.
        is_late: Whether there is no time to wait for a save that is under way.
    """

    def __init__(
        self,
        job: Job,
        session: Session,
        place: Place,
        identity: Identity,
        listen: Listener = ignore,
        saved: int = -1,
        is_late: Callable[[], bool] = _never,
    ) -> None:
        self._job = job
        self._session = session
        self._store = place.store
        self._handlers = place.handlers
        self._listen = listen
        self._is_late = is_late
        self._commits = Commits(job, session, place, identity, listen)
        self._commits.saved = saved
        self._group = save_group(job, identity.run_id)
        blobs = sum(map(len, checkpointed_blobs(job).values()))
        self._headroom = Headroom(job.checkpoint.asynchronous, free_memory_bytes, blobs)
        self._background = Background("jobrun-save")
        self._outcome: _Outcome | None = None
        self._saved_at = time.monotonic()
        self._uploader = self._uploader_of(place)
        self._told_why = False
        self.seconds = 0.0

    @property
    def saved(self) -> int:
        """See ``Saver.saved``."""
        return self._commits.saved

    def is_due(self, progress: Progress) -> bool:
        """By epochs, or by the time since the last save; epoch 0 always is."""
        policy = self._job.checkpoint
        if policy.every_epochs:
            return progress.epoch % policy.every_epochs == 0
        return progress.epoch == 0 or time.monotonic() - self._saved_at >= policy.every_s

    def save(self, progress: Progress) -> Progress:
        """See ``Saver.save``. One save is under way at a time: the one before is waited for."""
        started = time.monotonic()
        progress = self.settle(progress)
        waited_s = time.monotonic() - started
        outcome = self._outcome = _Outcome(progress.epoch)
        try:
            self._expect_accessible(progress.epoch)
            order = self._order(progress, started, waited_s)
        except EnvironmentFaultError as error:
            outcome.error = error
            return self.look(progress)
        work = partial(self._carry_out, order, outcome)
        if order.still.beside:
            self._background.start(work)
            return progress
        work(Permit())
        return self.look(progress)

    def look(self, progress: Progress) -> Progress:
        """See ``Saver.look``."""
        if self._background.is_busy or self._outcome is None:
            return progress
        outcome, self._outcome = self._outcome, None
        if outcome.error is not None:
            return self._passed_over(progress, outcome.epoch, outcome.error)
        self.seconds = outcome.seconds
        if self._uploader:
            self._uploader.committed(outcome.epoch)
        return progress

    def settle(self, progress: Progress) -> Progress:
        """See ``Saver.settle``. A save that there is no time for is dropped."""
        if not self._background.wait(self._is_late):
            self._outcome = None
        return self.look(progress)

    def loaded(self, progress: Progress, outputs: Outputs) -> None:
        """See ``Saver.loaded``. A kill may have come between the epoch's save and its upload."""
        self._report("load", progress.epoch, outputs)
        # A kill may have come between its save and this.
        self._commits.retain(progress)
        if self._uploader:
            self._uploader.committed(progress.epoch)

    def finish(self) -> None:
        """See ``Saver.finish``."""
        if self._uploader:
            self._uploader.finish(self.saved)

    def close(self) -> None:
        """See ``Saver.close``."""
        ended = self._background.wait(self._is_late)
        outcome, self._outcome = self._outcome, None
        if ended and outcome is not None and outcome.error is not None:
            self._listen(CheckpointFailed(outcome.epoch, str(outcome.error)))
        self._background.close()
        if isinstance(self._uploader, Sender):
            self._uploader.close()
        self._store.close()

    def _order(self, progress: Progress, started: float, waited_s: float) -> Order:
        """Hold what is to be saved, and let the run go on if there is memory for that."""
        form = to_json(progress)
        outputs = self._session.run(self._group, progress.epoch, {})
        tickets = tuple(outputs[ref] for ref in outputs if ref.output == TICKET_OUTPUT)
        beside = self._goes_beside(sum(ticket.size_bytes for ticket in tickets))
        if beside:
            # After the last epoch nothing runs before it is durable.
            groups = () if progress.stopping else (self._job.epoch,)
            self._session.protect(tickets, groups)
        self._saved_at = time.monotonic()
        still = Stillness(self._saved_at - started - waited_s, waited_s, beside=beside)
        return Order(progress, form, tickets, started, still)

    def _goes_beside(self, state_bytes: int) -> bool:
        if not self._headroom.gains(state_bytes, self.seconds):
            return False
        if self._headroom.allows(state_bytes):
            return True
        if self._job.checkpoint.asynchronous is None and not self._told_why:
            self._told_why = True
            free = size_text(self._headroom.free_bytes)
            text = f"the state takes {size_text(state_bytes)}, and {free} of memory are free"
            self._listen(Noted(f"{text}: the run stands still while an epoch is saved"))
        return False

    def _carry_out(self, order: Order, outcome: _Outcome, permit: Permit) -> None:
        try:
            self._commits.carry_out(order, permit)
            outcome.seconds = time.monotonic() - order.started
        except GivenUpError:
            # Nobody looks at it any more.
            return
        except BaseException as error:  # noqa: BLE001 - raised at the next boundary
            outcome.error = error
        if not order.still.beside:
            self._saved_at = time.monotonic()

    def _passed_over(self, progress: Progress, epoch: int, error: BaseException) -> Progress:
        """Count a failed save, or raise its error."""
        passes = self._job.checkpoint.on_error == "warn"
        if not (passes and isinstance(error, EnvironmentFaultError)):
            raise error
        self._listen(CheckpointFailed(epoch, str(error)))
        # It cannot be among the best that are kept.
        scores = tuple(one for one in progress.scores if one[0] != epoch)
        return replace(progress, scores=scores, failed_saves=progress.failed_saves + 1)

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
            self._commits.tell_times(times_of(action, epoch, files))

    def _uploader_of(self, place: Place) -> Uploader | Sender | None:
        builder, commits = place.builder, self._commits
        policy = self._job.checkpoint.upload or HANDED_OVER
        if builder is None:
            return None
        if isinstance(builder, ObjectUpload):
            sender = Sender(builder, policy, self._store, self._listen, commits.tell_times)
            commits.held = sender.held
            return sender
        report = partial(self._report, "upload")
        return Uploader(builder, policy, self._store, self._session, self._listen, report)
