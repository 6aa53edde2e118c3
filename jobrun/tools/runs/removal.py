"""Removing runs: a run disappears whole, and one that lives never does."""

from __future__ import annotations

import shutil
from pathlib import Path

from jobrun.core.errors import UsageError
from jobrun.runner.durable import disk_faults, sync_directory
from jobrun.runner.lock import RunLock
from jobrun.runner.rundir import Run

_PREFIX = ".removed-"


def size_of(run: Path) -> int:
    """The bytes of all files of a run."""
    return sum(path.lstat().st_size for path in run.rglob("*") if not path.is_dir())


def remove_run(run: Run, *, unfinished: bool = False) -> None:
    """Delete a run's directory.

    Args:
        run: The run.
        unfinished: One that ``resume`` could go on with is meant, too.

    Raises:
        LockedError: It lives.
        UsageError: E423, it could be continued, and ``unfinished`` does not say so.
        EnvironmentFaultError: The disk says no.
    """
    if run.unfinished and run.has_saved and not unfinished:
        raise UsageError.of(
            "E423",
            f"{run.name} is not finished, and 'jobrun resume' could go on with it",
            "add --unfinished if it is to be removed all the same",
        )
    path = run.path
    # Held until it is gone: nobody can go on with half of a run.
    with RunLock.acquire(path), disk_faults(f"remove {path}"):
        aside = path.with_name(f"{_PREFIX}{path.name}")
        path.rename(aside)
        sync_directory(path.parent)
        shutil.rmtree(aside)
