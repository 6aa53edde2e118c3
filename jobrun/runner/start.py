"""The face of the runner: start a run, resume one, or do what a policy says.

Nothing here imports numpy at the top: the number of BLAS threads must be set before.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from jobrun.core.crashpoints import reach
from jobrun.core.errors import CheckpointError, Fault, UsageError
from jobrun.core.events import Listener, ignore
from jobrun.core.objecturl import is_object_url
from jobrun.graph.types import Job
from jobrun.runner.authored import Authored, digest_of, job_of, recorded, write_authored
from jobrun.runner.datalock import expect_locked
from jobrun.runner.deadline import expect_time
from jobrun.runner.durable import write_whole
from jobrun.runner.environment import set_blas_threads
from jobrun.runner.filesystem import file_system, file_system_warnings
from jobrun.runner.fingerprints import data_fingerprints
from jobrun.runner.finished import ended
from jobrun.runner.lock import RunLock, is_live, owner_of
from jobrun.runner.mapping import places_of
from jobrun.runner.memory import state_bytes
from jobrun.runner.preflight import callable_digests, preflight, probe_directory, refuse
from jobrun.runner.record import RunRecord, write_record
from jobrun.runner.rundir import (
    Run,
    create_directory,
    find_run,
    newest_run,
    newest_unfinished,
    open_run,
    point_latest,
    unreadable_runs,
)
from jobrun.runner.settings import Resume, RunOptions, RunResult
from jobrun.runner.signals import REQUEST_NAME, early_stops
from jobrun.runner.space import expect_space
from jobrun.runner.trust import expect_own_place
from jobrun.runner.uploadcheck import upload_faults
from jobrun.spec.load import LoadedSpec
from jobrun.version import __version__

# Of a new run's directory, what its ``run.json`` says of its parent.
Parent = Callable[[Path], dict[str, Any]]

_MINUTE = len("20261121-0942")

__all__ = [
    "RunOptions", "RunResult", "choose_run", "request_stop", "resume_run", "run_with_policy",
    "start_run",
]  # fmt: skip


def start_run(
    loaded: Authored,
    job: Job,
    options: RunOptions,
    listener: Listener = ignore,
    *,
    parent: Parent | None = None,
) -> RunResult:
    """Start a new run and run it to its end.

    Args:
        loaded: What is run.
        job: What it compiles to.
        options: Of this invocation.
        listener: Is told what happens.
        parent: For a fork: of the new run's directory, what is recorded of where it comes from.

    Raises:
        EnvironmentFaultError: Something that the job needs is missing, or the disk says no.
        TaskFailedError: A step failed.
    """
    with early_stops():
        return _start(loaded, job, options, listener, parent)


def _start(
    loaded: Authored, job: Job, options: RunOptions, listener: Listener, parent: Parent | None
) -> RunResult:
    places_of(job.cluster, options.places)
    set_blas_threads(job.blas_threads)
    folder = Path(loaded.folder)
    expect_time(job.deadline, os.environ)
    warnings = preflight(job, folder, imports=options.imports) + upload_faults(job)
    refuse(warnings)
    warnings += expect_locked(loaded, job)
    if not options.trust:
        for place in (options.run_dir, options.run_dir / job.name):
            expect_own_place(place)
    path = create_directory(options.run_dir, job.name)
    reach("runner.directory-made")
    with RunLock.acquire(path) as lock:
        warnings += probe_directory(path)
        expect_space(str(path), state_bytes(job, folder), len(job.cluster.nodes))
        warnings += file_system_warnings(path, file_system(path))
        write_authored(path, loaded, job)
        reach("runner.spec-written")
        record = _new_record(path, loaded, job, options)
        run = Run(path, replace(record, parent=parent(path) if parent else {}))
        # With this file the directory becomes a run.
        write_record(path, run.record)
        reach("runner.run-made")
        point_latest(path)
        return _invocation().begin(run, job, lock, options, listener, warnings)


def resume_run(
    run: Run,
    options: RunOptions,
    listener: Listener = ignore,
    *,
    loaded: Authored | None = None,
) -> RunResult:
    """Continue a run from its newest good checkpoint, or from ``options.epoch``.

    A finished run returns at once with the code it ended with, unless a limit that was
    changed no longer holds.

    Args:
        run: The run.
        options: Of this invocation.
        listener: Is told what happens.
        loaded: The spec to go on with; the recorded one if None.

    Raises:
        CheckpointError: There is no usable checkpoint, or not the wanted one.
        DriftError: What would go on is not what was run.
        LockedError: A live process runs it.
        EnvironmentFaultError: Something that the job needs is missing, or the disk says no.
        TaskFailedError: A step failed.
    """
    if not run.record.resumable:
        raise CheckpointError.of(
            "E361",
            f"run {run.name} kept no checkpoints ('checkpoint: none')",
            "start a new run; to be able to resume, take 'checkpoint: none' out of the spec",
        )
    if run.record.status == "finished" and _asks_nothing_new(run, options, loaded):
        return ended(run, options, loaded, listener)
    present = loaded if loaded is not None else recorded(run)
    job = job_of(present)
    places_of(job.cluster, options.places)
    set_blas_threads(job.blas_threads)
    with early_stops(), RunLock.acquire(run.path) as lock:
        # Read again: its holder may have come further since it was looked up.
        run = open_run(run.path)
        return _invocation().go_on(run, present, job, lock, options, listener)


def run_with_policy(
    loaded: Authored,
    job: Job,
    options: RunOptions,
    listener: Listener = ignore,
    resume: Resume = "",
) -> RunResult:
    """What ``run SPEC`` does: start, or go on with the newest run of that name.

    Args:
        loaded: The spec.
        job: What it compiles to.
        options: Of this invocation.
        listener: Is told what happens.
        resume: ``auto`` goes on with the newest run, or starts one when there is none;
            ``must`` needs one; ``never`` starts one; empty starts one, unless the newest
            is unfinished and has saved something, or runs now.

    Raises:
        UsageError: The newest run is unfinished, and the policy is empty.
        CheckpointError: The policy is ``must``, and there is no run; or a newer one has saved
            epochs, and its ``run.json`` cannot be read.
    """
    newest = newest_run(options.run_dir, job.name)
    if resume != "never":
        _expect_readable(options.run_dir, job.name, newest)
    if newest is not None and not newest.record.resumable:
        newest = None
    match resume:
        case "auto" | "must" if newest is not None:
            return resume_run(newest, options, listener, loaded=loaded)
        case "must":
            raise CheckpointError.of(
                "E360",
                f"there is no run of {job.name} in {options.run_dir}",
                "start one with 'jobrun run SPEC', or name another --run-dir",
            )
        case "" if newest is not None and _would_be_forgotten(newest):
            raise _unfinished(newest, options.run_dir, loaded)
        case _:
            return start_run(loaded, job, options, listener)


def choose_run(text: str, run_dir: Path, epoch: int | None = None) -> Run:
    """The run that ``resume`` means: the named one, or the newest unfinished one.

    One in an object store is brought here first, with that epoch or its newest good one.

    Raises:
        CheckpointError: There is none, or the name is that of no run's directory.
        UsageError: The name is nobody's, or several runs'.
    """
    if is_object_url(text):
        from jobrun.runner.remoterun import local_copy, remote_run  # noqa: PLC0415 - brings numpy

        return local_copy(remote_run(text), run_dir, epoch)
    return find_run(text, run_dir) if text else newest_unfinished(run_dir)


def request_stop(run: Run) -> None:
    """Ask a live run, from anywhere that sees its directory, to end after its epoch.

    Raises:
        UsageError: Nobody runs it.
    """
    if not is_live(run.path):
        raise UsageError.of("E378", f"run {run.name} is not running", "there is nothing to stop")
    write_whole(run.path / REQUEST_NAME, b"")


class _Invocation(Protocol):
    """The two functions of the module ``invocation`` that are used here."""

    def begin(
        self,
        run: Run,
        job: Job,
        lock: RunLock,
        options: RunOptions,
        listener: Listener,
        warnings: tuple[Fault, ...] = (),
    ) -> RunResult:
        """Run a new run to its end."""

    def go_on(
        self,
        run: Run,
        present: Authored,
        job: Job,
        lock: RunLock,
        options: RunOptions,
        listener: Listener,
    ) -> RunResult:
        """Continue a run."""


def _invocation() -> _Invocation:
    # Its imports bring numpy in.
    return cast("_Invocation", import_module("jobrun.runner.invocation"))


def _new_record(path: Path, loaded: Authored, job: Job, options: RunOptions) -> RunRecord:
    return RunRecord(
        run_id=str(uuid.uuid4()),
        job=job.name,
        created=datetime.now(UTC).isoformat(timespec="microseconds"),
        resumable=job.checkpoint.enabled,
        folder=os.path.relpath(loaded.folder, path),
        spec_digest=digest_of(loaded),
        limit_epochs=options.epochs,
        callables=callable_digests(job, Path(loaded.folder)),
        data=data_fingerprints(job, Path(loaded.folder)),
        file_system=file_system(path),
        variables=loaded.environment_digests,
        host=socket.gethostname(),
        version=__version__,
    )


def _expect_readable(run_dir: Path, job: str, newest: Run | None) -> None:
    """Never pass over a run that has saved something because its ``run.json`` is damaged."""
    for path in unreadable_runs(run_dir, job):
        # Names begin with the minute in which a run was made.
        if newest is None or path.name[:_MINUTE] >= newest.path.name[:_MINUTE]:
            raise CheckpointError.of(
                "E375",
                f"{path} has saved epochs, and its run.json is missing or damaged",
                "put run.json back from a copy of the run; or move the directory away; "
                "or start anew: jobrun run SPEC --resume never",
            )


def _asks_nothing_new(run: Run, options: RunOptions, loaded: Authored | None) -> bool:
    same_spec = loaded is None or digest_of(loaded) == run.record.spec_digest
    same_limit = options.epochs in (0, run.record.limit_epochs)
    # A handler may name another epoch than the last.
    nobody_chooses = options.epoch is None and options.metadata is None
    return same_spec and same_limit and nobody_chooses


def _would_be_forgotten(run: Run) -> bool:
    """Whether a new run would leave work behind: one that failed in init has none."""
    return run.unfinished and (run.has_saved or is_live(run.path))


def _unfinished(run: Run, run_dir: Path, loaded: Authored) -> UsageError:
    how = f"held by {owner_of(run.path)}" if is_live(run.path) else run.record.status
    if how == "running":
        how = "killed"
    # A job of Python has no file. The first is the one that was named; --set is none.
    files = loaded.files if isinstance(loaded, LoadedSpec) else ()
    spec = next((name for name in files if not name.startswith("--")), "SPEC")
    return UsageError.of(
        "E352",
        f"run {run.name} is unfinished ({how})",
        f"go on with it: jobrun resume {run.handle(run_dir)} · "
        f"or start anew: jobrun run {spec} --resume never",
    )
