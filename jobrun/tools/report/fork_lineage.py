"""Find the ancestors that a run was forked from, and the children forked from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jobrun.core.errors import CheckpointError
from jobrun.core.lazy_dataclass import dataclass
from jobrun.runner.rundir.run_directories import Run, open_run, runs

_MOST = 20


@dataclass(frozen=True, slots=True)
class Link:
    """A fork: which run, from which epoch of its parent, with which blobs (empty: all)."""

    run: str
    epoch: int
    blobs: tuple[str, ...] = ()


def ancestors(run: Run) -> tuple[Link, ...]:
    """Find the ancestors of a fork: its parent, its parent's parent, and so on."""
    return tuple(_upwards(run))


def children(run: Run) -> tuple[Link, ...]:
    """Find the children of a run, the forks made from it, oldest first."""
    others = runs(run.path.parent.parent, run.record.job)
    mine = [one for one in others if one.record.parent.get("run_id") == run.record.run_id]
    return tuple(_link(one.name, one.record.parent) for one in mine[:_MOST])


def _upwards(run: Run) -> Iterator[Link]:
    seen = {run.record.run_id}
    while run.record.parent and len(seen) <= _MOST:
        parent = run.record.parent
        yield _link(str(parent.get("run")), parent)
        if parent.get("run_id") in seen:
            return
        seen.add(str(parent.get("run_id")))
        above = _parent(run)
        if above is None:
            return
        run = above


def _parent(run: Run) -> Run | None:
    """Find a run's parent in the fork lineage, if the parent's directory has not moved."""
    place = Path(run.path, str(run.record.parent.get("checkpoints", ""))).parent
    try:
        found = open_run(place.resolve())
    except CheckpointError:
        return None
    return found if found.record.run_id == run.record.parent.get("run_id") else None


def _link(run: str, parent: Mapping[str, Any]) -> Link:
    epoch = parent.get("epoch")
    return Link(run, epoch if isinstance(epoch, int) else -1, tuple(parent.get("blobs") or ()))
