"""Handle the resume of a run that has finished: return its result, and run nothing."""

from __future__ import annotations

import contextlib
from importlib import import_module
from pathlib import Path

from jobrun.checkpoint.store_protocol import CheckpointStore
from jobrun.core.errors import Fault, JobrunError
from jobrun.core.events import Listener, Noted
from jobrun.runner.identity.blas_libraries import set_blas_threads
from jobrun.runner.identity.drift import Change, find_refused, require_no_drift
from jobrun.runner.identity.present_changes import find_result_changes
from jobrun.runner.identity.recorded_job import (
    Authored,
    check_record,
    compile_authored,
    load_recorded,
)
from jobrun.runner.options import RunOptions, RunResult
from jobrun.runner.resume.recovery import epoch_inspector
from jobrun.runner.rundir.journal import read_journal
from jobrun.runner.rundir.lost_epochs import require_newest_epoch
from jobrun.runner.rundir.run_directories import Run


def finished_result(
    run: Run,
    options: RunOptions,
    loaded: Authored | None,
    listen: Listener,
    commands: tuple[str, str] = ("", ""),
) -> RunResult:
    """Return the result of a finished run that is resumed; warn where it is not what it was.

    Args:
        run: The run.
        options: Of this invocation.
        loaded: The job to continue with; None for the recorded one.
        listen: Receives events.
        commands: Those that return the result all the same, and that start a new run.

    Raises:
        DriftError: What has decided the result has changed, and ``options.strict`` is set.
        JobrunError: It cannot be compared, and ``options.strict`` is set.
    """
    record = run.record
    damage = find_newest_damage(run, loaded)
    if damage:
        again = f"jobrun resume {run.handle(options.run_dir)} --epoch N"
        fault = Fault(
            "W183",
            f"run {run.name}: {damage}; the run had finished, so nothing is left to run",
            f"to compute its last state again from an older epoch: {again}",
            severity="warning",
        )
        listen(Noted(f"{fault.message} ({fault.mend})", "warning"))
    try:
        present = loaded if loaded is not None else load_recorded(run)
        for note in check_record(present):
            listen(Noted(f"{note.message} ({note.mend})", "warning"))
        changes = list_result_changes(run, present)
    except JobrunError as error:
        if options.strict:
            raise
        reason = error.faults[0].message
        text = f"whether its code and data have changed cannot be said: {reason}"
        listen(Noted(f"run {run.name} had finished; {text}", "warning"))
        changes = ()
    accept = (*record.accepted, *options.accept)
    if options.strict:
        require_no_drift(changes, strict=True, accept=accept, commands=commands)
    outdated = find_refused(changes, strict=True, accept=accept)
    for change in outdated:
        listen(Noted(f"changed ({change.kind}) since the run finished: {change}", "warning"))
    if outdated:
        text = f"run {run.name} had finished, and is returned as it was computed then"
        listen(Noted(f"{text}; to compute it with what is there now: {commands[1]}", "warning"))
    return RunResult(record.exit_code or 0, str(run.path), record.epoch, record.reason)


def list_result_changes(run: Run, loaded: Authored | None = None) -> tuple[Change, ...]:
    """List what has changed since a run recorded it, of all that has decided its result.

    Args:
        run: The run.
        loaded: The job that would be run now; None for the recorded one.

    Raises:
        JobrunError: What the run recorded cannot be read or does not compile here.
    """
    present = loaded if loaded is not None else load_recorded(run)
    job = compile_authored(present)
    set_blas_threads(job.blas_threads)
    return find_result_changes(run, present, job)


def describe_outdated(run: Run, changes: tuple[Change, ...]) -> tuple[str, ...]:
    """Describe, for a table or a page, why a run's result is not that of what is there now.

    Args:
        run: The run.
        changes: As ``list_result_changes`` returns them.
    """
    accepted = run.record.accepted
    differing = find_refused(changes, strict=True, accept=accepted)
    within = (f"{field}: changed within the run, and accepted" for field in accepted)
    return (*map(str, differing), *within)


def find_newest_damage(run: Run, loaded: Authored | None = None) -> str:
    """Return why a finished run's newest epoch cannot be read back; empty if it can."""
    try:
        newest = read_journal(run.path, run.record.run_id).newest
        store = _store(run, loaded)
        require_newest_epoch(run, store.epochs)
        if newest < 0:
            return ""
        damage = epoch_inspector(store, run.record.run_id)(newest)
    except JobrunError as error:
        return error.faults[0].message
    return f"its newest checkpoint, epoch {newest}, is damaged ({damage.reason})" if damage else ""


def _store(run: Run, loaded: Authored | None) -> CheckpointStore:
    # Compiled only to learn where the checkpoints are; if that fails, look inside the run.
    with contextlib.suppress(JobrunError):
        present = loaded if loaded is not None else load_recorded(run)
        stores = import_module("jobrun.runner.checkpoint_stores")
        store: CheckpointStore = stores.open_store(
            run, compile_authored(present), Path(present.folder)
        )
        return store
    directory = import_module("jobrun.checkpoint.stores.directory")
    inside: CheckpointStore = directory.DirectoryStore(str(run.path / "checkpoints"))
    return inside
