"""What a resume does to a run before it computes, for thousands of runs in one process.

Each line of stdin is a list of directories, each line of stdout what was chosen in them, or why
that was refused. Run as ``python -m tests.durability.recovery_process [MODULE:FUNCTION …]``, whose
functions are called first; ``explorer`` starts it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from jobrun.checkpoint.stores.mid_epoch_store import mid_epoch_store
from jobrun.core.errors import JobrunError
from jobrun.core.events import ignore
from jobrun.graph.types import Job
from jobrun.runner import run_metadata_handler as metadata
from jobrun.runner.checkpoint_stores import open_store
from jobrun.runner.identity.recorded_job import compile_authored, load_recorded
from jobrun.runner.resume.mid_epoch_recovery import read_midpoint
from jobrun.runner.resume.recovery import FROM_INIT
from jobrun.runner.rundir.journal import read_journal
from jobrun.runner.rundir.lock import RunLock
from jobrun.runner.rundir.logs import cut_metrics, trim_metrics
from jobrun.runner.rundir.run_directories import Run, newest_run, open_run, unreadable_runs

_JOB = "tiny"
# By the bytes of the spec's files.
_jobs: dict[bytes, Job] = {}


def recover(folder: Path) -> dict[str, Any]:
    """Recover the run below ``place/runs``: ``chosen`` is -1 for init, also where there is none.

    ``records`` is after how many of the next epoch's records it goes on.
    """
    if unreadable := unreadable_runs(folder / "runs", _JOB):
        return {
            "refused": f"{unreadable[0].name} has saved epochs, and no run.json that can be read"
        }
    run = newest_run(folder / "runs", _JOB)
    if run is None:
        return {"chosen": FROM_INIT}
    try:
        return dict(zip(("chosen", "records"), _recovered(run), strict=True))
    except JobrunError as error:
        return {"refused": "; ".join(f"{fault.code} {fault.message}" for fault in error.faults)}
    except Exception:  # noqa: BLE001 - no answer is the worst one
        return {"refused": f"CRASH {traceback.format_exc()}"}


def _recovered(run: Run) -> tuple[int, int]:
    """As ``invocation.go_on``, without drift and without an environment to describe."""
    job = _job_of(run)
    with RunLock.acquire(run.path):
        run = open_run(run.path)
        store = open_store(run, job, run.folder)
        run_metadata = metadata.RunMetadata(
            store, run.path, run.record.run_id, run.record.generation
        )
        chosen = run_metadata.last_epoch(None).epoch
        with run_metadata.opened(ignore):
            run_metadata.recover(ignore)
            run.write(status="running", epoch=chosen, generation=run_metadata.recovery.generation)
            records = run_metadata.entry.records
            if records:
                within = mid_epoch_store(store, records)
                _, size = read_midpoint(job, within.manifest(chosen + 1), within.path(chosen + 1))
                cut_metrics(run.path, size)
            else:
                trim_metrics(run.path, chosen)
        # What the next resume reads must be of one mind with this one.
        journal = read_journal(run.path, run.record.run_id)
        assert journal.newest == chosen, (journal, chosen)
        assert not records or journal.within == (chosen + 1, records), (journal, records)
    return chosen, records


def _job_of(run: Run) -> Job:
    files = sorted((run.path / "spec").iterdir())
    key = b"\0".join(path.name.encode() + b"\0" + path.read_bytes() for path in files)
    if key not in _jobs:
        _jobs[key] = compile_authored(load_recorded(run))
    return _jobs[key]


def main() -> int:
    """Serve until stdin ends."""
    for name in sys.argv[1:]:
        module, _, function = name.partition(":")
        getattr(importlib.import_module(module), function)()
    # The states are on a disk of memory, and looked at once.
    os.fsync = lambda descriptor: None
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps([recover(Path(path)) for path in json.loads(line)]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
