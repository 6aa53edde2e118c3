"""What a resume of a run that has finished says: nothing runs, unless its last state is gone."""

from __future__ import annotations

import contextlib
from importlib import import_module
from pathlib import Path

from jobrun.checkpoint.store import CheckpointStore
from jobrun.core.errors import Fault, JobrunError
from jobrun.core.events import Listener, Noted
from jobrun.runner.authored import Authored, job_of, recorded
from jobrun.runner.journal import read_journal
from jobrun.runner.recover import inspector
from jobrun.runner.rundir import Run
from jobrun.runner.settings import RunOptions, RunResult


def ended(run: Run, options: RunOptions, loaded: Authored | None, listen: Listener) -> RunResult:
    """How a finished run ended; a damaged or missing newest checkpoint is told, as a warning.

    Args:
        run: The run.
        options: Of this invocation.
        loaded: What it was asked to go on with; None for what is recorded.
        listen: Is told.
    """
    record = run.record
    damage = damage_of_newest(run, loaded)
    if damage:
        again = f"jobrun resume {run.handle(options.run_dir)} --epoch N"
        fault = Fault(
            "W183",
            f"run {run.name}: {damage}; the run had finished, so nothing is left to run",
            f"to make its last state again from an older epoch: {again}",
            severity="warning",
        )
        listen(Noted(f"{fault.message} ({fault.mend})", "warning"))
    return RunResult(record.exit_code or 0, str(run.path), record.epoch, record.reason)


def damage_of_newest(run: Run, loaded: Authored | None = None) -> str:
    """Why the newest acknowledged epoch of a run cannot be read back; empty when it can."""
    try:
        newest = read_journal(run.path, run.record.run_id).newest
        store = _store(run, loaded)
        if newest < 0:
            return ""
        if newest not in store.epochs():
            return f"its newest checkpoint, epoch {newest}, is gone"
        damage = inspector(store, run.record.run_id)(newest)
    except JobrunError as error:
        return error.faults[0].message
    return f"its newest checkpoint, epoch {newest}, is damaged ({damage.reason})" if damage else ""


def _store(run: Run, loaded: Authored | None) -> CheckpointStore:
    # What a job is compiled for is only where its checkpoints are; without it they are inside.
    with contextlib.suppress(JobrunError):
        present = loaded if loaded is not None else recorded(run)
        places = import_module("jobrun.runner.places")
        found: CheckpointStore = places.store_of(run, job_of(present), Path(present.folder))
        return found
    directory = import_module("jobrun.checkpoint.directory")
    inside: CheckpointStore = directory.DirectoryStore(str(run.path / "checkpoints"))
    return inside
