"""What a resume would do, as values: from where, what goes on, what remains. Changes nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, assert_never

from jobrun.blobs.counter import Counter
from jobrun.checkpoint.hdf5 import BlobFacts, inspect_state
from jobrun.checkpoint.store import CheckpointStore
from jobrun.core.errors import Fault
from jobrun.graph.conditions import (
    Endless,
    StopAfterEpochs,
    StopAfterTime,
    StopCondition,
    StopWhen,
    StopWithoutImprovement,
)
from jobrun.graph.query import objects_of
from jobrun.graph.render import render_probe, render_stop
from jobrun.graph.types import Job
from jobrun.runner.authored import Authored, digest_of, job_of
from jobrun.runner.drift import Change, refused_of
from jobrun.runner.environment import set_blas_threads
from jobrun.runner.finished import damage_of_newest
from jobrun.runner.lineage import parent_words
from jobrun.runner.lock import is_live, owner_of
from jobrun.runner.progress import Patience, Progress, from_json
from jobrun.runner.prospect import Prospect, look_ahead
from jobrun.runner.recover import FROM_THE_START
from jobrun.runner.rundir import Run
from jobrun.runner.settings import RunOptions
from jobrun.tools.inspection import dtype_name, structure_words, value_text

READER = "readers/"


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a resume would do.

    Attributes:
        run: The run's name.
        epoch: From which it would go on; -1 for init.
        reason: Why that one.
        exit_code: What the command would end with at once (0 or 9: finished, 5: drift, 6: held,
            7: something is missing); None when epochs would run.
        skipped: Newer epochs that cannot be used, and why.
        moved: What would be put under ``superseded/``; nothing is ever overwritten.
        remains: For each stop condition, how it stands.
        continues: What goes on where it was: label and text.
        changes: What drifted.
        refused: Those of them that are not allowed.
        faults: What is missing or worth knowing.
        held: Who holds the run now; empty for nobody.
        lineage: For a fork, its parent.
        damage: Of a finished run, why its last state cannot be read back.
    """

    run: str
    epoch: int
    reason: str
    exit_code: int | None = None
    skipped: tuple[tuple[int, str], ...] = ()
    moved: tuple[str, ...] = ()
    remains: tuple[str, ...] = ()
    continues: tuple[tuple[str, str], ...] = ()
    changes: tuple[Change, ...] = ()
    refused: tuple[Change, ...] = ()
    faults: tuple[Fault, ...] = ()
    held: str = ""
    lineage: str = ""
    damage: str = ""


def forecast(run: Run, present: Authored, options: RunOptions) -> Forecast:
    """Find out what a resume of ``run`` with ``present`` would do.

    Raises:
        CheckpointError: It would be refused, since no epoch can be used, or not the wanted one.
    """
    job = job_of(present)
    set_blas_threads(job.blas_threads)
    if _is_over(run, present, options):
        return _finished(run, present)
    found = look_ahead(run, present, job, options)
    accept = (*run.record.accepted, *options.accept)
    refused = refused_of(found.changes, strict=options.strict, accept=accept)
    progress = _progress(found)
    stop = job.stop
    limit = options.epochs or run.record.limit_epochs
    if limit:
        stop = (*stop, StopAfterEpochs(limit, "--epochs"))
    held = str(owner_of(run.path)) if is_live(run.path) else ""
    return Forecast(
        run=run.name,
        epoch=found.plan.epoch,
        reason=found.chosen.reason,
        exit_code=_refusal(held, refused, found.faults),
        skipped=tuple((one.epoch, one.reason) for one in found.plan.skipped),
        moved=_moved(found),
        remains=tuple(_remains(one, progress) for one in stop),
        continues=tuple(_continues(job, found, progress)),
        changes=found.changes,
        refused=refused,
        faults=found.faults + _explained(found, refused),
        held=held,
        lineage=parent_words(run.record.parent) if run.record.parent else "",
    )


def as_values(found: Forecast) -> dict[str, Any]:
    """The forecast as JSON values."""
    content = asdict(found)
    content["skipped"] = [{"epoch": epoch, "reason": reason} for epoch, reason in found.skipped]
    content["continues"] = [{"what": what, "how": how} for what, how in found.continues]
    refused = {change.field for change in found.refused}
    content["changes"] = [
        {
            "field": change.field, "class": change.kind, "before": change.before,
            "after": change.after, "where": str(change.where or ""),
            "refused": change.field in refused,
        }
        for change in found.changes
    ]  # fmt: skip
    del content["refused"]
    content["faults"] = [
        {"code": fault.code, "message": fault.message, "severity": fault.severity}
        for fault in found.faults
    ]
    content["overwritten"] = []
    return content


def _is_over(run: Run, present: Authored, options: RunOptions) -> bool:
    record = run.record
    return (
        record.status == "finished"
        and digest_of(present) == record.spec_digest
        and options.epochs in (0, record.limit_epochs)
        and options.epoch is None
    )


def _finished(run: Run, present: Authored) -> Forecast:
    record = run.record
    return Forecast(
        run=run.name,
        epoch=record.epoch,
        reason=f"the run has finished ({record.reason})",
        exit_code=record.exit_code or 0,
        lineage=parent_words(record.parent) if record.parent else "",
        damage=damage_of_newest(run, present),
    )


def _explained(found: Prospect, refused: tuple[Change, ...]) -> tuple[Fault, ...]:
    return tuple(fault for change in refused for fault in found.explained.get(change.field, ()))


def _refusal(held: str, refused: tuple[Change, ...], faults: tuple[Fault, ...]) -> int | None:
    if held:
        return 6
    if refused:
        return 5
    return 7 if any(fault.severity == "error" for fault in faults) else None


def _progress(found: Prospect) -> Progress:
    if found.plan.epoch == FROM_THE_START:
        return Progress(epoch=0)
    return from_json(found.store.manifest(found.plan.epoch).runner)


def _moved(found: Prospect) -> tuple[str, ...]:
    plan = found.plan
    damaged = [f"epoch {one.epoch} (damaged)" for one in plan.skipped]
    return (*damaged, *(f"epoch {epoch}" for epoch, _ in plan.superseded))


def _remains(condition: StopCondition, progress: Progress) -> str:
    match condition:
        case StopAfterEpochs(epochs=epochs):
            left = max(0, epochs - progress.epoch)
            return f"epochs: {progress.epoch} of {epochs} have run, {left} remain"
        case StopAfterTime(seconds=seconds):
            return f"time: {progress.elapsed_s:.0f} s of {seconds:g} s are used"
        case StopWithoutImprovement():
            return f"no improvement: {_patience(condition, progress.patience)}"
        case StopWhen(probe=probe):
            return f"when {probe.text or render_probe(probe)}: looked at again before any epoch"
        case Endless():
            return f"{render_stop(condition)}: endless"
        case _:
            assert_never(condition)


def _patience(condition: StopWithoutImprovement, known: tuple[Patience, ...]) -> str:
    start = f"no improvement of {condition.metric} "
    for one in known:
        if one.condition.startswith(start):
            return (
                f"{condition.metric}: best {one.best}, waited {one.waited_epochs} of "
                f"{condition.epochs} epochs"
            )
    return f"{condition.metric}: waited 0 of {condition.epochs} epochs"


def _continues(job: Job, found: Prospect, progress: Progress) -> list[tuple[str, str]]:
    epoch = found.plan.epoch
    if epoch == FROM_THE_START:
        return [("state", "nothing was saved: init runs, as at the first start")]
    rows = _blobs(found.store, epoch, several=len(job.cluster.nodes) > 1)
    rows += [("nodes", str(one).removeprefix("nodes of ")) for one in found.resized.families]
    rows += [("patience", f"{one.condition}: waited {one.waited_epochs}, best {one.best}")
             for one in progress.patience]  # fmt: skip
    objects = dict(objects_of(job))
    constants = [
        f"{node}.{name}"
        for node, names in job.constants for name in names if name not in objects.get(node, ())
    ]  # fmt: skip
    if constants:
        rows.append(("constants", f"{', '.join(constants)}: made again, compared by digest"))
    rows.append(("random", _random(job, found)))
    rows.append(("data order", _order(job)))
    return rows


def _random(job: Job, found: Prospect) -> str:
    if found.resized.families:
        return (
            f"seed {job.seed}: streams are those of a node's name; on other nodes other numbers "
            "are drawn than in an unbroken run"
        )
    return (
        f"seed {job.seed}: every epoch has streams of its own, so epoch {found.plan.epoch + 1} "
        "draws what it would have drawn in an unbroken run"
    )


def _order(job: Job) -> str:
    if job.exactness.exact:
        return "the same: it depends on the seed, the epoch and the stored positions only"
    reasons = "; ".join(f"{path}: {reason}" for path, reason in job.exactness.reasons)
    return f"not certain to be the same: {reasons}"


def _blobs(store: CheckpointStore, epoch: int, *, several: bool) -> list[tuple[str, str]]:
    rows = []
    for file in store.manifest(epoch).files:
        blobs = inspect_state(str(Path(store.path(epoch), file.name))).blobs
        start = f"{file.node}." if several else ""
        wholes = {_root(blob): words for blob in blobs if (words := structure_words(blob))}
        rows += [_whole(f"{start}{root}", words) for root, words in wholes.items()]
        rows += [
            (_label(blob), f"{start}{blob.name} = {_value(blob)}")
            for blob in blobs if _root(blob) not in wholes
        ]  # fmt: skip
    return sorted(rows, key=lambda row: _ORDER.index(row[0]))


_ORDER = ("reader", "counter", "value", "object", "array")


def _root(blob: BlobFacts) -> str:
    return blob.name.partition("/")[0]


def _whole(name: str, words: str) -> tuple[str, str]:
    """The row of an object or a container, whose parts are not told one by one."""
    what, _, of = words.partition(" of class ")
    return (
        ("object", f"{name} = {of}, made anew and loaded") if of else ("value", f"{name} = {what}")
    )


def _label(blob: BlobFacts) -> str:
    if blob.name.startswith(READER):
        return "reader"
    if isinstance(blob.value, Counter):
        return "counter"
    return "array" if blob.shape else "value"


def _value(blob: BlobFacts) -> str:
    if blob.shape:
        shape = " x ".join(map(str, blob.shape))
        return f"{dtype_name(blob.dtype)} {shape}, bit for bit"
    return value_text(blob.value)
