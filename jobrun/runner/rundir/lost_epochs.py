"""Find the saved epochs of a run that are gone, for commands that read its newest epoch.

``recovery`` does the same for a resume, under the run's lock; here the run may be live.
"""

from __future__ import annotations

from collections.abc import Callable

from jobrun.core.errors import CheckpointError
from jobrun.runner.rundir.journal import read_journal
from jobrun.runner.rundir.run_directories import Run

NO_EPOCH = -1


def find_lost_epochs(run: Run, list_epochs: Callable[[], tuple[int, ...]]) -> tuple[int, ...]:
    """List the epochs of a run that were saved, that nothing has deleted, and that are gone.

    Args:
        run: The run; it may be live.
        list_epochs: Lists the epochs in its store.

    Raises:
        CheckpointError: E356, the journal is damaged.
    """
    # The journal is read before and after the listing: a live run saves, deletes and rewinds
    # meanwhile.
    before = read_journal(run.path, run.record.run_id)
    recorded = run.epoch_without_journal
    existing = list_epochs()
    after = read_journal(run.path, run.record.run_id)
    lost = sorted({*before.find_lost(existing)} & {*after.find_lost(existing)})
    if recorded > max(existing, default=NO_EPOCH):
        lost.append(recorded)
    return tuple(lost)


def require_newest_epoch(run: Run, list_epochs: Callable[[], tuple[int, ...]]) -> None:
    """Raise if a command would read an older epoch of a run as its newest.

    Raises:
        CheckpointError: E357, the newest saved epoch is gone; E356, the journal is damaged.
    """
    lost, existing = find_lost_epochs(run, list_epochs), list_epochs()
    # Other directories, such as an empty one of a later epoch, were never saved.
    saved = {*read_journal(run.path, run.record.run_id).epochs} or {*existing}
    newest = max(saved & {*existing}, default=NO_EPOCH)
    if lost and lost[-1] > newest:
        raise lost_error(tuple(epoch for epoch in lost if epoch > newest), existing, newest)


def describe_lost_epochs(run: Run, list_epochs: Callable[[], tuple[int, ...]]) -> str:
    """Describe which saved epochs of a run are gone, in one clause; empty if none are."""
    try:
        lost = find_lost_epochs(run, list_epochs)
    except CheckpointError as error:
        return error.faults[0].message
    return lost_error(lost, list_epochs(), NO_EPOCH).faults[0].message if lost else ""


def lost_error(
    lost: tuple[int, ...], there: tuple[int, ...], usable: int, source: str = ""
) -> CheckpointError:
    """Build the error for acknowledged epochs that are gone (E357).

    Args:
        lost: Those epochs.
        there: The epochs in the store.
        usable: The newest that can be used instead; ``NO_EPOCH`` for none.
        source: Words that say where they are recorded, if not in the journal.
    """
    mend = "put the checkpoints back from a copy, or start again: jobrun run SPEC --resume never"
    if usable != NO_EPOCH:
        which = "it" if len(lost) == 1 else "them"
        mend = (
            f"put {which} back, or continue from an older one: jobrun resume RUN --epoch {usable}, "
            f"or --allow-lost; other commands take RUN@{usable}"
        )
    return CheckpointError.of(
        "E357", f"{are_gone(lost, source)}; there are {format_epochs(there)}", mend
    )


def are_gone(lost: tuple[int, ...], source: str = "") -> str:
    """Say in one clause that saved epochs are gone, and where that is recorded."""
    if len(lost) == 1:
        return f"epoch {lost[0]} was saved{source} and is gone"
    return f"{format_epochs(lost)} were saved{source} and are gone"


def format_epochs(epochs: tuple[int, ...]) -> str:
    """Format epochs for a message as ranges: ``epochs 0, 3-5``."""
    if not epochs:
        return "no epochs"
    runs: list[list[int]] = []
    for epoch in epochs:
        if runs and epoch == runs[-1][-1] + 1:
            runs[-1][1:] = [epoch]
        else:
            runs.append([epoch])
    return "epochs " + ", ".join("-".join(map(str, run)) for run in runs)
