"""In the middle of which epoch a run goes on: the checkpoints between two records, at recovery.

First the plan, which only reads; then what it asks for on disk. The whole epoch from which the run
goes on was chosen before (``recover``).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jobrun.checkpoint.midway import MidwayStore, midways
from jobrun.checkpoint.store import Damage
from jobrun.core.errors import CheckpointError
from jobrun.core.events import Listener, Noted
from jobrun.runner.journal import Acknowledged, Journal
from jobrun.runner.recover import Recovery

Midway = tuple[int, int]


@dataclass(frozen=True, slots=True)
class EntryPlan:
    """What to do before a run goes on.

    Attributes:
        epoch: The one that runs next.
        records: After how many of its records the run goes on; 0: from its beginning.
        generation: The run's.
        acknowledge: It is there, but a crash came before its acknowledgement.
        lost: The number of records the user was told of, where that is gone and may be; else 0.
        damaged: Those that cannot be used, newest first, and why.
        aside: Epoch and records of those that are kept out of the way.
        over: Those that nobody needs: their epoch is saved, or a later one of it.
    """

    epoch: int = 0
    records: int = 0
    generation: int = 0
    acknowledge: bool = False
    lost: int = 0
    damaged: tuple[Damage, ...] = ()
    aside: tuple[Midway, ...] = ()
    over: tuple[Midway, ...] = ()


def plan_entry(
    root: str, recovery: Recovery, said: Acknowledged, run_id: str, *, allow_lost: bool
) -> EntryPlan:
    """Choose the checkpoint within the next epoch to go on from, if there is one.

    Args:
        root: Where checkpoints are.
        recovery: The plan for whole epochs; where that goes back, nothing within one is used.
        said: What the journal says.
        run_id: The run's.
        allow_lost: Go on from the epoch's beginning when what the user was told of is gone.

    Raises:
        CheckpointError: What the user was told of is gone.
    """
    there = midways(root)
    epoch, generation = recovery.epoch + 1, recovery.generation
    over = [one for one in there if one[0] < epoch]
    later = [one for one in there if one[0] >= epoch]
    if recovery.rewind or not recovery.epoch >= 0:
        return EntryPlan(epoch, 0, generation, aside=tuple(later), over=tuple(over))
    damaged: list[Damage] = []
    aside: list[Midway] = []
    records = 0
    for one in reversed(later):
        made, damage = _look(root, one, run_id)
        if records and one[0] == epoch:
            over.append(one)
        elif damage is None and made == generation and one[0] == epoch:
            records = one[1]
        else:
            damaged += [damage] if damage is not None else []
            aside.append(one)
    newest = max((one[1] for one in later if one[0] == epoch), default=0)
    lost = said.within[1] if said.within[0] == epoch and said.within[1] > newest else 0
    if lost and not allow_lost:
        raise CheckpointError.of(
            "E357",
            f"epoch {epoch} was saved after {lost} of its records, and that is gone",
            "put it back from a copy, or go on from the whole epoch before: jobrun resume RUN "
            f"--epoch {recovery.epoch}, or --allow-lost",
        )
    acknowledge = bool(records) and said.within != (epoch, records)
    return EntryPlan(
        epoch, records, generation, acknowledge, lost, tuple(damaged), tuple(aside), tuple(over)
    )


def carry_out_entry(
    plan: EntryPlan, root: str, journal: Journal, run: Path, listen: Listener
) -> None:
    """Do what the plan asks for. Only while holding the run's lock.

    Raises:
        EnvironmentFaultError: The disk says no.
    """
    if plan.lost or plan.damaged:
        # Else what is out of the way would be missed the next time.
        journal.rewind(plan.epoch - 1, plan.generation)
    if plan.records and (plan.acknowledge or plan.lost or plan.damaged):
        journal.acknowledge_within(plan.epoch, plan.records, plan.generation)
    if plan.lost:
        text = f"LOST: epoch {plan.epoch} was saved after {plan.lost} of its records"
        listen(Noted(f"{text}, and that is gone; continuing as --allow-lost says", "warning"))
    for damage in plan.damaged:
        text = f"a checkpoint within epoch {damage.epoch} cannot be used: {damage.reason}"
        listen(Noted(text, "warning"))
    for epoch, records in plan.aside:
        MidwayStore(root, records).set_aside((epoch,), str(_unused(run / "superseded", records)))
    remove_midways(root, plan.over)
    if plan.records:
        listen(Noted(f"epoch {plan.epoch} goes on after {plan.records} of its records"))


def remove_midways(root: str, chosen: tuple[Midway, ...]) -> None:
    """Delete checkpoints within epochs; each disappears whole."""
    for epoch, records in chosen:
        MidwayStore(root, records).remove((epoch,))


def _look(root: str, one: Midway, run_id: str) -> tuple[int, Damage | None]:
    """In which generation it was made, and why it cannot be used."""
    epoch, records = one
    store = MidwayStore(root, records)
    damage = store.verify(epoch)
    if damage is not None:
        return -1, damage
    manifest = store.manifest(epoch)
    if manifest.run_id != run_id:
        return -1, Damage(epoch, f"it belongs to another run ({manifest.run_id})")
    return manifest.generation, None


def _unused(parent: Path, records: int) -> Path:
    number = 1
    while (path := parent / f"records-{records:06d}-{number}").exists():
        number += 1
    return path
