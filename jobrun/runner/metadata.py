"""The run's own MetadataHandler: its manifests and its journal. And how another one is asked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from jobrun.checkpoint.metadata import Chosen, MetadataHandler
from jobrun.checkpoint.store import CheckpointStore
from jobrun.core.errors import CheckpointError, EnvironmentFaultError, JobrunError
from jobrun.core.events import CheckpointTimes, Listener, Noted, ignore
from jobrun.runner.entering import EntryPlan, carry_out_entry, plan_entry
from jobrun.runner.journal import Acknowledged, Journal, read_journal, set_aside_journal
from jobrun.runner.recover import (
    FROM_THE_START,
    Recovery,
    carry_out,
    generations,
    inspector,
    plan_recovery,
)

Answer = TypeVar("Answer")


class RunMetadata:
    """See ``MetadataHandler``. The journal is written only inside ``opened``.

    Args:
        store: The run's epochs.
        run: The run's directory.
        run_id: The run's.
        generation: The run's, as recorded.
        allow_lost: Go on although the newest epoch the user was told of is gone.
    """

    def __init__(
        self,
        store: CheckpointStore,
        run: Path,
        run_id: str,
        generation: int = 0,
        *,
        allow_lost: bool = False,
    ) -> None:
        self._store = store
        self._run = run
        self._run_id = run_id
        self._generation = generation
        self._allow_lost = allow_lost
        self._inspect = inspector(store, run_id)
        self._said = Acknowledged()
        self._journal_is_damaged = False
        self._journal: Journal | None = None
        self._listen: Listener = ignore
        self.recovery = Recovery(FROM_THE_START, generation)
        self.entry = EntryPlan()

    def last_epoch(self, wanted: int | None) -> Chosen:
        """See ``MetadataHandler.last_epoch``; what it asks for on disk is in ``recovery``."""
        self._said = self._acknowledged(wanted)
        existing = self._store.epochs()
        self.recovery = plan_recovery(
            existing,
            self._said,
            self._inspect,
            generations(self._store),
            self._generation,
            wanted,
            allow_lost=self._allow_lost,
        )
        self.entry = plan_entry(
            self.root, self.recovery, self._said, self._run_id, allow_lost=self._allow_lost
        )
        return Chosen(self.recovery.epoch, _reason(self.recovery, wanted))

    @property
    def root(self) -> str:
        """The directory that all checkpoints are in."""
        return str(Path(self._store.path(0)).parent)

    def accessible(self, epoch: int | None) -> bool:
        """See ``MetadataHandler.accessible``. Whether the disk takes a save, it says itself."""
        return epoch is None or (epoch in self._store.epochs() and self._inspect(epoch) is None)

    def written(self, epoch: int, generation: int) -> None:
        """Acknowledge the epoch in the journal: from here on the user may rely on it."""
        if self._journal is not None:
            self._journal.acknowledge(epoch, generation)

    def written_within(self, epoch: int, records: int, generation: int) -> None:
        """Acknowledge what is saved after so many records of an epoch."""
        if self._journal is not None:
            self._journal.acknowledge_within(epoch, records, generation)

    def report(self, times: CheckpointTimes) -> None:
        """Tell the listeners, and thereby the run's logs."""
        self._listen(times)

    @contextlib.contextmanager
    def opened(self, listen: Listener) -> Iterator[RunMetadata]:
        """Open the journal for writing. Only while holding the run's lock."""
        if self._journal_is_damaged:
            set_aside_journal(self._run)
        with contextlib.closing(Journal.open(self._run, self._run_id)) as journal:
            self._journal, self._listen = journal, listen
            if self._said.torn_bytes:
                listen(Noted("the last line of committed.jsonl was torn by a crash and is dropped"))
            yield self
            self._journal = None

    def recover(self, listen: Listener) -> None:
        """Do what ``recovery`` asks for. Only inside ``opened``.

        Raises:
            EnvironmentFaultError: The disk says no.
        """
        if self._journal is not None:
            carry_out(self.recovery, self._store, self._journal, self._run, listen)
            carry_out_entry(self.entry, self.root, self._journal, self._run, listen)

    def _acknowledged(self, wanted: int | None) -> Acknowledged:
        """What the journal says; a wanted epoch makes up for a damaged one."""
        try:
            return read_journal(self._run, self._run_id)
        except CheckpointError:
            if wanted is None:
                raise
            self._journal_is_damaged = True
            return Acknowledged()


class Guarded:
    """A handler from outside: what it raises or answers is checked before it is believed."""

    def __init__(self, handler: MetadataHandler) -> None:
        self._handler = handler
        self.name = type(handler).__name__

    def last_epoch(self, wanted: int | None) -> Chosen | None:
        """See ``MetadataHandler.last_epoch``."""
        said = self._ask("last_epoch", lambda: self._handler.last_epoch(wanted))
        if said is None or (isinstance(said, Chosen) and type(said.epoch) is int):
            return said
        raise self._odd("last_epoch", f"it answered {said!r:.80}")

    def accessible(self, epoch: int | None) -> bool:
        """See ``MetadataHandler.accessible``."""
        said = self._ask("accessible", lambda: self._handler.accessible(epoch))
        if isinstance(said, bool):
            return said
        raise self._odd("accessible", f"it answered {said!r:.80}")

    def written(self, epoch: int, generation: int) -> None:
        """See ``MetadataHandler.written``."""
        self._ask("written", lambda: self._handler.written(epoch, generation))

    def report(self, times: CheckpointTimes) -> None:
        """See ``MetadataHandler.report``."""
        self._ask("report", lambda: self._handler.report(times))

    def _ask(self, what: str, call: Callable[[], Answer]) -> Answer:
        try:
            return call()
        except JobrunError:
            raise
        except Exception as error:
            raise self._odd(what, f"{type(error).__name__}: {error}") from error

    def _odd(self, what: str, how: str) -> EnvironmentFaultError:
        return EnvironmentFaultError.of(
            "E322", f"the metadata handler {self.name} failed at '{what}': {how}",
            "mend the handler, then resume",
        )  # fmt: skip


def choose_epoch(own: RunMetadata, other: Guarded | None, wanted: int | None) -> Chosen:
    """Choose the epoch to continue from, and plan the way there (``own.recovery``). Only reads.

    Another handler's word counts before the user's, and both before the run's own; the run's
    own decides whether that epoch can be used.

    Raises:
        CheckpointError: There is none that can be used.
    """
    said = other.last_epoch(wanted) if other else None
    if said is None or other is None:
        return own.last_epoch(wanted)
    if not (wanted is None and _newest(own) == said.epoch):
        if said.epoch == FROM_THE_START:
            raise CheckpointError.of(
                "E323",
                f"the metadata handler {other.name} wants to begin anew, and there are epochs",
                "start a new run with 'jobrun run SPEC --resume never'",
            )
        own.last_epoch(said.epoch)
    return Chosen(said.epoch, f"{other.name} says: {said.reason}")


def _newest(own: RunMetadata) -> int | None:
    """What the run would choose by itself; None if it cannot."""
    try:
        return own.last_epoch(None).epoch
    except CheckpointError:
        # A named epoch makes up for what is lost or damaged.
        return None


def told_choice(chosen: Chosen) -> Noted:
    """From where the run continues, and why, for people."""
    where = "init" if chosen.epoch == FROM_THE_START else f"epoch {chosen.epoch}"
    return Noted(f"continuing from {where}: {chosen.reason}")


def _reason(recovery: Recovery, wanted: int | None) -> str:
    if wanted is not None:
        return "it was asked for"
    if recovery.epoch == FROM_THE_START:
        return "no epoch has been saved yet"
    if recovery.skipped:
        return f"the newest that can be used; {len(recovery.skipped)} newer cannot"
    return "the newest that is saved"
