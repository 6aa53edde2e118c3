"""Implement the run's own ``MetadataHandler``, and check the answers of the user's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from jobrun.checkpoint.metadata_handler import Chosen, MetadataHandler
from jobrun.checkpoint.store_protocol import CheckpointStore, Damage, EpochHold
from jobrun.checkpoint.stores.read_locks import not_held_error, retry_attempts
from jobrun.core.errors import CheckpointError, EnvironmentFaultError, JobrunError
from jobrun.core.events import CheckpointTimes, Listener, Noted, ignore
from jobrun.runner.resume.metrics_recovery import restore_metrics
from jobrun.runner.resume.mid_epoch_recovery import EntryPlan, apply_entry, plan_entry
from jobrun.runner.resume.recovery import (
    FROM_INIT,
    RecoveryPlan,
    apply_recovery,
    epoch_inspector,
    generation_reader,
    plan_recovery,
)
from jobrun.runner.rundir.journal import (
    Journal,
    JournalContents,
    MetricsSpan,
    read_journal,
    set_aside_journal,
)

_T = TypeVar("_T")
# Returns the number and checksum of the lines of metrics up to an epoch, since the last call.
CountMetrics = Callable[[int], tuple[int, int]]


class _EpochGoneError(Exception):
    """An epoch that was listed is not there any more."""

    def __init__(self, epoch: int) -> None:
        super().__init__(epoch)
        self.epoch = epoch


class RunMetadata:
    """The run's own ``MetadataHandler``; it writes the journal only inside ``opened``.

    Args:
        store: The run's epochs.
        run: The run's directory.
        run_id: The run's.
        generation: The run's, as recorded.
        allow_lost: Go on although the newest epoch the user was promised is gone.
        recorded: See ``Run.epoch_without_journal``.
    """

    def __init__(
        self,
        store: CheckpointStore,
        run: Path,
        run_id: str,
        generation: int = 0,
        *,
        allow_lost: bool = False,
        recorded: int = -1,
    ) -> None:
        self._store = store
        self._run = run
        self._run_id = run_id
        self._generation = generation
        self._allow_lost = allow_lost
        self._recorded = recorded
        self._inspect = epoch_inspector(store, run_id)
        self._journal_contents = JournalContents()
        self._journal_is_damaged = False
        self._journal: Journal | None = None
        self._listen: Listener = ignore
        self._hold: EpochHold | None = None
        self._deletions: tuple[int, ...] = ()
        self._count_metrics: CountMetrics | None = None
        self._acknowledged_epoch = FROM_INIT
        self.recovery = RecoveryPlan(FROM_INIT, generation)
        self.entry = EntryPlan()

    def last_epoch(self, wanted: int | None) -> Chosen:
        """Choose from the run's journal the epoch to continue from; protect it from deletion.

        The epoch is held, so that a live run does not delete it: see ``release``.
        """
        self.release()
        self.recovery = self._planned(wanted)
        self.entry = plan_entry(
            self.root,
            self.recovery,
            self._journal_contents,
            self._run_id,
            allow_lost=self._allow_lost,
        )
        return Chosen(self.recovery.epoch, _reason(self.recovery, wanted))

    def release(self) -> None:
        """Release this metadata handler's lock, which kept the chosen epoch from deletion."""
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.release()

    @property
    def root(self) -> str:
        """The directory of the checkpoints that ``RunMetadata`` keeps for its run."""
        return str(Path(self._store.path(0)).parent)

    def accessible(self, epoch: int | None) -> bool:
        """Return whether the store has an undamaged epoch; True for None (a new save)."""
        return epoch is None or (epoch in self._store.epochs() and self._inspect(epoch) is None)

    def written(self, epoch: int, generation: int) -> None:
        """Write a durable epoch to the journal, as the run's own metadata handler."""
        if self._journal is not None:
            metrics = None
            if self._count_metrics and epoch > self._acknowledged_epoch:
                counted = self._count_metrics(epoch)
                metrics = MetricsSpan(self._acknowledged_epoch, epoch, *counted)
                self._acknowledged_epoch = epoch
            self._journal.acknowledge(epoch, generation, self._deletions, metrics)
            self._deletions = ()

    def record_deletions(self, epochs: tuple[int, ...]) -> None:
        """Record with the next ``written`` which epochs are deleted after it.

        It costs no write of its own, and is durable before the first of them goes.
        """
        self._deletions = epochs

    def written_within(self, epoch: int, records: int, generation: int) -> None:
        """Write a mid-epoch save to the journal, as the run's own metadata handler."""
        if self._journal is not None:
            self._journal.acknowledge_within(epoch, records, generation)

    def report(self, times: CheckpointTimes) -> None:
        """Emit an event for the run's own metadata handler: how long a save or load took."""
        self._listen(times)

    @contextlib.contextmanager
    def opened(
        self, listen: Listener, count_metrics: CountMetrics | None = None
    ) -> Iterator[RunMetadata]:
        """Open the run's journal in a ``with`` block, for this metadata handler to write to.

        Args:
            listen: Receives events.
            count_metrics: ``RunLogs.count_metrics``, recorded with each acknowledgement.
        """
        if self._journal_is_damaged:
            set_aside_journal(self._run)
        with contextlib.closing(Journal.open(self._run, self._run_id)) as journal:
            self._journal, self._listen = journal, listen
            self._count_metrics = count_metrics
            if self._journal_contents.torn_bytes:
                listen(Noted("the last line of committed.jsonl was torn by a crash and is dropped"))
            yield self
            self._journal = None

    def recover(self, listen: Listener) -> None:
        """Apply the recovery plan that this metadata handler made in ``last_epoch``.

        Raises:
            EnvironmentFaultError: Writing failed (such as ``ENOSPC``, ``EIO``).
        """
        # Under the run's lock only this process deletes epochs.
        self.release()
        if self._journal is not None:
            apply_recovery(self.recovery, self._store, self._journal, self._run, listen)
            apply_entry(self.entry, self.root, self._journal, self._run, listen)
            self._acknowledged_epoch = self.recovery.epoch

    def restore_metrics(self) -> None:
        """Restore what the log of metrics has lost since the epochs were acknowledged.

        Raises:
            EnvironmentFaultError: Writing failed (such as ``ENOSPC``, ``EIO``).
        """
        epoch, generation = self.recovery.epoch, self.recovery.generation
        if self._journal is not None and epoch != FROM_INIT:
            restored = restore_metrics(
                self._run, self._store, self._journal_contents, epoch, self._listen
            )
            if restored is not None:
                self._journal.acknowledge(epoch, generation, metrics=restored)

    def _planned(self, wanted: int | None) -> RecoveryPlan:
        """Plan which epoch the run's own metadata handler resumes; retry if it was deleted."""
        gone: set[int] = set()
        for _ in retry_attempts():
            self._journal_contents = self._acknowledged(wanted)
            try:
                return plan_recovery(
                    self._store.epochs(),
                    self._journal_contents,
                    self._held_and_inspected,
                    generation_reader(self._store),
                    self._generation,
                    wanted,
                    allow_lost=self._allow_lost,
                    recorded=self._recorded,
                )
            except _EpochGoneError as error:
                gone.add(error.epoch)
        raise not_held_error(str(self._run), gone)

    def _held_and_inspected(self, epoch: int) -> Damage | None:
        """Lock and verify an epoch for the run's own metadata handler; return any damage."""
        hold = self._store.hold(epoch)
        if hold is None:
            raise _EpochGoneError(epoch)
        damage = self._inspect(epoch)
        if damage is None:
            self._hold = hold
        else:
            hold.release()
        return damage

    def _acknowledged(self, wanted: int | None) -> JournalContents:
        """Read the journal for this metadata handler; ignore damage if the user named an epoch."""
        try:
            return read_journal(self._run, self._run_id)
        except CheckpointError:
            if wanted is None:
                raise
            self._journal_is_damaged = True
            return JournalContents()


class CheckedHandler:
    """Wraps the user's metadata handler: what it raises and returns is checked."""

    def __init__(self, handler: MetadataHandler) -> None:
        self._handler = handler
        self.name = type(handler).__name__

    def last_epoch(self, wanted: int | None) -> Chosen | None:
        """Ask the user's metadata handler which epoch to resume; check the answer's type."""
        answer = self._ask("last_epoch", lambda: self._handler.last_epoch(wanted))
        if answer is None or (isinstance(answer, Chosen) and type(answer.epoch) is int):
            return answer
        raise self._odd("last_epoch", f"it answered {answer!r:.80}")

    def accessible(self, epoch: int | None) -> bool:
        """Ask the user's metadata handler whether it can read an epoch; raise if not a bool."""
        answer = self._ask("accessible", lambda: self._handler.accessible(epoch))
        if isinstance(answer, bool):
            return answer
        raise self._odd("accessible", f"it answered {answer!r:.80}")

    def written(self, epoch: int, generation: int) -> None:
        """Notify the user's metadata handler that an epoch's checkpoint is durable."""
        self._ask("written", lambda: self._handler.written(epoch, generation))

    def report(self, times: CheckpointTimes) -> None:
        """Call the user's metadata handler with how long a save, load or upload took."""
        self._ask("report", lambda: self._handler.report(times))

    def _ask(self, method: str, call: Callable[[], _T]) -> _T:
        try:
            return call()
        except JobrunError:
            raise
        except Exception as error:
            raise self._odd(method, f"{type(error).__name__}: {error}") from error

    def _odd(self, method: str, reason: str) -> EnvironmentFaultError:
        return EnvironmentFaultError.of(
            "E322",
            f"the metadata handler {self.name} failed at '{method}': {reason}",
            "fix the handler, then resume",
        )


def choose_epoch(
    run_metadata: RunMetadata, other: CheckedHandler | None, wanted: int | None
) -> Chosen:
    """Choose the epoch to resume by asking the user's ``MetadataHandler``, then the run's own.

    Another handler's word counts before the user's, and both before the run's own; the run's
    own decides whether that epoch can be used.

    Raises:
        CheckpointError: There is none that can be used.
    """
    answer = other.last_epoch(wanted) if other else None
    if answer is None or other is None:
        return run_metadata.last_epoch(wanted)
    if not (wanted is None and _find_newest(run_metadata) == answer.epoch):
        if answer.epoch == FROM_INIT:
            raise CheckpointError.of(
                "E323",
                f"the metadata handler {other.name} wants to start from init, and there are epochs",
                "start a new run with 'jobrun run SPEC --resume never'",
            )
        run_metadata.last_epoch(answer.epoch)
    return Chosen(answer.epoch, f"{other.name} says: {answer.reason}")


def require_new_run(handler: MetadataHandler) -> None:
    """Raise if the user's metadata handler names an epoch to continue from for a new run.

    Raises:
        CheckpointError: It names an epoch.
    """
    other = CheckedHandler(handler)
    answer = other.last_epoch(None)
    if answer is not None and answer.epoch != FROM_INIT:
        raise CheckpointError.of(
            "E323",
            f"the metadata handler {other.name} wants to continue from epoch {answer.epoch}, and a "
            "new run has none",
            "resume the run that has it, or let last_epoch answer None for a new run",
        )


def _find_newest(run_metadata: RunMetadata) -> int | None:
    """Return the epoch that the run's own metadata handler would resume, if it finds one."""
    try:
        return run_metadata.last_epoch(None).epoch
    except CheckpointError:
        # Lost or damaged epochs do not matter if the handler names an epoch.
        return None


def build_choice_note(chosen: Chosen) -> Noted:
    """Build the log note that says from which epoch a run continues, and why."""
    where = "init" if chosen.epoch == FROM_INIT else f"epoch {chosen.epoch}"
    return Noted(f"continuing from {where}: {chosen.reason}")


def _reason(recovery: RecoveryPlan, wanted: int | None) -> str:
    if wanted is not None:
        return "it was asked for"
    if recovery.epoch == FROM_INIT:
        return "no epoch has been saved yet"
    if recovery.skipped:
        return f"the newest that can be used; {len(recovery.skipped)} newer cannot"
    return "the newest that is saved"
