"""Predict for ``resume --dry-run`` what a resume would do: its epoch, what it loads and runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_never

from msgspec import Struct
from msgspec.structs import asdict

from jobrun.checkpoint.checkpoint_file import BlobFacts, inspect_state
from jobrun.checkpoint.store_protocol import CheckpointStore
from jobrun.core.errors import Fault
from jobrun.graph.conditions import (
    Endless,
    StopAfterEpochs,
    StopAfterTime,
    StopCondition,
    StopWhen,
    StopWithoutImprovement,
)
from jobrun.graph.job_text import render_probe, render_stop
from jobrun.graph.query import find_objects
from jobrun.graph.types import Job
from jobrun.runner.check_resume import ResumePreview, preview_resume
from jobrun.runner.fork_first_state import describe_parent, require_parent
from jobrun.runner.identity.blas_libraries import set_blas_threads
from jobrun.runner.identity.drift import Change, find_refused
from jobrun.runner.identity.present_changes import find_result_changes
from jobrun.runner.identity.recorded_job import (
    Authored,
    compile_authored,
    digest_authored,
    require_secrets,
)
from jobrun.runner.options import RunOptions
from jobrun.runner.resume.finished import find_newest_damage
from jobrun.runner.resume.recovery import FROM_INIT
from jobrun.runner.rundir.lock import is_live, owner_of
from jobrun.runner.rundir.run_directories import Run
from jobrun.runner.saved_progress import Patience, Progress, from_json
from jobrun.runner.start_or_resume import match_hash_seed
from jobrun.tools.inspection import dtype_name, render_structure, value_text
from jobrun.values.kinds.counter import Counter

READER = "readers/"
_DRIFT = 5


class Forecast(Struct, frozen=True):
    """The forecast of a resume.

    Attributes:
        run: The run's name.
        epoch: From which it would go on; -1 for init.
        reason: Why that one.
        exit_code: What the command would end with at once (0 or 9: finished, 5: drift, 6: held,
            7: something is missing); None when epochs would run.
        skipped: Newer epochs that cannot be used, and why.
        moved: What would be put under ``superseded/``; nothing is ever overwritten.
        remains: For each stop condition, how far it is.
        continues: What continues where it was: label and text.
        changes: What drifted.
        refused: Those of them that are not allowed.
        faults: What is missing or worth knowing.
        held: Who holds the run's lock now; empty if it is free.
        lineage: For a fork, its parent.
        damage: Of a finished run, why its last state cannot be read back.
        has_finished: Nothing remains to run; ``changes`` are those since its result.
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
    has_finished: bool = False


def forecast(run: Run, present: Authored, options: RunOptions) -> Forecast:
    """Predict what a resume of ``run`` with this job would do, for ``jobrun resume --dry-run``.

    Raises:
        CheckpointError: It would be refused, since no epoch can be used, or not the wanted one.
    """
    require_secrets(present)
    job = compile_authored(present)
    match_hash_seed(run, options)
    set_blas_threads(job.blas_threads)
    if _is_over(run, present, options):
        return _finished(run, present, job, options)
    preview = preview_resume(run, present, job, options)
    accept = (*run.record.accepted, *options.accept)
    refused = find_refused(preview.changes, strict=options.strict, accept=accept)
    progress = _progress(run, preview)
    stop = job.stop
    limit = options.epochs or run.record.limit_epochs
    if limit:
        stop = (*stop, StopAfterEpochs(limit, "--epochs"))
    held = str(owner_of(run.path)) if is_live(run.path) else ""
    return Forecast(
        run=run.name,
        epoch=preview.plan.epoch,
        reason=preview.chosen.reason,
        exit_code=_refusal(held, refused, preview.faults),
        skipped=tuple((skipped.epoch, skipped.reason) for skipped in preview.plan.skipped),
        moved=_moved(preview),
        remains=tuple(_remains(condition, progress) for condition in stop),
        continues=tuple(_continues(run, job, preview, progress)),
        changes=preview.changes,
        refused=refused,
        faults=preview.faults + _explained(preview, refused),
        held=held,
        lineage=describe_parent(run.record.parent) if run.record.parent else "",
    )


def forecast_values(made_forecast: Forecast) -> dict[str, Any]:
    """Convert the forecast that a dry run of resume made to JSON values."""
    content = asdict(made_forecast)
    content["skipped"] = [
        {"epoch": epoch, "reason": reason} for epoch, reason in made_forecast.skipped
    ]
    content["continues"] = [
        {"what": subject, "how": words} for subject, words in made_forecast.continues
    ]
    refused = {change.field for change in made_forecast.refused}
    content["changes"] = [
        {
            "field": change.field,
            "class": change.kind,
            "before": change.before,
            "after": change.after,
            "where": str(change.where or ""),
            "refused": change.field in refused,
        }
        for change in made_forecast.changes
    ]
    del content["refused"], content["has_finished"]
    content["faults"] = [
        {"code": fault.code, "message": fault.message, "severity": fault.severity}
        for fault in made_forecast.faults
    ]
    content["overwritten"] = []
    return content


def _is_over(run: Run, present: Authored, options: RunOptions) -> bool:
    record = run.record
    return (
        record.status == "finished"
        and digest_authored(present) == record.spec_digest
        and options.epochs in (0, record.limit_epochs)
        and options.epoch is None
    )


def _finished(run: Run, present: Authored, job: Job, options: RunOptions) -> Forecast:
    record = run.record
    accept = (*record.accepted, *options.accept)
    changes = find_result_changes(run, present, job)
    refused = find_refused(changes, strict=True, accept=accept) if options.strict else ()
    return Forecast(
        run=run.name,
        epoch=record.epoch,
        reason=f"the run has finished ({record.reason})",
        exit_code=_DRIFT if refused else record.exit_code or 0,
        changes=changes,
        refused=refused,
        lineage=describe_parent(record.parent) if record.parent else "",
        damage=find_newest_damage(run, present),
        has_finished=True,
    )


def _explained(preview: ResumePreview, refused: tuple[Change, ...]) -> tuple[Fault, ...]:
    return tuple(fault for change in refused for fault in preview.explained.get(change.field, ()))


def _refusal(held: str, refused: tuple[Change, ...], faults: tuple[Fault, ...]) -> int | None:
    if held:
        return 6
    if refused:
        return _DRIFT
    return 7 if any(fault.severity == "error" for fault in faults) else None


def _progress(run: Run, preview: ResumePreview) -> Progress:
    if preview.plan.epoch == FROM_INIT:
        adopted = None if run.record.parent.get("blobs") else require_parent(run)
        return from_json(adopted.runner) if adopted else Progress(epoch=0)
    return from_json(preview.store.manifest(preview.plan.epoch).runner)


def _moved(preview: ResumePreview) -> tuple[str, ...]:
    plan = preview.plan
    damaged = [f"epoch {epoch.epoch} (damaged)" for epoch in plan.skipped]
    return (*damaged, *(f"epoch {epoch}" for epoch, _ in plan.superseded))


def _remains(condition: StopCondition, progress: Progress) -> str:
    match condition:
        case StopAfterEpochs(epochs=epochs):
            remaining = max(0, epochs - progress.epoch)
            return f"epochs: {progress.epoch} of {epochs} have run, {remaining} remain"
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
    for patience in known:
        if patience.condition.startswith(start):
            return (
                f"{condition.metric}: best {patience.best}, waited {patience.waited_epochs} of "
                f"{condition.epochs} epochs"
            )
    return f"{condition.metric}: waited 0 of {condition.epochs} epochs"


def _continues(
    run: Run, job: Job, preview: ResumePreview, progress: Progress
) -> list[tuple[str, str]]:
    epoch, parent = preview.plan.epoch, run.record.parent
    if epoch == FROM_INIT and parent and not parent.get("blobs"):
        return [("state", f"nothing was saved: taken once more from {describe_parent(parent)}")]
    if epoch == FROM_INIT:
        also = f", then it is put over with {describe_parent(parent)}" if parent else ""
        return [("state", f"nothing was saved: init runs, as at the first start{also}")]
    rows = _blobs(preview.store, epoch, several=len(job.cluster.nodes) > 1)
    rows += [
        ("nodes", str(family).removeprefix("nodes of ")) for family in preview.resized.families
    ]
    rows += [
        ("patience", f"{patience.condition}: waited {patience.waited_epochs}, best {patience.best}")
        for patience in progress.patience
    ]
    objects = dict(find_objects(job))
    constants = [
        f"{node}.{name}"
        for node, names in job.constants
        for name in names
        if name not in objects.get(node, ())
    ]
    if constants:
        rows.append(("constants", f"{', '.join(constants)}: made again, compared by digest"))
    rows.append(("random", _random(job, preview)))
    rows.append(("data order", _order(job)))
    return rows


def _random(job: Job, preview: ResumePreview) -> str:
    if preview.resized.families:
        return (
            f"seed {job.seed}: streams are those of a node's name; on other nodes other numbers "
            "are drawn than in an unbroken run"
        )
    return (
        f"seed {job.seed}: every epoch has streams of its own, so epoch {preview.plan.epoch + 1} "
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
        wholes = {_root(blob): words for blob in blobs if (words := render_structure(blob))}
        rows += [_whole(f"{start}{root}", words) for root, words in wholes.items()]
        rows += [
            (_label(blob), f"{start}{blob.name} = {_value(blob)}")
            for blob in blobs
            if _root(blob) not in wholes
        ]
    return sorted(rows, key=lambda row: _ORDER.index(row[0]))


_ORDER = ("reader", "counter", "value", "object", "array")


def _root(blob: BlobFacts) -> str:
    return blob.name.partition("/")[0]


def _whole(name: str, words: str) -> tuple[str, str]:
    """Merge the rows of a dry run's forecast about one object or container into one row."""
    subject, _, class_name = words.partition(" of class ")
    return (
        ("object", f"{name} = {class_name}, constructed again and loaded")
        if class_name
        else ("value", f"{name} = {subject}")
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
