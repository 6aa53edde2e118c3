"""Find the saved epochs of a run that are gone, for commands that read its newest epoch.

``recovery`` does the same for a resume, under the run's lock; here the run may be live.
"""

from __future__ import annotations

from collections.abc import Callable

from jobrun.core.errors import CheckpointError
from jobrun.runner.resume.recovery import FROM_INIT, lost_error
from jobrun.runner.rundir.journal import read_journal
from jobrun.runner.rundir.run_directories import Run


def find_lost_epochs(run: Run, list_epochs: Callable[[], tuple[int, ...]]) -> tuple[int, ...]:
    """List the epochs of a run that were saved, that nothing has deleted, and that are gone.

    Args:
        run: The run; it may be live.
        list_epochs: Lists the epochs in its store.

    Raises:
        CheckpointError: E356, the journal is damaged.
    """
    # Read on both sides of the listing: a live run saves, deletes and goes back meanwhile.
    before = read_journal(run.path, run.record.run_id)
    recorded = run.epoch_without_journal
    existing = list_epochs()
    after = read_journal(run.path, run.record.run_id)
    lost = sorted({*before.find_lost(existing)} & {*after.find_lost(existing)})
    if recorded > max(existing, default=FROM_INIT):
        lost.append(recorded)
    return tuple(lost)


def require_newest_epoch(run: Run, list_epochs: Callable[[], tuple[int, ...]]) -> None:
    """Raise if a command would read an older epoch of a run as its newest.

    Raises:
        CheckpointError: E357, the newest saved epoch is gone; E356, the journal is damaged.
    """
    lost, existing = find_lost_epochs(run, list_epochs), list_epochs()
    # What else is there, such as an empty directory of a later epoch, was never saved.
    saved = {*read_journal(run.path, run.record.run_id).epochs} or {*existing}
    newest = max(saved & {*existing}, default=FROM_INIT)
    if lost and lost[-1] > newest:
        raise lost_error(tuple(epoch for epoch in lost if epoch > newest), existing, newest)


def describe_lost_epochs(run: Run, list_epochs: Callable[[], tuple[int, ...]]) -> str:
    """Describe which saved epochs of a run are gone, in one clause; empty if none are."""
    try:
        lost = find_lost_epochs(run, list_epochs)
    except CheckpointError as error:
        return error.faults[0].message
    return lost_error(lost, list_epochs(), FROM_INIT).faults[0].message if lost else ""
