"""Plan at recovery which mid-epoch checkpoint a run continues from; then apply the plan.

First the plan, which only reads; then the changes on disk. The whole epoch from which the run
continues was chosen before (``recovery``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jobrun.checkpoint.store_protocol import Damage, Manifest
from jobrun.checkpoint.stores.mid_epoch_store import (
    MidEpochStore,
    list_mid_epochs,
    remove_mid_epochs,
)
from jobrun.core.errors import CheckpointError, SpecError
from jobrun.core.events import Listener, Noted
from jobrun.graph.types import Job
from jobrun.runner.resume.recovery import RecoveryPlan
from jobrun.runner.rundir.journal import Journal, JournalContents

if TYPE_CHECKING:
    from jobrun.runtime.context.safe_point import SafePoint

MidEpoch = tuple[int, int]


class EntryPlan(Struct, frozen=True):
    """What to do with mid-epoch checkpoints before a run continues.

    Attributes:
        epoch: The one that runs next.
        records: After how many of its records the run continues; 0: from its beginning.
        generation: The run's.
        acknowledge: It is there, but a crash came before its acknowledgement.
        lost: The number of records the user was promised, where that is gone and may be; else 0.
        damaged: Those that cannot be used, newest first, and why.
        aside: Epoch and records of those that are kept out of the way.
        over: Those that are superfluous: their epoch is saved, or a later one of it.
    """

    epoch: int = 0
    records: int = 0
    generation: int = 0
    acknowledge: bool = False
    lost: int = 0
    damaged: tuple[Damage, ...] = ()
    aside: tuple[MidEpoch, ...] = ()
    over: tuple[MidEpoch, ...] = ()


def plan_entry(
    root: str, recovery: RecoveryPlan, journal: JournalContents, run_id: str, *, allow_lost: bool
) -> EntryPlan:
    """Choose from the next epoch's mid-epoch checkpoints the one to continue from, if any.

    Args:
        root: Where checkpoints are.
        recovery: The plan for whole epochs; where that goes back, nothing within one is used.
        journal: What the journal says.
        run_id: The run's.
        allow_lost: Continue from the epoch's beginning when what the user was promised is gone.

    Raises:
        CheckpointError: What the user was promised is gone.
    """
    there = list_mid_epochs(root)
    epoch, generation = recovery.epoch + 1, recovery.generation
    over = [mid_epoch for mid_epoch in there if mid_epoch[0] < epoch]
    later = [mid_epoch for mid_epoch in there if mid_epoch[0] >= epoch]
    if recovery.rewind or not recovery.epoch >= 0:
        return EntryPlan(epoch, 0, generation, aside=tuple(later), over=tuple(over))
    damaged: list[Damage] = []
    aside: list[MidEpoch] = []
    records = 0
    for mid_epoch in reversed(later):
        checkpoint_generation, damage = _inspect(root, mid_epoch, run_id)
        if records and mid_epoch[0] == epoch:
            over.append(mid_epoch)
        elif damage is None and checkpoint_generation == generation and mid_epoch[0] == epoch:
            records = mid_epoch[1]
        else:
            damaged += [damage] if damage is not None else []
            aside.append(mid_epoch)
    promised, promised_records = journal.within
    is_lost = promised == epoch and promised_records > records and journal.within not in later
    lost = promised_records if is_lost else 0
    if lost and not allow_lost:
        raise CheckpointError.of(
            "E357",
            f"epoch {epoch} was saved after {lost} of its records, and that is gone",
            "put it back from a copy, or continue from the whole epoch before: jobrun resume RUN "
            f"--epoch {recovery.epoch}, or --allow-lost",
        )
    acknowledge = bool(records) and journal.within != (epoch, records)
    return EntryPlan(
        epoch, records, generation, acknowledge, lost, tuple(damaged), tuple(aside), tuple(over)
    )


def apply_entry(plan: EntryPlan, root: str, journal: Journal, run: Path, listen: Listener) -> None:
    """Apply the plan for recovery from mid-epoch checkpoints; the caller holds the run's lock.

    Raises:
        EnvironmentFaultError: Writing failed (such as ``ENOSPC``, ``EIO``).
    """
    if plan.lost or plan.damaged:
        # Otherwise the next recovery would report the moved checkpoints as lost.
        journal.rewind(plan.epoch - 1, plan.generation)
    if plan.records and (plan.acknowledge or plan.lost or plan.damaged):
        journal.acknowledge_within(plan.epoch, plan.records, plan.generation)
    if plan.lost:
        text = f"LOST: epoch {plan.epoch} was saved after {plan.lost} of its records"
        listen(Noted(f"{text}, and that is gone; continuing because of --allow-lost", "warning"))
    for damage in plan.damaged:
        text = f"a checkpoint within epoch {damage.epoch} cannot be used: {damage.reason}"
        listen(Noted(text, "warning"))
    for epoch, records in plan.aside:
        MidEpochStore(root, records).set_aside(
            (epoch,), str(_unused_path(run / "superseded", records))
        )
    remove_mid_epochs(root, plan.over)
    if plan.records:
        listen(Noted(f"epoch {plan.epoch} continues after {plan.records} of its records"))


def _inspect(root: str, mid_epoch: MidEpoch, run_id: str) -> tuple[int, Damage | None]:
    """Verify a mid-epoch checkpoint; return how often its run was rewound, and any damage."""
    epoch, records = mid_epoch
    store = MidEpochStore(root, records)
    damage = store.verify(epoch)
    if damage is not None:
        return -1, damage
    manifest = store.manifest(epoch)
    if manifest.run_id != run_id:
        return -1, Damage(epoch, f"it belongs to another run ({manifest.run_id})")
    return manifest.generation, None


def _unused_path(parent: Path, records: int) -> Path:
    number = 1
    while (path := parent / f"records-{records:06d}-{number}").exists():
        number += 1
    return path


def read_midpoint(job: Job, manifest: Manifest, directory: str) -> tuple[SafePoint, int]:
    """Read from a mid-epoch checkpoint where a resume continues, and the metrics log's length.

    The node's state is not in it: that is loaded as that of a whole epoch.

    Raises:
        CheckpointError: The files are damaged, or of another make.
        SpecError: E190, the job as it is now cannot be entered there.
    """
    # Lazy: they import numpy, and only a run that continues within an epoch needs them.
    from jobrun.checkpoint.checkpoint_file import read_state  # noqa: PLC0415
    from jobrun.runtime.context.safe_point import SafePoint  # noqa: PLC0415

    require_supported(job)
    midpoint = manifest.runner.get("midway")
    file = next(
        (
            stored_file
            for stored_file in manifest.files
            if stored_file.node == job.epoch.tasks[0].node
        ),
        None,
    )
    if not isinstance(midpoint, Mapping) or file is None:
        raise _incomplete_error(manifest.epoch)
    try:
        keys = [(letter, name) for letter, name in midpoint["scratch"]]
        cursors = tuple((delivered, rows) for delivered, rows in midpoint["cursors"])
        records, streams, size = midpoint["records"], midpoint["streams"], midpoint["metrics_bytes"]
    except (KeyError, TypeError, ValueError) as error:
        raise _incomplete_error(manifest.epoch) from error
    values = read_state(
        str(PurePath(directory, file.name)),
        node=file.node,
        epoch=manifest.epoch,
        run_id=manifest.run_id,
        digest=file.digest,
        names=[scratch_path(*key) for key in keys],
    )
    blobs: dict[str, dict[str, Any]] = {"t": {}, "g": {}, "n": {}}
    for letter, name in keys:
        blobs[letter][name] = values[scratch_path(letter, name)]
    return SafePoint(records, cursors, blobs, streams), size


def require_supported(job: Job) -> None:
    """Raise if a job cannot be saved within an epoch, and so not recovered there."""
    from jobrun.compile.checks.mid_epoch_saves import find_obstacles  # noqa: PLC0415

    for message, mend in find_obstacles(job):
        text = f"checkpoints within an epoch are not carried out yet {message}"
        raise SpecError.of("E190", text, f"{mend}; or continue from a whole epoch with --epoch N")


def scratch_path(letter: str, name: str) -> str:
    """Return the name, in a mid-epoch checkpoint, of a blob that lives only in the epoch."""
    return f"scratch/{letter}/{name}"


def _incomplete_error(epoch: int) -> CheckpointError:
    return CheckpointError.of(
        "E358",
        f"the checkpoint within epoch {epoch} does not say how far the epoch was",
        f"use the jobrun that wrote it, or the whole epoch before with --epoch {epoch - 1}",
    )
