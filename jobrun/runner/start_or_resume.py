"""Start a run, resume one, or do what the ``--resume`` policy says.

Nothing here imports numpy at the top: the number of BLAS threads must be set before.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from jobrun.core.errors import (
    CheckpointError,
    Fault,
    JobrunError,
    UsageError,
)
from jobrun.core.events import Listener, Noted, ignore
from jobrun.core.failpoints import reach
from jobrun.core.hash_seed import RANDOM, hash_seed, recorded_seed
from jobrun.core.interpreter import lazy_module
from jobrun.core.text.object_url import is_object_url
from jobrun.graph.query import has_callables
from jobrun.graph.types import Job
from jobrun.runner.identity.blas_libraries import set_blas_threads
from jobrun.runner.identity.code_digests import CodeDigests, digest_code
from jobrun.runner.identity.data_fingerprints import fingerprint_data
from jobrun.runner.identity.data_lock import require_locked
from jobrun.runner.identity.drift import require_no_drift, touches_end
from jobrun.runner.identity.environment import describe_environment
from jobrun.runner.identity.provenance import collect_provenance, hide_secrets
from jobrun.runner.identity.recorded_job import (
    Authored,
    check_record,
    compile_authored,
    digest_authored,
    install_authored,
    known_inputs,
    list_given,
    load_recorded,
    recordable_params,
    require_secrets,
    stage_authored,
)
from jobrun.runner.options import Resume, RunOptions, RunResult, parse_node_map
from jobrun.runner.preflight.blob_types import estimate_state_bytes
from jobrun.runner.preflight.checks import (
    check_upload,
    preflight,
    raise_errors,
    require_interpreter_lock,
)
from jobrun.runner.preflight.filesystem import (
    check_file_system,
    find_file_system,
    probe_directory,
    require_space,
)
from jobrun.runner.resume.recovery import FROM_INIT
from jobrun.runner.rundir.lock import RunLock, is_live, lock_starts, owner_of
from jobrun.runner.rundir.logs import cut_metrics, trim_metrics
from jobrun.runner.rundir.run_directories import (
    LATEST,
    Run,
    create_directory,
    find_moved_latest,
    find_run,
    make_job_directory,
    newest_run,
    newest_unfinished,
    next_order,
    open_run,
    point_latest,
    remove_directory,
    require_own,
    require_own_parent,
    require_readable_runs,
    runs,
)
from jobrun.runner.rundir.run_index import dump_inputs
from jobrun.runner.rundir.run_inputs import SEED, RunInputs, read_inputs
from jobrun.runner.rundir.run_json import RunRecord, write_record
from jobrun.runner.stop_requests import exit_on_early_signal, require_valid_deadline
from jobrun.runtime.context.imported_code import IMPORTED_CODE, refresh_imported
from jobrun.spec.load import LoadedSpec
from jobrun.version import __version__

if TYPE_CHECKING:
    from jobrun.checkpoint.metadata_handler import MetadataHandler
    from jobrun.runner import checkpoint_stores, invocation, run_metadata_handler
    from jobrun.runner.loop.epoch_loop import ResumePoint
    from jobrun.runner.resume import finished
    from jobrun.runner.resume.mid_epoch_recovery import EntryPlan
    from jobrun.runner.resume.recovery import RecoveryPlan
    from jobrun.runtime.context.safe_point import SafePoint
else:
    # Lazy: they import numpy.
    checkpoint_stores = lazy_module("jobrun.runner.checkpoint_stores")
    run_metadata_handler = lazy_module("jobrun.runner.run_metadata_handler")
    invocation = lazy_module("jobrun.runner.invocation")
    finished = lazy_module("jobrun.runner.resume.finished")

# Returns the parent's record for the ``run.json`` of a new run directory.
Parent = Callable[[Path], dict[str, Any]]


__all__ = [
    "RunOptions", "RunResult", "choose_run", "resume_run", "run_with_policy", "start_run",
]  # fmt: skip


def start_run(
    loaded: Authored,
    job: Job,
    options: RunOptions,
    listener: Listener = ignore,
    *,
    parent: Parent | None = None,
    notes: tuple[Fault, ...] = (),
) -> RunResult:
    """Start a new run of a job from its beginning, and run the job to its end.

    Args:
        loaded: What is run.
        job: What it compiles to.
        options: Of this invocation.
        listener: Receives the events of the run.
        parent: For a fork: of the new run's directory, what is recorded of where it comes from.
        notes: Warnings to give with those that are found here.

    Raises:
        EnvironmentFaultError: Something that the job needs is missing, or writing failed.
        TaskFailedError: A step failed.
    """
    with exit_on_early_signal():
        warnings = _check_start(loaded, job, options, notes)
        with _lock_starts(job, options):
            new = _make_run(loaded, job, options, warnings, parent)
        with new.lock:
            try:
                return _run_new(new, job, options, listener)
            except (CheckpointError, UsageError):
                # The parent's epoch is not available, or has nothing left to run: there is no run
                # to continue.
                if parent and not new.run.has_saved:
                    _discard(new.run, options.run_dir)
                raise


def _start_or_continue(
    loaded: Authored,
    job: Job,
    options: RunOptions,
    listener: Listener,
    choose: Callable[[], Run | None],
) -> RunResult:
    """Start a new run, or continue the one that another process has made meanwhile.

    Args:
        loaded: What is run.
        job: What it compiles to.
        options: Of this invocation.
        listener: Receives the events of the run.
        choose: Returns the run to continue, or None where a new one is to be made.
    """
    with exit_on_early_signal():
        warnings = _check_start(loaded, job, options)
        with _lock_starts(job, options):
            chosen = choose() or _make_run(loaded, job, options, warnings)
        if isinstance(chosen, _NewRun):
            with chosen.lock:
                return _run_new(chosen, job, options, listener)
    return resume_run(chosen, options, listener, loaded=loaded)


def _check_start(
    loaded: Authored, job: Job, options: RunOptions, notes: tuple[Fault, ...] = ()
) -> tuple[Fault, ...]:
    """Check all that a new run needs before its directory is made; return the warnings."""
    require_interpreter_lock()
    IMPORTED_CODE.install()
    require_secrets(loaded)
    parse_node_map(job.cluster, options.places)
    set_blas_threads(job.blas_threads)
    require_valid_deadline(job.deadline, os.environ)
    warnings = preflight(job, Path(loaded.folder), options.listeners, imports=options.imports)
    warnings += check_upload(job)
    raise_errors(warnings)
    warnings = (*check_record(loaded), *notes, *warnings, *require_locked(loaded, job))
    warnings += _hash_seed_warning(job)
    if not options.trust:
        for directory in (options.run_dir, options.run_dir / job.name):
            require_own_parent(directory)
    if options.metadata is not None:
        run_metadata_handler.require_new_run(options.metadata)
    return warnings


class _NewRun(Struct, frozen=True):
    """A run whose directory was just made, its lock held, and what is to be warned of.

    Attributes:
        code: Digests of the files of its code.
    """

    run: Run
    lock: RunLock
    warnings: tuple[Fault, ...]
    code: Mapping[str, str]


def _lock_starts(job: Job, options: RunOptions) -> AbstractContextManager[None]:
    make_job_directory(options.run_dir, job.name)
    return lock_starts(options.run_dir / job.name)


def _make_run(
    loaded: Authored,
    job: Job,
    options: RunOptions,
    warnings: tuple[Fault, ...],
    parent: Parent | None = None,
) -> _NewRun:
    """Make the directory of a new run, up to its ``run.json``."""
    path = create_directory(options.run_dir, job.name)
    reach("runner.directory-made")
    with contextlib.ExitStack() as until_made:
        lock = until_made.enter_context(RunLock.acquire(path))
        warnings += probe_directory(path)
        needed_bytes = estimate_state_bytes(job, Path(loaded.folder))
        require_space(str(path), needed_bytes, len(job.cluster.nodes))
        warnings += check_file_system(path, find_file_system(path))
        digest = stage_authored(path, loaded, job)
        install_authored(path, loaded)
        reach("runner.spec-written")
        code = digest_code(job, Path(loaded.folder))
        record = replace(_new_record(path, loaded, job, code, options), resolved_digest=digest)
        run = Run(path, replace(record, parent=parent(path) if parent else {}))
        # With this file the directory becomes a run.
        write_record(path, run.record)
        reach("runner.run-made")
        point_latest(path)
        until_made.pop_all()
    return _NewRun(run, lock, warnings, code.files)


def _run_new(new: _NewRun, job: Job, options: RunOptions, listener: Listener) -> RunResult:
    """Start the first invocation of a run whose directory was just made, from init on.

    Raises:
        JobrunError: It did not end in good order; ``run.json`` says so too.
    """
    run, lock = new.run, new.lock
    run = run.write(environment=describe_environment())
    store = checkpoint_stores.open_store(run, job, run.folder)
    run_metadata = run_metadata_handler.RunMetadata(store, run.path, run.record.run_id)
    with invocation.fan_out_events(run, job, listener, 0, options) as listen:
        invocation.report_warnings(new.warnings, listen)
        work = invocation.Invocation(
            run, job, run.folder, lock, options, store, listen, code=new.code
        )
        if not job.checkpoint.enabled:
            listen(Noted("checkpoint: none: this run cannot be resumed", "warning"))
            return invocation.run_invocation(work, (), None)
        with run_metadata.opened(listen, listen.logs.count_metrics):
            if run.record.parent:
                from jobrun.runner.fork_first_state import report_parent  # noqa: PLC0415

                report_parent(run.record.parent, listen)
            handlers: tuple[MetadataHandler, ...] = (run_metadata,)
            if options.metadata:
                handlers += (run_metadata_handler.CheckedHandler(options.metadata),)
            return invocation.run_invocation(work, handlers, _fork_start(work))


def _fork_start(work: invocation.Invocation) -> ResumePoint | None:
    if not work.run.record.parent:
        return None
    from jobrun.runner.fork_first_state import fork_start  # noqa: PLC0415

    return fork_start(work.run, work.job)


def _discard(run: Run, run_dir: Path) -> None:
    """Remove a new run that failed to start; ignore errors, which would hide the first one."""
    with contextlib.suppress(JobrunError):
        remove_directory(run.path)
        before = newest_run(run_dir, run.record.job)
        if before is not None:
            point_latest(before.path)


def resume_run(
    run: Run,
    options: RunOptions,
    listener: Listener = ignore,
    *,
    loaded: Authored | None = None,
) -> RunResult:
    """Resume an existing run from its newest good checkpoint, or from ``options.epoch``.

    A finished run returns at once with the code it ended with, unless a limit that was
    changed no longer holds.

    Args:
        run: The run.
        options: Of this invocation.
        listener: Receives the events of the run.
        loaded: The spec to continue with; the recorded one if None.

    Raises:
        CheckpointError: There is no usable checkpoint, or not the wanted one.
        DriftError: The job differs from the one that was run.
        LockedError: A live process runs it.
        EnvironmentFaultError: Something that the job needs is missing, or writing failed.
        TaskFailedError: A step failed.
    """
    if not run.record.resumable:
        raise CheckpointError.of(
            "E361",
            f"run {run.name} kept no checkpoints ('checkpoint: none')",
            "start a new run; to be able to resume, take 'checkpoint: none' out of the spec",
        )
    if run.record.status == "finished" and _has_nothing_new(run, options, loaded):
        commands = _list_commands(run, options, loaded)
        return finished.finished_result(run, options, loaded, listener, commands)
    require_interpreter_lock()
    IMPORTED_CODE.install()
    present = loaded if loaded is not None else load_recorded(run)
    require_secrets(present)
    job = compile_authored(present)
    match_hash_seed(run, options)
    parse_node_map(job.cluster, options.places)
    set_blas_threads(job.blas_threads)
    with exit_on_early_signal(), RunLock.acquire(run.path) as lock:
        # Read again: the process that held the lock may have made progress since the lookup.
        run = open_run(run.path)
        return _continue_run(run, present, job, lock, options, listener)


def _continue_run(
    run: Run,
    present: Authored,
    job: Job,
    lock: RunLock,
    options: RunOptions,
    listener: Listener,
) -> RunResult:
    """Resume a run whose lock is held: refuse drift, restore an epoch, run the epoch loop.

    ::

        choose the epoch                    # reads only
        refuse drift, and what is missing   # reads only
        do what the choice asks for         # journal first, then moves
        write down what is run now
        run the loop from that epoch

    Raises:
        JobrunError: It is refused, or did not end in good order.
    """
    if not options.trust:
        require_own(run.path)
    # Lazy, as the imports below: a new run does not need them.
    from jobrun.runner.check_resume import preview_resume  # noqa: PLC0415
    from jobrun.runner.resume.resize import list_resizes  # noqa: PLC0415

    preview = preview_resume(run, present, job, options)
    plan, run_metadata, other = preview.plan, preview.run_metadata, preview.other
    accept = (*run.record.accepted, *options.accept)
    commands = _list_commands(run, options, present)
    require_no_drift(
        preview.changes,
        strict=options.strict,
        accept=accept,
        commands=commands,
        explained=preview.explained,
    )
    raise_errors(preview.faults)
    unpinned = require_locked(present, job)
    is_whole = plan.epoch != FROM_INIT and not run_metadata.entry.records
    if is_whole and digest_authored(present) != run.record.spec_digest:
        # Lazy: only a resume with another spec needs this.
        from jobrun.runner.checkpoint_types import require_stored_types  # noqa: PLC0415

        moved, nodes = preview.resized.types, preview.resized.nodes
        require_stored_types(job, Path(present.folder), preview.store, plan.epoch, moved, nodes)
    warnings = preview.faults + unpinned + probe_directory(run.path)
    with (
        invocation.fan_out_events(run, job, listener, plan.generation, options) as listen,
        run_metadata.opened(listen, listen.logs.count_metrics),
    ):
        run_metadata.recover(listen)
        listen(run_metadata_handler.build_choice_note(preview.chosen))
        invocation.report_changes(preview.changes, listen, preview.resized)
        invocation.report_warnings(warnings, listen)
        before = run.record
        run = invocation.record_start(
            run.write(resized=list_resizes(before.resized, plan.epoch, preview.resized)),
            present,
            job,
            plan,
            options,
            preview.code,
        )
        if run_metadata.entry.records:
            # A mid-epoch save counts as progress.
            run = run.write(starts=1)
        # A finished run repeats the groups after its last epoch if they were changed.
        ended = before.status == "finished" and not touches_end(preview.changes)
        ended_code = (before.exit_code or 0) if ended else 0
        folder, store = Path(present.folder), preview.store
        refresh_imported(run.path)
        work = invocation.Invocation(
            run, job, folder, lock, options, store, listen, ended_code, code=preview.code.files
        )
        resumed, entry = _build_resume_point(work, plan, run_metadata.entry, ended=ended)
        run_metadata.restore_metrics()
        if other and resumed and not other.accessible(plan.epoch):
            # A kill came between the save and this notification.
            other.written(plan.epoch, plan.generation)
        return invocation.run_invocation(
            work, (run_metadata, other) if other else (run_metadata,), resumed, entry
        )


def _list_commands(run: Run, options: RunOptions, present: Authored | None) -> tuple[str, str]:
    """Build the commands to suggest if drift forbids a resume.

    Returns:
        Of ``resume``, and of ``fork``; for a run that has finished, of ``run``.
    """
    words = options.given if present is None else hide_secrets(options.given, present)
    handle = run.handle(options.run_dir)
    spec = words[1:] if words[:1] == ("--spec",) else words
    other = ("fork", handle, *spec)
    if run.record.status == "finished":
        # A fork from the last epoch would run no epoch.
        other = (
            "run",
            *(spec if words[:1] == ("--spec",) else ("SPEC", *words)),
            "--resume",
            "never",
        )
    return shlex.join(("jobrun", "resume", handle, *words)), shlex.join(("jobrun", *other))


def _build_resume_point(
    work: invocation.Invocation, plan: RecoveryPlan, entry: EntryPlan, *, ended: bool
) -> tuple[ResumePoint | None, SafePoint | None]:
    """Build what a run is resumed from: saved state, and a point within an epoch or None."""
    path, job = work.run.path, work.job
    if plan.epoch == FROM_INIT:
        trim_metrics(path, plan.epoch)
        return _fork_start(work), None
    store, epoch, midpoint = work.store, plan.epoch, None
    if entry.records:
        from jobrun.checkpoint.stores.mid_epoch_store import mid_epoch_store  # noqa: PLC0415
        from jobrun.runner.resume.mid_epoch_recovery import read_midpoint  # noqa: PLC0415

        store, epoch = mid_epoch_store(store, entry.records), entry.epoch
        manifest = store.manifest(epoch)
        midpoint, metrics_bytes = read_midpoint(job, manifest, store.path(epoch))
        cut_metrics(path, metrics_bytes)
    else:
        manifest = store.manifest(epoch)
        trim_metrics(path, epoch)
    from jobrun.runner.loop.epoch_loop import ResumePoint  # noqa: PLC0415
    from jobrun.runner.resume.resize import restore_progress  # noqa: PLC0415

    progress, load, unknown = restore_progress(job, manifest, store.path(epoch))
    accept = (*work.run.record.accepted, *work.options.accept, *unknown)
    return ResumePoint(progress, load, accept, ended=ended), midpoint


def match_hash_seed(run: Run, options: RunOptions) -> None:
    """Restart Python with the run's hash seed before resuming, if the present one differs.

    Where it cannot, the difference is drift of the numerics.
    """
    wanted = recorded_seed(str(run.record.environment.get("hash_seed", "")))
    if options.restart is not None and wanted and wanted != hash_seed():
        options.restart(wanted)


def run_with_policy(
    loaded: Authored,
    job: Job,
    options: RunOptions,
    listener: Listener = ignore,
    resume: Resume = "",
) -> RunResult:
    """Start a new run or resume the newest one, as a ``Resume`` policy decides.

    Args:
        loaded: The spec.
        job: What it compiles to.
        options: Of this invocation.
        listener: Receives the events of the run.
        resume: ``auto`` continues the newest run with the same params and seed, or starts one
            when there is none; ``must`` needs one; ``never`` starts one; empty starts one,
            unless the newest is unfinished and has saved something, or runs now.

    Raises:
        UsageError: The newest run is unfinished, and the policy is empty.
        CheckpointError: The policy is ``must``, and there is no run; or a newer one has saved
            epochs, and its ``run.json`` cannot be read.
        LockedError: Another process runs it, or has been starting one for minutes.
    """

    def choose() -> Run | None:
        return _choose_by_policy(loaded, job, options, resume)

    newest = newest_run(options.run_dir, job.name)
    if resume in ("", "auto"):
        _warn_of_moved_run(options.run_dir, job.name, newest, listener)
    run = choose()
    if run is not None:
        return resume_run(run, options, listener, loaded=loaded)
    if resume != "never" and newest is not None and newest.unfinished:
        listener(_describe_other_run(newest, known_inputs(loaded, job.seed)))
    return _start_or_continue(loaded, job, options, listener, choose)


def _choose_by_policy(
    loaded: Authored, job: Job, options: RunOptions, resume: Resume
) -> Run | None:
    """Choose the run of this job, with these params and this seed, that a policy continues.

    Returns:
        None where a new run is to be started.

    Raises:
        UsageError: E352, it is unfinished, and the policy is empty.
        CheckpointError: E360, there is none, and the policy is ``must``; E375, see
            ``require_readable_runs``.
    """
    if resume == "never":
        return None
    inputs = known_inputs(loaded, job.seed)
    newest = newest_run(options.run_dir, job.name, inputs)
    require_readable_runs(options.run_dir, job.name, newest)
    can_continue = newest is not None and newest.record.resumable
    if resume == "must" and not can_continue:
        raise _no_run_error(job.name, options.run_dir, inputs)
    if newest is None or not can_continue:
        return None
    if not resume and _would_lose_work(newest):
        raise _unfinished_error(newest, options, loaded)
    return newest if resume else None


def _no_run_error(job: str, run_dir: Path, inputs: RunInputs) -> CheckpointError:
    other = newest_run(run_dir, job)
    message = f"there is no run of {job} in {run_dir}"
    if other is not None and other.record.resumable:
        message = (
            f"there is no run of {job} with these params in {run_dir}; the newest one, "
            f"{other.path.name}, has {_list_other_inputs(other, inputs)}"
        )
    return CheckpointError.of(
        "E360", message, "start one with 'jobrun run SPEC', or name another --run-dir"
    )


def _describe_other_run(other: Run, inputs: RunInputs) -> Noted:
    """Say that a new run is started beside an unfinished one, which has other params."""
    differences = _list_other_inputs(other, inputs)
    return Noted(f"a new run: {other.name} is unfinished, and has other params ({differences})")


def _list_other_inputs(other: Run, inputs: RunInputs) -> str:
    params = {f"params.{name}": value for name, value in other.record.params.items()}
    known = {SEED: other.record.seed, **params}
    differing = sorted(inputs.find_differing(read_inputs(dump_inputs(other.record))))
    return ", ".join(f"{field} = {known[field]}" for field in differing)


def _warn_of_moved_run(run_dir: Path, job: str, newest: Run | None, listener: Listener) -> None:
    """Warn at a run's start that the job's newest run was moved away or removed."""
    name = find_moved_latest(run_dir, job, newest)
    if name:
        # In another folder of the runs it is listed, but not continued as a run of this job.
        here = [
            run for run in runs(run_dir) if run.record.job == job and run.path.parent.name != job
        ]
        new_path = os.path.relpath(here[-1].path) if here else "PATH"
        text = (
            f"'{LATEST}' in {run_dir / job} points to run {name}, which is not there any more: it "
            f"was moved or removed; to continue it, name its new place: jobrun resume {new_path}"
        )
        listener(Noted(text, "warning"))


def choose_run(
    text: str, run_dir: Path, epoch: int | None = None, listener: Listener = ignore
) -> Run:
    """Choose which run to resume: the named one, fetched if remote, or the newest unfinished.

    One in an object store is brought here first, with that epoch or its newest good one; the
    listener receives a warning where that is not the newest.

    Raises:
        CheckpointError: There is none, or the name is that of no run's directory.
        UsageError: No run, or more than one, has the name.
    """
    if is_object_url(text):
        from jobrun.runner.rundir.object_store_run import local_copy, remote_run  # noqa: PLC0415 - brings numpy

        return local_copy(remote_run(text), run_dir, epoch, listener)
    return find_run(text, run_dir) if text else newest_unfinished(run_dir)


def _hash_seed_warning(job: Job) -> tuple[Fault, ...]:
    if hash_seed() != RANDOM or not has_callables(job):
        return ()
    message = "this process has a random hash seed, so sets of text are iterated in another order "
    mend = "set PYTHONHASHSEED=0 before Python starts, or use the command line, which does"
    return (Fault("W188", f"{message}after each start", mend, severity="warning"),)


def _new_record(
    path: Path, loaded: Authored, job: Job, code: CodeDigests, options: RunOptions
) -> RunRecord:
    return RunRecord(
        run_id=str(uuid.uuid4()),
        job=job.name,
        created=datetime.now(UTC).isoformat(timespec="microseconds"),
        order=next_order(options.run_dir),
        resumable=job.checkpoint.enabled,
        folder=os.path.relpath(loaded.folder, path),
        spec_digest=digest_authored(loaded),
        params=recordable_params(loaded),
        seed=job.seed,
        given=list_given(loaded),
        limit_epochs=options.epochs,
        callables=code.sources,
        packages=code.packages,
        provenance=collect_provenance(loaded),
        data=fingerprint_data(job, Path(loaded.folder)),
        file_system=find_file_system(path),
        variables=loaded.environment_digests,
        host=os.uname().nodename,
        version=__version__,
    )


def _has_nothing_new(run: Run, options: RunOptions, loaded: Authored | None) -> bool:
    same_spec = loaded is None or digest_authored(loaded) == run.record.spec_digest
    same_limit = options.epochs in (0, run.record.limit_epochs)
    # A handler may name another epoch than the last.
    nobody_chooses = options.epoch is None and options.metadata is None
    return same_spec and same_limit and nobody_chooses


def _would_lose_work(run: Run) -> bool:
    """Return whether starting a new run would abandon saved work, or a live run, of the job."""
    return run.unfinished and (run.has_saved or is_live(run.path))


def _unfinished_error(run: Run, options: RunOptions, loaded: Authored) -> UsageError:
    state = f"held by {owner_of(run.path)}" if is_live(run.path) else run.record.status
    if state == "running":
        state = "killed"
    # The first file is the one named on the command line; --set is no file. A Python job has none.
    files = loaded.files if isinstance(loaded, LoadedSpec) else ()
    spec = next((name for name in files if not name.startswith("--")), "SPEC")
    words = hide_secrets(options.given, loaded)
    again = shlex.join(("jobrun", "run", *(words[1:] or (spec,)), "--resume", "never"))
    return UsageError.of(
        "E352",
        f"run {run.name} is unfinished ({state})",
        f"continue it: jobrun resume {run.handle(options.run_dir)} · or start again: {again}",
    )
