"""Looking after the checkpoints of a run: which are whole, which are pinned, which may go."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from jobrun.checkpoint.midway import MidwayStore, midways
from jobrun.checkpoint.retain import fewest_new, victims
from jobrun.checkpoint.store import CheckpointStore, Damage
from jobrun.core.errors import CheckpointError, UsageError
from jobrun.graph.conditions import CheckpointPolicy
from jobrun.runner.authored import job_of, recorded
from jobrun.runner.holding import Holding
from jobrun.runner.lock import RunLock
from jobrun.runner.pins import read_pins, write_pins
from jobrun.runner.places import objects_of, store_of
from jobrun.runner.progress import from_json
from jobrun.runner.rundir import Run, find_run


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The epochs of one run, and what its spec says of keeping them."""

    run: Run
    store: CheckpointStore
    policy: CheckpointPolicy


@dataclass(frozen=True, slots=True)
class Pruning:
    """What may be deleted.

    Attributes:
        doomed: The epochs that go, ascending.
        kept: Those that stay.
        pinned: Of these the pinned ones.
        damaged: Newer ones that were found to be of no use; they stay.
        size_bytes: What deleting frees.
    """

    doomed: tuple[int, ...]
    kept: tuple[int, ...]
    pinned: tuple[int, ...] = ()
    damaged: tuple[Damage, ...] = ()
    size_bytes: int = 0


def checkpoints_of(name: str, run_dir: Path) -> Checkpoints:
    """The checkpoints of a run.

    Raises:
        UsageError: No run is called so.
        CheckpointError: What the run recorded cannot be read.
    """
    run = find_run(name, run_dir)
    present = recorded(run)
    job = job_of(present)
    return Checkpoints(run, store_of(run, job, Path(present.folder)), job.checkpoint)


def chosen_epochs(found: Checkpoints, text: str, also: Collection[int] = ()) -> tuple[int, ...]:
    """The epochs that ``12`` or ``latest`` means; without text, all.

    Args:
        found: The run's checkpoints.
        text: What was written.
        also: Epochs that may be meant though they are not there any more.

    Raises:
        UsageError: E408, it is no epoch's number.
        CheckpointError: E310, there is no such epoch; E408, there is none at all.
    """
    known = found.store.epochs()
    if not known:
        message = f"{found.run.name} has no checkpoint"
        raise CheckpointError.of("E408", message, "let the run save an epoch first")
    if text == "latest":
        return known[-1:]
    if not text:
        return known
    if not (text.isascii() and text.isdecimal()):
        mend = "write RUN@12, or RUN@latest"
        raise UsageError.of("E408", f"'{text}' is not an epoch's number", mend)
    if int(text) not in {*known, *also}:
        listed = ", ".join(map(str, known[-10:]))
        mend = f"the newest are {listed}" if len(known) > 10 else f"there are {listed}"
        raise CheckpointError.of("E310", f"{found.run.name} has no epoch {int(text)}", mend)
    return (int(text),)


def verify(
    found: Checkpoints, epochs: Collection[int], told: Callable[[int, Damage | None], None]
) -> tuple[Damage, ...]:
    """Compare every byte of these epochs with their manifests; what is damaged.

    Args:
        found: The run's checkpoints.
        epochs: Which.
        told: Is told of each as it was looked at.
    """
    damaged = []
    for epoch in epochs:
        damage = found.store.verify(epoch)
        told(epoch, damage)
        if damage is not None:
            damaged.append(damage)
    return tuple(damaged)


def verify_within(
    found: Checkpoints, told: Callable[[int, int, Damage | None], None]
) -> tuple[Damage, ...]:
    """As ``verify``, of all that is saved within epochs; told with the number of records."""
    root = str(Path(found.store.path(0)).parent)
    damaged = []
    for epoch, records in midways(root):
        damage = MidwayStore(root, records).verify(epoch)
        told(epoch, records, damage)
        if damage is not None:
            damaged.append(damage)
    return tuple(damaged)


def change_pins(found: Checkpoints, epochs: Collection[int], *, pin: bool) -> frozenset[int]:
    """Pin epochs, or take their pins off; those that are pinned then.

    Raises:
        EnvironmentFaultError: The file cannot be read or written.
    """
    before = read_pins(found.run.path)
    after = before | set(epochs) if pin else before - set(epochs)
    if after != before:
        write_pins(found.run.path, after)
    return after


def plan_pruning(found: Checkpoints, last: int = 0) -> Pruning:
    """What the run's policy would delete now. Reads, and changes nothing.

    The newest epochs are verified until as many good ones are found as must stay: an older
    one goes only if newer ones can take its place.

    Args:
        found: The run's checkpoints.
        last: Keep so many of the newest, instead of what the spec says; 0: as it says.

    Raises:
        UsageError: E430, the policy keeps all.
        EnvironmentFaultError: E385, it cannot be told what is pinned.
    """
    policy = replace(found.policy, keep_last=last) if last else found.policy
    if not (policy.keep_last or policy.keep_every or policy.keep_best[0]):
        raise UsageError.of(
            "E430",
            f"the spec of {found.run.name} keeps all checkpoints",
            "say how many of the newest stay: jobrun ckpt prune --last N",
        )
    epochs = found.store.epochs()
    pinned = read_pins(found.run.path)
    good, damaged = _newest_good(found.store, epochs, fewest_new(policy))
    scores = _scores(found.store, good)
    broken = [one.epoch for one in damaged]
    doomed = victims(policy, epochs, scores, pinned, broken)
    kept = tuple(epoch for epoch in epochs if epoch not in set(doomed))
    stay = tuple(sorted(pinned & set(kept)))
    return Pruning(doomed, kept, stay, damaged, _size_bytes(found.store, doomed))


def prune(found: Checkpoints, last: int = 0) -> Pruning:
    """Delete what ``plan_pruning`` says; each epoch disappears whole.

    Raises:
        LockedError: The run lives: it looks after its epochs itself.
        UsageError: E430, the policy keeps all.
        EnvironmentFaultError: The disk says no; or E332, another directory goes on with the run.
    """
    with RunLock.acquire(found.run.path) as lock:
        planned = plan_pruning(found, last)
        if planned.doomed and found.policy.collect_to:
            # Their files may be those of another directory of the run.
            Holding(found.run.path, objects_of(found.run, found.policy.collect_to)).expect()
        lock.check()
        found.store.remove(planned.doomed)
    return planned


def _newest_good(
    store: CheckpointStore, epochs: tuple[int, ...], wanted: int
) -> tuple[list[int], tuple[Damage, ...]]:
    good: list[int] = []
    damaged: list[Damage] = []
    for epoch in reversed(epochs):
        if len(good) == wanted:
            break
        damage = store.verify(epoch)
        if damage is None:
            good.append(epoch)
        else:
            damaged.append(damage)
    return good, tuple(damaged)


def _scores(store: CheckpointStore, good: list[int]) -> dict[int, float]:
    """The metric of the best epochs, as the newest good manifest has it."""
    return dict(from_json(store.manifest(good[0]).runner).scores) if good else {}


def _size_bytes(store: CheckpointStore, epochs: Collection[int]) -> int:
    places = (Path(store.path(epoch)) for epoch in epochs)
    return sum(file.lstat().st_size for place in places for file in place.iterdir())
