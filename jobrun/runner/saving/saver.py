"""Decide when an epoch is saved, in which thread, and what a failed save means.

::

    boundary E      snapshot the state of all nodes; hand it to the thread; continue
    epoch E + 1     |  write, commit, acknowledge, report, delete old ones
    boundary E + 1  wait for that; report the outcome; upload; snapshot again …

Without memory for it, or where the spec says so, all of it happens at the
boundary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from jobrun.checkpoint.checkpoint_times import SavePause, build_times
from jobrun.checkpoint.stores.manifest import SETTINGS
from jobrun.checkpoint.task_groups import TICKET_OUTPUT, save_group, stored_files
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.events import CheckpointFailed, Listener, Noted, ignore
from jobrun.core.text.units import size, span
from jobrun.graph.checkpoint_policy import WAIT_SHARE
from jobrun.graph.types import Job
from jobrun.runner.rundir.lock import RunLostError
from jobrun.runner.saved_progress import Progress, to_json
from jobrun.runner.saving.background_thread import AbandonedError, BackgroundThread, Permit
from jobrun.runner.saving.commit import CheckpointTarget, Committer, RunIdentity, SaveRequest
from jobrun.runner.saving.memory_budget import MemoryBudget, free_memory_bytes
from jobrun.runner.saving.time_budget import SaveBudget
from jobrun.runner.saving.upload_to_directory import DEFAULT_UPLOAD, GroupUploader
from jobrun.runner.time_account import TimeAccount
from jobrun.session.base import Outputs, Session

if TYPE_CHECKING:
    from jobrun.runner.saving.upload_to_object_store import BackgroundUploader


class Saver(Protocol):
    """How the loop of a job saves epochs."""

    def is_due(self, progress: Progress) -> bool:
        """Return whether the saver must save the epoch that has just ended, by its policy."""

    def save(self, progress: Progress) -> Progress:
        """Save an epoch, at once or in the background; return the run's updated progress.

        Raises:
            EnvironmentFaultError: It, or the one before, could not be saved, twice.
        """

    def handle_outcome(self, progress: Progress) -> Progress:
        """Return the run's progress after the saver's last save; count the save if it failed.

        Raises:
            EnvironmentFaultError: It failed.
        """

    def settle(self, progress: Progress) -> Progress:
        """Wait for the saver's running save; return the run's progress, a failure counted."""

    def handle_load(self, progress: Progress, outputs: Outputs) -> None:
        """Let the saver report an epoch's load, and delete old epochs that a kill left.

        What is reported is how long it took, by the load group's outputs.

        Raises:
            EnvironmentFaultError: What it makes superfluous could not be deleted.
        """

    def finish(self) -> None:
        """End the saver's work after the last epoch: upload the epochs that are still due.

        Raises:
            EnvironmentFaultError: It failed, and is required.
        """

    def close(self) -> None:
        """Wait until the save in progress is durable; warn of a failure, and raise nothing."""

    @property
    def seconds(self) -> float:
        """How long the saver's last save took until it was durable."""

    @property
    def saved(self) -> int:
        """The newest epoch that the saver has made durable; -1 for none."""


class NoSaver:
    """``checkpoint: none``: saves nothing."""

    seconds: float = 0.0
    saved: int = -1

    def is_due(self, progress: Progress) -> bool:
        """Return False, as this saver, of a run without checkpoints, never saves."""
        del progress
        return False

    def save(self, progress: Progress) -> Progress:
        """Return the run's progress unchanged, as this saver saves nothing."""
        return progress

    def handle_outcome(self, progress: Progress) -> Progress:
        """Return the run's progress unchanged, as this saver has no save that can fail."""
        return progress

    def settle(self, progress: Progress) -> Progress:
        """Return the run's progress unchanged, as this saver has no save to wait for."""
        return progress

    def handle_load(self, progress: Progress, outputs: Outputs) -> None:
        """Do nothing after the load of an epoch: an unsaved run has no epochs to delete."""

    def finish(self) -> None:
        """Do nothing at a run's end, as this saver has no uploads to finish."""

    def close(self) -> None:
        """Do nothing, as this saver has no save to wait for."""


# Reported only if the saving thread dies, for example without memory.
_UNFINISHED = EnvironmentFaultError.of(
    "E411", "the thread that saves ended before its work", "raise the limit of memory"
)


class _Outcome(Struct):
    """The result of a save.

    Attributes:
        error: What it failed of; None once the epoch is durable, and not before.
        seconds: From its begin until it was durable.
        background_s: Processor time of the thread that saved in the background.
    """

    epoch: int
    error: BaseException | None = _UNFINISHED
    seconds: float = 0.0
    background_s: float = 0.0


def _never() -> bool:
    return False


class CheckpointSaver:
    """Saves the state of a session's nodes into a store, as the job's policy says.

    Args:
        job: What is run.
        session: Has the state.
        place: Where epochs are kept.
        identity: What every manifest says.
        listen: Receives events.
        saved: The newest epoch that is durable already.
        is_late: Whether there is no time to wait for a save that is under way.
        account: Where the time of the run goes: here to saves and uploads.
    """

    def __init__(
        self,
        job: Job,
        session: Session,
        target: CheckpointTarget,
        identity: RunIdentity,
        listen: Listener = ignore,
        saved: int = -1,
        is_late: Callable[[], bool] = _never,
        account: TimeAccount | None = None,
    ) -> None:
        self._job = job
        self._account = account or TimeAccount()
        self._session = session
        self._store = target.store
        self._handlers = target.handlers
        self._listen = listen
        self._is_late = is_late
        self._commits = Committer(job, session, target, identity, listen, self._account)
        self._commits.saved = saved
        self._group = save_group(job, identity.run_id)
        self._headroom = MemoryBudget(job.checkpoint.asynchronous, free_memory_bytes)
        self._background = BackgroundThread("jobrun-save")
        self._outcome: _Outcome | None = None
        self._saved_at = time.monotonic()
        self._uploader = self._uploader_of(target)
        self._told_why = False
        self._budget = SaveBudget(WAIT_SHARE) if job.checkpoint.is_automatic else None
        self._has_said_interval = False
        self.seconds = 0.0

    @property
    def saved(self) -> int:
        """The newest epoch that the saver has made durable; -1 for none."""
        return self._commits.saved

    def is_due(self, progress: Progress) -> bool:
        """Return whether this saver is to save an epoch that has ended; epoch 0 always is."""
        policy = self._job.checkpoint
        if self._budget is not None and progress.epoch:
            return self._fits_budget(self._budget, progress.epoch, progress.epoch_s)
        if policy.every_epochs:
            return progress.epoch % policy.every_epochs == 0
        return progress.epoch == 0 or time.monotonic() - self._saved_at >= policy.every_s

    def _fits_budget(self, budget: SaveBudget, epoch: int, epoch_s: float) -> bool:
        """Return whether ``every: auto`` lets the saver save now; emit a note if not, once."""
        if budget.is_due(self.seconds if self._background.is_busy else 0.0):
            return True
        if not self._has_said_interval:
            self._has_said_interval = True
            often_s = max(budget.interval_s, self.seconds)
            bound = span(often_s + self.seconds + epoch_s)
            self._listen(
                Noted(
                    f"from epoch {epoch} on, an epoch is saved about every {span(often_s)}, so "
                    f"that a kill loses at most {bound} of work: to save each would take over "
                    f"{WAIT_SHARE * 100:g} % of the time (checkpoint.every: auto)"
                )
            )
        return False

    def save(self, progress: Progress) -> Progress:
        """Save an epoch now or in the background, once the epoch before is durable."""
        started = time.monotonic()
        before = self._account.switch("saves")
        try:
            return self._save(progress, started)
        finally:
            self._account.switch(before)
            if self._budget is not None:
                self._budget.spend(time.monotonic() - started)

    def _save(self, progress: Progress, started: float) -> Progress:
        progress = self.settle(progress)
        waited_s = time.monotonic() - started
        outcome = _Outcome(progress.epoch)
        try:
            self._expect_accessible(progress.epoch)
            request = self._build_request(progress, started, waited_s)
        except EnvironmentFaultError as error:
            outcome.error, self._outcome = error, outcome
            return self.handle_outcome(progress)
        work = partial(self._carry_out, request, outcome)
        if request.pause.in_background:
            self._background.start(work)
            self._outcome = outcome
            return progress
        self._outcome = outcome
        work(Permit())
        return self.handle_outcome(progress)

    def handle_outcome(self, progress: Progress) -> Progress:
        """Count this saver's last save in the run's progress if it failed; else upload it."""
        if self._background.is_busy or self._outcome is None:
            return progress
        outcome, self._outcome = self._outcome, None
        if outcome.error is not None:
            return self._count_failure(progress, outcome.epoch, outcome.error)
        self.seconds = outcome.seconds
        if self._budget is not None:
            self._budget.spend_background(outcome.background_s)
        if self._uploader:
            before = self._account.switch("upload")
            try:
                self._uploader.committed(outcome.epoch)
            finally:
                self._account.switch(before)
        return progress

    def settle(self, progress: Progress) -> Progress:
        """Wait for this saver's running save unless time is up; return the run's progress."""
        if not self._background.is_busy and self._outcome is None:
            return progress
        before = self._account.switch("saves")
        try:
            return self._settle(progress)
        finally:
            self._account.switch(before)

    def _settle(self, progress: Progress) -> Progress:
        if not self._background.wait(self._is_late):
            self._outcome = None
        return self.handle_outcome(progress)

    def handle_load(self, progress: Progress, outputs: Outputs) -> None:
        """Let the saver report a load's time, delete old epochs, and upload the loaded one."""
        self._report("load", progress.epoch, outputs)
        # A kill may have come between the save and this.
        self._commits.retain(progress)
        if self._uploader:
            self._uploader.committed(progress.epoch)

    def finish(self) -> None:
        """Upload at the run's end the epochs that this saver still has to upload."""
        if self._uploader:
            before = self._account.switch("upload")
            try:
                self._uploader.finish(self.saved)
            finally:
                self._account.switch(before)

    def close(self) -> None:
        """Wait for the save in progress; warn of a failure, and free all resources."""
        self._account.switch("saves")
        ended = self._background.wait(self._is_late)
        outcome, self._outcome = self._outcome, None
        if ended and outcome is not None and outcome.error is not None:
            self._listen(CheckpointFailed(outcome.epoch, str(outcome.error)))
        self._background.close()
        if self._uploader is not None and not isinstance(self._uploader, GroupUploader):
            self._uploader.close()
        self._store.close()

    def _build_request(self, progress: Progress, started: float, waited_s: float) -> SaveRequest:
        """Take a snapshot of all nodes' state; return what the saver needs to store it."""
        content = to_json(progress)
        outputs = self._session.run(self._group, progress.epoch, {})
        tickets = tuple(outputs[ref] for ref in outputs if ref.output == TICKET_OUTPUT)
        in_background = self._goes_in_background(sum(ticket.size_bytes for ticket in tickets))
        if in_background:
            # After the last epoch no group runs until the save is durable.
            groups = () if progress.stopping else (self._job.epoch,)
            self._session.protect(tickets, groups)
        settings = {ticket.node: dict(ticket.settings) for ticket in tickets if ticket.settings}
        if settings:
            content[SETTINGS] = settings
        self._saved_at = time.monotonic()
        pause = SavePause(
            self._saved_at - started - waited_s, waited_s, in_background=in_background
        )
        return SaveRequest(progress, content, tickets, started, pause)

    def _goes_in_background(self, state_bytes: int) -> bool:
        if self._headroom.allows(state_bytes):
            return True
        if self._job.checkpoint.asynchronous is None and not self._told_why:
            self._told_why = True
            free = size(self._headroom.free_bytes)
            text = f"the state takes {size(state_bytes)}, and {free} of memory are free"
            self._listen(Noted(f"{text}: the run waits while an epoch is saved"))
        return False

    def _carry_out(self, request: SaveRequest, outcome: _Outcome, permit: Permit) -> None:
        began = time.thread_time()
        try:
            self._commits.commit_epoch(request, permit)
            outcome.error = None
            outcome.seconds = time.monotonic() - request.started
            outcome.background_s = (
                time.thread_time() - began if request.pause.in_background else 0.0
            )
        except AbandonedError:
            # The owner has abandoned this save.
            return
        except BaseException as error:  # noqa: BLE001 - raised at the next boundary
            outcome.error = error
        if not request.pause.in_background:
            self._saved_at = time.monotonic()

    def _count_failure(self, progress: Progress, epoch: int, error: BaseException) -> Progress:
        """Count a failed save and warn of it if ``on_error: warn``; else raise its error."""
        passes = self._job.checkpoint.on_error == "warn" and not isinstance(error, RunLostError)
        if not (passes and isinstance(error, EnvironmentFaultError)):
            raise error
        self._listen(CheckpointFailed(epoch, str(error)))
        # An epoch that was not saved cannot be among the best that are kept.
        scores = tuple(score for score in progress.scores if score[0] != epoch)
        return replace(progress, scores=scores, failed_saves=progress.failed_saves + 1)

    def _expect_accessible(self, epoch: int) -> None:
        if not all(handler.accessible(None) for handler in self._handlers):
            raise EnvironmentFaultError.of(
                "E324",
                f"epoch {epoch} was not saved: the metadata handler says that nothing can be "
                "saved now",
                "check what the handler depends on, then resume",
            )

    def _report(self, action: str, epoch: int, outputs: Mapping[Any, Any]) -> None:
        files = stored_files(outputs)
        if files:
            self._commits.report_times(build_times(action, epoch, files))

    def _uploader_of(self, target: CheckpointTarget) -> GroupUploader | BackgroundUploader | None:
        builder, commits = target.builder, self._commits
        policy = self._job.checkpoint.upload or DEFAULT_UPLOAD
        if builder is None:
            return None
        from jobrun.runner.saving.upload_to_object_store import (  # noqa: PLC0415 - seldom
            BackgroundUploader,
            ObjectUpload,
        )

        if isinstance(builder, ObjectUpload):
            sender = BackgroundUploader(
                builder, policy, self._store, self._listen, commits.report_times
            )
            commits.held = sender.held
            return sender
        report = partial(self._report, "upload")
        return GroupUploader(builder, policy, self._store, self._session, self._listen, report)
