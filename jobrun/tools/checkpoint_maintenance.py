"""Maintain the checkpoints of a run: verify, list, pin and prune epochs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from jobrun.checkpoint.store_protocol import CheckpointStore, Damage, EpochHold
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.stores.mid_epoch_store import MidEpochStore, list_mid_epochs
from jobrun.checkpoint.stores.read_locks import hold_chosen as held_choice
from jobrun.checkpoint.stores.retention import epochs_to_delete, newest_kept
from jobrun.core.errors import CheckpointError, UsageError
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.runner.checkpoint_stores import find_objects, open_store
from jobrun.runner.identity.recorded_job import compile_authored, load_recorded
from jobrun.runner.rundir.journal import Journal, read_journal, read_pins, write_pins
from jobrun.runner.rundir.lock import RunLock
from jobrun.runner.rundir.lost_epochs import find_lost_epochs, lost_error, require_newest_epoch
from jobrun.runner.rundir.object_store_run import RunLease
from jobrun.runner.rundir.run_directories import Run, find_run
from jobrun.runner.saved_progress import from_json
from jobrun.tools.inspection import checkpoint_directory
from jobrun.tools.runs.metrics import Number, read_metrics


class Checkpoints(Struct, frozen=True):
    """The epochs of one run, and its retention policy."""

    run: Run
    store: CheckpointStore
    policy: CheckpointPolicy


class Pruning(Struct, frozen=True):
    """The epochs that may be deleted.

    Attributes:
        doomed: The epochs that go, ascending.
        retained: Those that stay.
        pinned: Of these the pinned ones.
        damaged: Newer ones that were found to be of no use; they stay.
        size_bytes: What deleting frees.
        held: Those that stay because another process is reading them.
    """

    doomed: tuple[int, ...]
    retained: tuple[int, ...]
    pinned: tuple[int, ...] = ()
    damaged: tuple[Damage, ...] = ()
    size_bytes: int = 0
    held: tuple[int, ...] = ()


def open_checkpoints(name: str, run_dir: Path) -> Checkpoints:
    """Open a run's checkpoints for maintenance: the store of epochs, and the retention policy.

    Raises:
        UsageError: No run is called so.
        CheckpointError: What the run recorded cannot be read.
    """
    run = find_run(name, run_dir)
    present = load_recorded(run)
    job = compile_authored(present)
    return Checkpoints(run, open_store(run, job, Path(present.folder)), job.checkpoint)


class SavedEpoch(Struct, frozen=True):
    """One checkpoint of a run, as its directory shows it; nothing in it is verified.

    Attributes:
        epoch: Its number.
        saved: When its manifest was written, in seconds since 1970.
        size_bytes: Of all its files.
        pinned: Whether it is kept whatever the retention policy says.
        metrics: What was measured in that epoch, by name.
    """

    epoch: int
    saved: float
    size_bytes: int
    pinned: bool
    metrics: Mapping[str, Number]


def list_epochs(run: Run) -> list[SavedEpoch]:
    """List a run's checkpoints for maintenance, each with its age, size and metrics.

    One that a live run deletes meanwhile is left out.

    Raises:
        CheckpointError: E470, the metrics cannot be read.
    """
    store = DirectoryStore(str(checkpoint_directory(run)))
    pins = read_pins(run.path)
    measured = read_metrics(run.path)
    rows = dict(measured.rows)
    saved_epochs = []
    for epoch in store.epochs():
        folder = Path(store.path(epoch))
        try:
            facts = [path.stat() for path in folder.rglob("*") if not path.is_dir()]
            saved = (folder / "manifest.json").stat().st_mtime
        except FileNotFoundError:
            continue
        pairs = zip(measured.names, rows.get(epoch, ()), strict=False)
        metrics = {name: value for name, value in pairs if value is not None}
        size_bytes = sum(fact.st_size for fact in facts)
        saved_epochs.append(SavedEpoch(epoch, saved, size_bytes, epoch in pins, metrics))
    return saved_epochs


def chosen_epochs(
    checkpoints: Checkpoints, text: str, also: Collection[int] = ()
) -> tuple[int, ...]:
    """Parse which checkpoints maintenance is for: epoch ``12``, ``latest``, or all if empty.

    Args:
        checkpoints: The run's checkpoints.
        text: What was written.
        also: Epochs that may be meant though they are not there any more.

    Raises:
        UsageError: E408, it is no epoch's number.
        CheckpointError: E310, there is no such epoch; E408, there is none at all; E357, the
            newest is gone.
    """
    known = checkpoints.store.epochs()
    if text == "latest" or (not known and not text):
        require_newest_epoch(checkpoints.run, checkpoints.store.epochs)
        known = checkpoints.store.epochs()
    if not known:
        message = f"{checkpoints.run.name} has no checkpoint"
        raise CheckpointError.of("E408", message, "let the run save an epoch first")
    if text == "latest":
        return known[-1:]
    if not text:
        return known
    if not (text.isascii() and text.isdecimal()):
        mend = "write RUN@12, or RUN@latest"
        raise UsageError.of("E408", f"'{text}' is not the number of an epoch", mend)
    if int(text) not in {*known, *also}:
        listed = ", ".join(map(str, known[-10:]))
        mend = f"the newest are {listed}" if len(known) > 10 else f"there are {listed}"
        raise CheckpointError.of("E310", f"{checkpoints.run.name} has no epoch {int(text)}", mend)
    return (int(text),)


def hold_chosen(checkpoints: Checkpoints, text: str) -> tuple[int, EpochHold]:
    """Lock the epoch ``12`` or ``latest`` against deletion while maintenance reads it.

    Of a live run the newest epoch may go between the choice and the hold; then the newest is
    chosen again.

    Args:
        checkpoints: The run's checkpoints.
        text: What was written; the newest where it is empty.

    Raises:
        UsageError: E408, it is no epoch's number.
        CheckpointError: E310, there is no such epoch; E408, there is none at all; E389, each
            one that was chosen went away.
    """
    return held_choice(
        lambda: chosen_epochs(checkpoints, text or "latest")[0],
        checkpoints.store.hold,
        checkpoints.run.name,
    )


def verify(
    checkpoints: Checkpoints, epochs: Collection[int], report: Callable[[int, Damage | None], None]
) -> tuple[Damage, ...]:
    """Verify every byte of some checkpoints of a run, and return the damaged ones.

    What a live run has deleted since it was listed is passed over.

    Args:
        checkpoints: The run's checkpoints.
        epochs: Which.
        report: Called with each epoch after it was verified.
    """
    damaged = []
    for epoch in epochs:
        hold = checkpoints.store.hold(epoch)
        if hold is None:
            continue
        try:
            damage = checkpoints.store.verify(epoch)
        finally:
            hold.release()
        report(epoch, damage)
        if damage is not None:
            damaged.append(damage)
    return tuple(damaged)


def verify_presence(
    checkpoints: Checkpoints, report: Callable[[int, Damage | None], None]
) -> tuple[Damage, ...]:
    """Return as damaged the checkpoints of a run that were saved, not deleted, and are gone."""
    lost = tuple(
        Damage(epoch, "it was saved and is gone")
        for epoch in find_lost_epochs(checkpoints.run, checkpoints.store.epochs)
    )
    for damage in lost:
        report(damage.epoch, damage)
    return lost


def verify_within(
    checkpoints: Checkpoints, report: Callable[[int, int, Damage | None], None]
) -> tuple[Damage, ...]:
    """Verify every byte of a run's mid-epoch checkpoints, and return the damaged ones."""
    root = str(Path(checkpoints.store.path(0)).parent)
    damaged = []
    for epoch, records in list_mid_epochs(root):
        damage = MidEpochStore(root, records).verify(epoch)
        report(epoch, records, damage)
        if damage is not None:
            damaged.append(damage)
    return tuple(damaged)


def change_pins(checkpoints: Checkpoints, epochs: Collection[int], *, pin: bool) -> frozenset[int]:
    """Pin or unpin checkpoints of a run by their epochs; return all pinned epochs.

    Raises:
        EnvironmentFaultError: The file cannot be read or written.
    """
    before = read_pins(checkpoints.run.path)
    after = before | set(epochs) if pin else before - set(epochs)
    if after != before:
        write_pins(checkpoints.run.path, after)
    return after


def plan_pruning(checkpoints: Checkpoints, last: int = 0) -> Pruning:
    """Plan which checkpoints the run's retention policy would delete now, and delete none.

    The newest epochs are verified until as many good ones are found as must stay: an older
    one goes only if newer ones can take its place.

    Args:
        checkpoints: The run's checkpoints.
        last: Keep so many of the newest, instead of what the spec says; 0: as it says.

    Raises:
        UsageError: E430, the policy keeps all.
        CheckpointError: E357, the newest epoch is gone: an older one may be needed.
        EnvironmentFaultError: E385, the pins cannot be read.
    """
    policy = replace(checkpoints.policy, keep_last=last) if last else checkpoints.policy
    if not (policy.keep_last or policy.keep_every or policy.keep_best[0]):
        raise UsageError.of(
            "E430",
            f"the spec of {checkpoints.run.name} keeps all checkpoints",
            "give the number of newest epochs to keep: jobrun ckpt prune --last N",
        )
    epochs = checkpoints.store.epochs()
    pinned = read_pins(checkpoints.run.path)
    good, damaged = _newest_good(checkpoints.store, epochs, newest_kept(policy))
    _require_none_lost(checkpoints, epochs, max(good, default=-1))
    scores = _scores(checkpoints.store, good)
    broken = [damage.epoch for damage in damaged]
    doomed = epochs_to_delete(policy, epochs, scores, pinned, broken)
    retained = tuple(epoch for epoch in epochs if epoch not in set(doomed))
    stay = tuple(sorted(pinned & set(retained)))
    return Pruning(doomed, retained, stay, damaged, _size_bytes(checkpoints.store, doomed))


def _require_none_lost(checkpoints: Checkpoints, epochs: tuple[int, ...], newest_good: int) -> None:
    """Refuse to prune where saved epochs after the newest good one are gone."""
    lost = find_lost_epochs(checkpoints.run, checkpoints.store.epochs)
    newer = tuple(epoch for epoch in lost if epoch > newest_good)
    if newer:
        raise lost_error(newer, epochs, newest_good)


def prune(checkpoints: Checkpoints, last: int = 0) -> Pruning:
    """Delete the checkpoints of a run that ``plan_pruning`` has chosen.

    Raises:
        LockedError: The run lives: it looks after its epochs itself.
        UsageError: E430, the policy keeps all.
        EnvironmentFaultError: Writing fails; or E332, another directory continues the run.
    """
    with RunLock.acquire(checkpoints.run.path) as lock:
        planned = plan_pruning(checkpoints, last)
        if planned.doomed and checkpoints.policy.collect_to:
            # Their files may be those of another directory of the run.
            RunLease(
                checkpoints.run.path, find_objects(checkpoints.run, checkpoints.policy.collect_to)
            ).require_lease()
        lock.check()
        if planned.doomed:
            _record_deletions(checkpoints, planned.doomed)
        held = checkpoints.store.remove(planned.doomed)
    if not held:
        return planned
    doomed = tuple(epoch for epoch in planned.doomed if epoch not in held)
    retained = tuple(sorted((*planned.retained, *held)))
    size_bytes = planned.size_bytes - _size_bytes(checkpoints.store, held)
    return replace(planned, doomed=doomed, retained=retained, size_bytes=size_bytes, held=held)


def _record_deletions(checkpoints: Checkpoints, epochs: tuple[int, ...]) -> None:
    """Record in the run's journal that pruned epochs are deleted, not lost."""
    run = checkpoints.run
    newest = read_journal(run.path, run.record.run_id).newest
    if newest >= 0:
        with closing(Journal.open(run.path, run.record.run_id)) as journal:
            journal.acknowledge(newest, run.record.generation, epochs)


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
    """Read the scores of epochs, by which maintenance keeps the best checkpoints of a run."""
    return dict(from_json(store.manifest(good[0]).runner).scores) if good else {}


def _size_bytes(store: CheckpointStore, epochs: Collection[int]) -> int:
    folders = (Path(store.path(epoch)) for epoch in epochs)
    return sum(file.lstat().st_size for folder in folders for file in folder.iterdir())
