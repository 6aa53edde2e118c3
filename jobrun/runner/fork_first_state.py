"""Load the first state of a forked run from its parent.

What is needed for it is in ``run.json`` from the beginning, so that a fork that was killed
before its first save does it again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from jobrun.checkpoint.store_protocol import CheckpointStore, Manifest
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.task_groups import partial_group
from jobrun.core.errors import CheckpointError, DriftError, UsageError
from jobrun.core.events import Listener, Noted
from jobrun.core.text.names import did_you_mean
from jobrun.graph.query import checkpointed_blobs, outputs_read_later
from jobrun.graph.types import Job, TaskGroup
from jobrun.runner.checkpoint_types import require_stored_types
from jobrun.runner.loop.epoch_loop import ResumePoint
from jobrun.runner.resume.recovery import epoch_inspector
from jobrun.runner.resume.resize import plan_resize, restore_progress
from jobrun.runner.rundir.run_directories import Run

# A fork computes constants again, perhaps by another spec, which is its purpose.
_ACCEPTED = ("constants",)


def describe_parent(parent: Mapping[str, Any]) -> str:
    """Describe the parent of a fork's first state: ``walk/brisk-heron, epoch 12``."""
    patterns = parent.get("blobs") or ()
    some = f" (blobs {', '.join(patterns)})" if patterns else ""
    return f"{parent.get('run')}, epoch {parent.get('epoch')}{some}"


def report_parent(parent: Mapping[str, Any], listen: Listener) -> None:
    """Emit a ``Noted`` event that names the parent run and epoch of a fork."""
    listen(Noted(f"forked from {describe_parent(parent)}"))


def require_parent(run: Run) -> Manifest | None:
    """Return the manifest of the epoch that gives a fork its first state; raise if it is gone.

    Returns:
        The manifest of that epoch; None for a run that is no fork.

    Raises:
        CheckpointError: E359, the parent's epoch is not there any more, or damaged.
    """
    parent = run.record.parent
    if not parent:
        return None
    store, epoch = _open_parent_store(run), int(parent["epoch"])
    _require_usable(store, epoch, parent)
    return store.manifest(epoch)


def fork_start(run: Run, job: Job) -> ResumePoint | None:
    """Return the first state of a fork that takes all blobs of its parent; None for other runs.

    Raises:
        CheckpointError: The parent's epoch is not there any more, or damaged.
    """
    manifest = None if run.record.parent.get("blobs") else require_parent(run)
    if manifest is None:
        return None
    store, epoch = _open_parent_store(run), manifest.epoch
    progress, load, _ = restore_progress(job, manifest, store.path(epoch))
    read_later = outputs_read_later(job)
    progress = replace(
        progress,
        elapsed_s=0.0,
        scores=(),
        stopping=(),
        failed_saves=0,
        outputs={ref: value for ref, value in progress.outputs.items() if ref in read_later},
    )
    resize_plan = plan_resize(job, manifest, store.path(epoch))
    require_stored_types(job, run.folder, store, epoch, resize_plan.types, resize_plan.nodes)
    return ResumePoint(progress, load, _ACCEPTED, adopted=True)


def seed_group(run: Run, job: Job) -> TaskGroup | None:
    """Build the task group that loads chosen parent blobs into a fork; None without a choice.

    Raises:
        CheckpointError: The parent's epoch is not there any more, or damaged.
    """
    patterns = tuple(run.record.parent.get("blobs") or ())
    manifest = require_parent(run) if patterns else None
    if manifest is None:
        return None
    store, epoch = _open_parent_store(run), manifest.epoch
    wanted = match_blobs(job, read_stored_names(store, epoch), patterns)
    return partial_group(manifest, store.path(epoch), wanted)


def match_blobs(
    job: Job, there: Mapping[str, tuple[str, ...]], patterns: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """Choose by name patterns the parent's blobs for a fork's first state; return them by node.

    Args:
        job: The job that is to have them.
        there: What the checkpoint has, by node.
        patterns: Of names, such as ``w*``; or ``node.name``.

    Raises:
        UsageError: E382, a pattern means none.
    """
    constants = dict(job.constants)
    # Checkpoints contain only those constants that are objects.
    both = {
        node: [n for n in (*names, *constants.get(node, ())) if n in there.get(node, ())]
        for node, names in checkpointed_blobs(job).items()
    }
    for pattern in patterns:
        if not any(_matches(pattern, node, name) for node in both for name in both[node]):
            known = sorted({name for names in both.values() for name in names})
            raise UsageError.of(
                "E382",
                f"--blobs {pattern}: no blob of that name is both in the checkpoint and in the "
                "state of the job",
                did_you_mean(pattern.rpartition(".")[2], known),
            )
    wanted = {
        node: tuple(n for n in names if any(_matches(pattern, node, n) for pattern in patterns))
        for node, names in both.items()
    }
    return {node: names for node, names in wanted.items() if names}


def require_resizable(job: Job, store: CheckpointStore, epoch: int) -> frozenset[str]:
    """Return the nodes over which a fork's first state is redistributed; raise if it cannot be.

    Raises:
        DriftError: E387, E388, some of what the job declares cannot be.
    """
    resize_plan = plan_resize(job, store.manifest(epoch), store.path(epoch), compare=True)
    if job.layouts and resize_plan.faults:
        raise DriftError(
            *dict.fromkeys(fault for faults in resize_plan.faults.values() for fault in faults)
        )
    return resize_plan.nodes


def require_full_state(
    job: Job, there: Mapping[str, tuple[str, ...]], parent: str, without: Collection[str] = ()
) -> None:
    """Require that the parent's epoch has all blobs that a fork starts with, on each node.

    Nothing is required of the nodes in ``without``, over which a resize redistributes state.

    Raises:
        UsageError: E382, it has not.
    """
    missing = [
        f"{node}.{name}" if len(job.cluster.nodes) > 1 else name
        for node, names in checkpointed_blobs(job).items()
        for name in names
        if node not in without and name not in there.get(node, ())
    ]
    if missing:
        raise UsageError.of(
            "E382",
            f"{parent} has no {', '.join(missing)}, which the job keeps as state",
            "take over what both have, and let init make the rest: --blobs '*'",
        )


def read_stored_names(store: CheckpointStore, epoch: int) -> dict[str, tuple[str, ...]]:
    """Read the names of the blobs in the epoch that a fork starts from; return them by node.

    Raises:
        CheckpointError: A file is not there, or damaged.
    """
    # Lazy: imports h5py.
    from jobrun.checkpoint.checkpoint_file import inspect_state  # noqa: PLC0415

    names = {}
    for file in store.manifest(epoch).files:
        facts = inspect_state(str(Path(store.path(epoch), file.name)))
        names[file.node] = facts.names
    return names


def _open_parent_store(run: Run) -> CheckpointStore:
    return DirectoryStore(str(run.path / str(run.record.parent["checkpoints"])))


def _require_usable(store: CheckpointStore, epoch: int, parent: Mapping[str, Any]) -> None:
    mend = "put the parent back where it was, or fork again from an epoch that is there"
    if epoch not in store.epochs():
        raise CheckpointError.of(
            "E359", f"{describe_parent(parent)}, does not exist any more", mend
        )
    damage = epoch_inspector(store, str(parent["run_id"]))(epoch)
    if damage is not None:
        raise CheckpointError.of(
            "E359", f"{describe_parent(parent)}, cannot be used: {damage.reason}", mend
        )


def _matches(pattern: str, node: str, name: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(f"{node}.{name}", pattern)
