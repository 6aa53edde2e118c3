"""Fork a run: start a new run from an epoch of another one, which is not changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jobrun.checkpoint.store_protocol import CheckpointStore
from jobrun.core.errors import CheckpointError, Fault, JobrunError
from jobrun.core.events import CheckpointCommitted, Event, Listener, ignore
from jobrun.graph.types import Job
from jobrun.runner.checkpoint_stores import open_store
from jobrun.runner.identity.blas_libraries import set_blas_threads
from jobrun.runner.identity.code_digests import digest_code
from jobrun.runner.identity.drift import Change, require_no_drift
from jobrun.runner.identity.recorded_job import (
    Authored,
    compile_authored,
    digest_authored,
    find_changes_since,
    is_from_python,
    load_recorded,
    require_spec,
)
from jobrun.runner.options import RunOptions, RunResult
from jobrun.runner.rundir.run_directories import Run
from jobrun.runner.rundir.spec_folder import load_changed_spec
from jobrun.runner.start_or_resume import Parent, match_hash_seed, start_run

if TYPE_CHECKING:
    from jobrun.runner.resume.recovery import RecoveryPlan
    from jobrun.runner.run_metadata_handler import RunMetadata


class Fork(Struct, frozen=True):
    """The epoch of another run, and its blobs, that a new run starts from.

    Attributes:
        run: The parent.
        epoch: None for its newest good one.
        blobs: Patterns of what is taken over; empty for the whole state, with the number of the
            epoch, patience and the outputs of tasks.
    """

    run: Run
    epoch: int | None = None
    blobs: tuple[str, ...] = ()


def fork_run(
    fork: Fork, loaded: Authored | None, options: RunOptions, listener: Listener = ignore
) -> RunResult:
    """Start a new run from an epoch of another run, for ``jobrun.fork()`` and ``jobrun fork``.

    With all its state the new run begins after that epoch; with some blobs it runs init, puts
    them over what init has made, and begins with epoch 1.

    Args:
        fork: From what.
        loaded: What the new run runs; None for what the parent last ran.
        options: Of the new run; ``epoch`` is not looked at.
        listener: Receives the events of the run.

    Raises:
        CheckpointError: The parent has no such epoch, or it is damaged.
        UsageError: The epoch lacks state that the job has, or a pattern means nothing.
        JobrunError: As of a new run.
    """
    present = loaded
    if present is None:
        require_spec(fork.run)
        present = load_changed_spec(fork.run, fork=True)
    job = compile_authored(present)
    match_hash_seed(fork.run, options)
    set_blas_threads(job.blas_threads)
    # Imports numpy, which must happen after the number of BLAS threads is set.
    from jobrun.runner import fork_first_state as fork_start  # noqa: PLC0415

    store = _store(fork.run)
    run_metadata = _metadata(fork.run, store)
    try:
        epoch = _epoch(fork, run_metadata)
        there = fork_start.read_stored_names(store, epoch)
        name = f"epoch {epoch} of {fork.run.name}"
        if fork.blobs:
            fork_start.match_blobs(job, there, fork.blobs)
        else:
            fork_start.require_full_state(
                job, there, name, fork_start.require_resizable(job, store, epoch)
            )
        _expect_kept(job, name)

        def listen(event: Event) -> None:
            # Once this run has saved an epoch, it no longer needs the parent's.
            if isinstance(event, CheckpointCommitted):
                run_metadata.release()
            listener(event)

        notes = _describe_skipped(fork.run, run_metadata.recovery)
        notes += _differences(fork, present, job, options)
        parent = _parent(fork, store, epoch)
        return start_run(present, job, options, listen, parent=parent, notes=notes)
    finally:
        run_metadata.release()


def _describe_skipped(run: Run, recovery: RecoveryPlan) -> tuple[Fault, ...]:
    """Return a warning for each damaged epoch of a fork's parent, newer than the one it takes."""
    return tuple(
        Fault(
            "W183",
            f"run {run.name}: epoch {damage.epoch} is damaged ({damage.reason}), so the fork "
            f"begins with epoch {recovery.epoch}",
            "put it back from a copy and fork again, or name this one: "
            f"{run.name}@{recovery.epoch}",
            severity="warning",
        )
        for damage in recovery.skipped
    )


def _differences(fork: Fork, present: Authored, job: Job, options: RunOptions) -> tuple[Fault, ...]:
    """Return a warning for each change between a run and its fork that was not asked for.

    Raises:
        DriftError: Code, data or versions differ, and ``options.strict`` is set.
    """
    # Lazy: imports numpy.
    from jobrun.runner.identity.present_changes import find_surrounding_changes  # noqa: PLC0415

    code = digest_code(job, Path(present.folder))
    # With some blobs only, init runs again.
    changes = find_surrounding_changes(fork.run, present, job, code, whole=bool(fork.blobs))
    mend = "undo it, or fork without --strict"
    if options.strict:
        require_no_drift(changes, strict=True, accept=options.accept, mend=mend)
    return tuple(
        Fault(
            "W187",
            f"not as in the run it is forked from: {change}",
            "the fork runs what is there now, and records it",
            severity="warning",
        )
        for change in (*_find_unasked(fork.run, present), *changes)
        if change.kind not in {"safe", "declared safe"}
    )


def _find_unasked(run: Run, present: Authored) -> tuple[Change, ...]:
    """Find the changes of the spec that do not come from ``--set``."""
    if digest_authored(present) == run.record.spec_digest:
        return ()
    try:
        changes = find_changes_since(run, present)
    except JobrunError:
        # One of them was built in Python, and the other was not.
        return ()
    return tuple(
        change for change in changes if not (change.where and change.where.file.startswith("--set"))
    )


def _store(run: Run) -> CheckpointStore:
    if is_from_python(run):
        from jobrun.checkpoint.stores.directory import DirectoryStore  # noqa: PLC0415

        return DirectoryStore(str(run.path / "checkpoints"))
    present = load_recorded(run)
    return open_store(run, compile_authored(present), Path(present.folder))


def _metadata(run: Run, store: CheckpointStore) -> RunMetadata:
    from jobrun.runner.run_metadata_handler import RunMetadata  # noqa: PLC0415

    return RunMetadata(
        store,
        run.path,
        run.record.run_id,
        run.record.generation,
        recorded=run.epoch_without_journal,
    )


def _epoch(fork: Fork, run_metadata: RunMetadata) -> int:
    chosen = run_metadata.last_epoch(fork.epoch).epoch
    if chosen < 0:
        raise CheckpointError.of(
            "E359",
            f"run {fork.run.name} has saved no epoch yet",
            "let it save one first, or start a run of its spec: jobrun run SPEC",
        )
    return chosen


def _expect_kept(job: Job, name: str) -> None:
    if not job.checkpoint.enabled:
        raise CheckpointError.of(
            "E361",
            f"a run that begins with {name} has to keep checkpoints ('checkpoint: none')",
            "take 'checkpoint: none' out of the spec",
        )


def _parent(fork: Fork, store: CheckpointStore, epoch: int) -> Parent:
    record = fork.run.record

    def parent(path: Path) -> dict[str, Any]:
        return {
            "run": fork.run.name,
            "run_id": record.run_id,
            "epoch": epoch,
            "generation": store.manifest(epoch).generation,
            "spec_digest": record.spec_digest,
            "blobs": list(fork.blobs),
            # Relative, as all paths in run.json are, so that both runs can be moved together.
            "checkpoints": os.path.relpath(Path(store.path(epoch)).parent, path),
        }

    return parent
