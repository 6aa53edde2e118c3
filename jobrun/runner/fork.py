"""A new run that begins with the state of another one, which is not touched."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobrun.checkpoint.store import CheckpointStore
from jobrun.core.errors import CheckpointError
from jobrun.core.events import Listener, ignore
from jobrun.graph.types import Job
from jobrun.runner.authored import Authored, is_from_python, job_of, recorded
from jobrun.runner.environment import set_blas_threads
from jobrun.runner.places import store_of
from jobrun.runner.rundir import Run
from jobrun.runner.settings import RunOptions, RunResult
from jobrun.runner.start import Parent, start_run


@dataclass(frozen=True, slots=True)
class Fork:
    """What is to be forked.

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
    """Start a new run from an epoch of another one and run it to its end.

    With all its state the new run begins after that epoch; with some blobs it runs init, puts
    them over what init has made, and begins with epoch 1.

    Args:
        fork: From what.
        loaded: What the new run runs; None for what the parent last ran.
        options: Of the new run; ``epoch`` is not looked at.
        listener: Is told what happens.

    Raises:
        CheckpointError: The parent has no such epoch, or it is damaged.
        UsageError: The epoch lacks state that the job has, or a pattern means nothing.
        JobrunError: As of a new run.
    """
    present = loaded if loaded is not None else recorded(fork.run)
    job = job_of(present)
    set_blas_threads(job.blas_threads)
    # Brings numpy in, which must come after the number of threads.
    from jobrun.runner import lineage  # noqa: PLC0415

    store = _store(fork.run)
    epoch = _epoch(fork, store)
    there = lineage.stored_names(store, epoch)
    name = f"epoch {epoch} of {fork.run.name}"
    if fork.blobs:
        lineage.chosen_blobs(job, there, fork.blobs)
    else:
        lineage.expect_all(job, there, name, lineage.expect_divisible(job, store, epoch))
    _expect_kept(job, name)
    return start_run(present, job, options, listener, parent=_parent(fork, store, epoch))


def _store(run: Run) -> CheckpointStore:
    if is_from_python(run):
        from jobrun.checkpoint.directory import DirectoryStore  # noqa: PLC0415

        return DirectoryStore(str(run.path / "checkpoints"))
    present = recorded(run)
    return store_of(run, job_of(present), Path(present.folder))


def _epoch(fork: Fork, store: CheckpointStore) -> int:
    from jobrun.runner.metadata import RunMetadata  # noqa: PLC0415

    record = fork.run.record
    own = RunMetadata(store, fork.run.path, record.run_id, record.generation)
    chosen = own.last_epoch(fork.epoch).epoch
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
            # Relative, as all paths in run.json are: both may move together.
            "checkpoints": os.path.relpath(Path(store.path(epoch)).parent, path),
        }

    return parent
