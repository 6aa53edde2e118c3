"""All runs below a directory, with those that live and those that were killed. Shows nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from jobrun.runner.lock import is_live
from jobrun.runner.runindex import Indexed, indexed_runs

# What a run that neither lives nor has said how it ended is called.
KILLED = "killed"


def listed_runs(run_dir: Path) -> tuple[Indexed, ...]:
    """The runs below a directory, oldest first; their status as they stand now.

    What is no run, or damaged, is left out. One whose record says that it runs, and that nobody
    holds, was killed.
    """
    return tuple(_standing(run_dir, one) for one in indexed_runs(run_dir))


def _standing(run_dir: Path, one: Indexed) -> Indexed:
    if one.status == "running" and not is_live(run_dir / one.path):
        return replace(one, status=KILLED)
    return one
