"""Handle the resume of a run that has finished: return its result, and run nothing."""

from __future__ import annotations

import contextlib
from importlib import import_module
from pathlib import Path

from jobrun.checkpoint.store_protocol import CheckpointStore
from jobrun.core.errors import Fault, JobrunError
from jobrun.core.events import Listener, Noted
from jobrun.runner.identity.recorded_job import Authored, compile_authored, load_recorded
from jobrun.runner.options import RunOptions, RunResult
from jobrun.runner.resume.lost_epochs import require_newest_epoch
from jobrun.runner.resume.recovery import epoch_inspector
from jobrun.runner.rundir.journal import read_journal
from jobrun.runner.rundir.run_directories import Run


def finished_result(
    run: Run, options: RunOptions, loaded: Authored | None, listen: Listener
) -> RunResult:
    """Return the result of a finished run that is resumed; warn if the newest epoch is damaged.

    Args:
        run: The run.
        options: Of this invocation.
        loaded: The job to continue with; None for the recorded one.
        listen: Receives events.
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
    return RunResult(record.exit_code or 0, str(run.path), record.epoch, record.reason)


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
    # What a job is compiled for is only where its checkpoints are; without it they are inside.
    with contextlib.suppress(JobrunError):
        present = loaded if loaded is not None else load_recorded(run)
        places = import_module("jobrun.runner.checkpoint_stores")
        found: CheckpointStore = places.open_store(
            run, compile_authored(present), Path(present.folder)
        )
        return found
    directory = import_module("jobrun.checkpoint.stores.directory")
    inside: CheckpointStore = directory.DirectoryStore(str(run.path / "checkpoints"))
    return inside
