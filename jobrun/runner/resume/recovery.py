"""Plan which stored epoch a run continues from and what to move aside; then apply the plan.

Nothing is ever deleted here, and nothing starts over by itself: a run that has lost what
the user was promised stops, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec import Struct

from jobrun.checkpoint.store_protocol import CheckpointStore, Damage
from jobrun.core.errors import CheckpointError
from jobrun.core.events import CheckpointSkipped, Listener, Noted
from jobrun.core.failpoints import reach
from jobrun.core.files.disk import disk_faults, remove_unfinished_files, sync_directory
from jobrun.runner.rundir.journal import Journal, JournalContents
from jobrun.runner.rundir.lost_epochs import are_gone, format_epochs, lost_error

FROM_INIT = -1


class RecoveryPlan(Struct, frozen=True):
    """What to do before a run continues.

    Attributes:
        epoch: The one to load; ``FROM_INIT`` to run init.
        generation: The one from here on.
        skipped: Newer epochs that cannot be used, newest first, and why.
        superseded: Epochs that the run has gone back behind, with their generation.
        acknowledge: The epoch is there, but a crash came before its acknowledgement.
        rewind: Later acknowledgements no longer count.
        lost: The acknowledged epochs after it that are gone, where they may be.
    """

    epoch: int
    generation: int = 0
    skipped: tuple[Damage, ...] = ()
    superseded: tuple[tuple[int, int], ...] = ()
    acknowledge: bool = False
    rewind: bool = False
    lost: tuple[int, ...] = ()


def plan_recovery(
    existing: tuple[int, ...],
    journal: JournalContents,
    inspect: Callable[[int], Damage | None],
    generation_of: Callable[[int], int | None],
    generation: int,
    wanted: int | None = None,
    *,
    allow_lost: bool = False,
    recorded: int = -1,
) -> RecoveryPlan:
    """Plan the recovery of a run: choose the epoch to continue from, and change nothing.

    Args:
        existing: The epochs in the store, ascending.
        journal: What the journal says.
        inspect: Reads an epoch as a whole; why it cannot be used, or None.
        generation_of: The generation that an epoch was made in.
        generation: The run's.
        wanted: Exactly this epoch, and a new generation.
        allow_lost: Continue from an older epoch although acknowledged ones after it are gone.
            Never from the start.
        recorded: The newest epoch that ``run.json`` says was saved, where the journal is gone.

    Raises:
        CheckpointError: The wanted epoch is not there or damaged, an epoch the user was
            promised is gone, or none can be used.
    """
    if wanted is not None:
        return _plan_exact(wanted, existing, inspect, generation_of, generation)
    # After an interrupted rewind: later epochs of an older generation are superseded.
    over = tuple(
        (epoch, epoch_generation)
        for epoch in existing
        if journal.rewound_to >= 0
        and epoch > journal.rewound_to
        and (epoch_generation := generation_of(epoch)) is not None
        and epoch_generation < journal.generation
    )
    there = tuple(epoch for epoch in existing if epoch not in dict(over))
    generation = max(generation, journal.generation)
    chosen, skipped = _find_good(there, inspect)
    # Other directories, such as an empty one of a later epoch, do not replace acknowledged epochs.
    lost = journal.find_lost(there, chosen)
    if recorded > chosen and recorded not in there:
        lost = (*lost, recorded)
    if lost and not (allow_lost and there):
        raise lost_error(lost, there, chosen, "" if journal.epochs else ", as run.json says,")
    if chosen == FROM_INIT:
        if skipped:
            raise _unusable_error(skipped)
        return RecoveryPlan(FROM_INIT, generation, superseded=over)
    return RecoveryPlan(
        chosen,
        generation,
        skipped,
        over,
        acknowledge=chosen not in journal.epochs,
        rewind=bool(skipped or lost),
        lost=lost,
    )


def _find_good(
    there: tuple[int, ...], inspect: Callable[[int], Damage | None]
) -> tuple[int, tuple[Damage, ...]]:
    """Return the newest epoch that recovery can use, or ``FROM_INIT``, and the damaged after it."""
    skipped: list[Damage] = []
    for epoch in reversed(there):
        damage = inspect(epoch)
        if damage is None:
            return epoch, tuple(skipped)
        skipped.append(damage)
    return FROM_INIT, tuple(skipped)


def apply_recovery(
    plan: RecoveryPlan, store: CheckpointStore, journal: Journal, run: Path, listen: Listener
) -> None:
    """Apply a recovery plan: rewind the journal, move damaged and later epochs away.

    The journal first: if a crash follows, the epochs that are still to be moved are known to
    be over, and the next recovery comes to the same plan.

    Raises:
        EnvironmentFaultError: Writing failed (such as ``ENOSPC``, ``EIO``).
    """
    root = Path(store.path(0)).parent
    if root.is_dir():
        with disk_faults("E354", f"sync {root}"):
            # A killed process may have renamed an epoch without a sync: sync before an epoch that
            # is visible now is promised, and before removed files are deleted.
            sync_directory(root)
    if plan.rewind:
        journal.rewind(plan.epoch, plan.generation)
        reach("runner.rewound")
    if plan.acknowledge:
        journal.acknowledge(plan.epoch, plan.generation)
    if plan.lost:
        listen(Noted(_lost_warning(plan), "warning"))
    for damage in plan.skipped:
        listen(CheckpointSkipped(damage.epoch, damage.reason))
    if plan.skipped:
        damaged = tuple(sorted(damage.epoch for damage in plan.skipped))
        store.set_aside(damaged, str(_unused_path(run / "superseded", "damaged")))
    for generation in sorted({epoch_generation for _, epoch_generation in plan.superseded}):
        epochs = tuple(
            sorted(
                epoch
                for epoch, epoch_generation in plan.superseded
                if epoch_generation == generation
            )
        )
        store.set_aside(epochs, str(_unused_path(run / "superseded", f"g{generation}")))
    for leftover in store.sweep():
        listen(Noted(f"removed {leftover}, which an interrupted save had left behind"))
    # Only tasks write there, and the tasks of the killed process have ended.
    with disk_faults("E354", f"remove unfinished files in {run / 'artifacts'}"):
        remove_unfinished_files(run / "artifacts")
    reach("runner.recovered")


def epoch_inspector(store: CheckpointStore, run_id: str) -> Callable[[int], Damage | None]:
    """Return a function that says why recovery cannot use an epoch: a ``Damage``, or None."""
    return partial(_find_damage, store, run_id)


def generation_reader(store: CheckpointStore) -> Callable[[int], int | None]:
    """Return a function by which recovery reads how often a run was rewound before an epoch."""
    return partial(_read_generation, store)


def _find_damage(store: CheckpointStore, run_id: str, epoch: int) -> Damage | None:
    damage = store.verify(epoch)
    if damage is not None:
        return damage
    manifest = store.manifest(epoch)
    if manifest.run_id != run_id:
        return Damage(epoch, f"it belongs to another run ({manifest.run_id})")
    if manifest.epoch != epoch:
        return Damage(epoch, f"its manifest is that of epoch {manifest.epoch}")
    return None


def _read_generation(store: CheckpointStore, epoch: int) -> int | None:
    try:
        return store.manifest(epoch).generation
    except CheckpointError:
        return None


def _plan_exact(
    wanted: int,
    existing: tuple[int, ...],
    inspect: Callable[[int], Damage | None],
    generation_of: Callable[[int], int | None],
    generation: int,
) -> RecoveryPlan:
    if wanted not in existing:
        raise CheckpointError.of(
            "E359", f"epoch {wanted} is not there", f"there are {format_epochs(existing)}"
        )
    damage = inspect(wanted)
    if damage is not None:
        others = tuple(epoch for epoch in existing if epoch != wanted)
        raise CheckpointError.of(
            "E359",
            f"epoch {wanted} cannot be used: {damage.reason}",
            f"there are also {format_epochs(others)}",
        )
    later = tuple((epoch, generation_of(epoch) or 0) for epoch in existing if epoch > wanted)
    return RecoveryPlan(wanted, generation + 1, superseded=later, acknowledge=True, rewind=True)


def _unused_path(parent: Path, name: str) -> Path:
    """Return an unused path to which a recovery can move epochs, such as ``name-2``."""
    path, number = parent / name, 1
    while path.exists():
        number += 1
        path = parent / f"{name}-{number}"
    return path


def _lost_warning(plan: RecoveryPlan) -> str:
    return f"LOST: {are_gone(plan.lost)}; continuing from epoch {plan.epoch}, as --allow-lost says"


def _unusable_error(skipped: tuple[Damage, ...]) -> CheckpointError:
    reasons = "; ".join(f"epoch {damage.epoch}: {damage.reason}" for damage in skipped)
    return CheckpointError.of(
        "E358",
        f"no stored epoch can be used: {reasons}",
        "put back a copy of the run, or start a new one with 'jobrun run SPEC --resume never'",
    )
