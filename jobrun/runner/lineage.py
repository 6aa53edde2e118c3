"""How a forked run gets its first state from the run it was forked from. The forking is ``fork``'s.

What is needed for it stands in ``run.json`` from the beginning, so that a fork that was killed
before its first save does it again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from jobrun.checkpoint.directory import DirectoryStore
from jobrun.checkpoint.plan import checkpointed_blobs, partial_group
from jobrun.checkpoint.store import CheckpointStore
from jobrun.core.errors import CheckpointError, DriftError, UsageError
from jobrun.core.names import did_you_mean
from jobrun.graph.types import Job, TaskGroup
from jobrun.runner.loop import Resumed
from jobrun.runner.parts import outputs_read_later
from jobrun.runner.recover import inspector
from jobrun.runner.repartition import stood
from jobrun.runner.resizing import resizing
from jobrun.runner.rundir import Run
from jobrun.runner.storedtypes import expect_stored_types

# Its constants are made again, by another spec perhaps: that is what a fork is for.
_ACCEPTED = ("constants",)


def parent_words(parent: Mapping[str, Any]) -> str:
    """``walk/20261121-0942-brisk-heron, epoch 12 (blobs w*)``."""
    patterns = parent.get("blobs") or ()
    some = f" (blobs {', '.join(patterns)})" if patterns else ""
    return f"{parent.get('run')}, epoch {parent.get('epoch')}{some}"


def adopted(run: Run, job: Job) -> Resumed | None:
    """What a fork of a whole state starts from; None for a run that is none.

    Raises:
        CheckpointError: The parent's epoch is not there any more, or damaged.
    """
    parent = run.record.parent
    if not parent or parent.get("blobs"):
        return None
    store, epoch = _store(run), int(parent["epoch"])
    _expect_good(store, epoch, parent)
    manifest = store.manifest(epoch)
    progress, load, _ = stood(job, manifest, store.path(epoch))
    kept = outputs_read_later(job)
    progress = replace(
        progress,
        elapsed_s=0.0,
        scores=(),
        stopping=(),
        failed_saves=0,
        outputs={ref: value for ref, value in progress.outputs.items() if ref in kept},
    )
    found = resizing(job, manifest, store.path(epoch))
    expect_stored_types(job, run.folder, store, epoch, found.types, found.nodes)
    return Resumed(progress, load, _ACCEPTED, adopted=True)


def seeds(run: Run, job: Job) -> TaskGroup | None:
    """What puts some blobs of the parent over those that init has made; None for no such fork.

    Raises:
        CheckpointError: The parent's epoch is not there any more, or damaged.
    """
    parent = run.record.parent
    if not parent or not parent.get("blobs"):
        return None
    store, epoch = _store(run), int(parent["epoch"])
    _expect_good(store, epoch, parent)
    there = stored_names(store, epoch)
    wanted = chosen_blobs(job, there, tuple(parent["blobs"]))
    return partial_group(store.manifest(epoch), store.path(epoch), wanted)


def chosen_blobs(
    job: Job, there: Mapping[str, tuple[str, ...]], patterns: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """What of a job's state, by node, a checkpoint has and one of the patterns means.

    Args:
        job: The job that is to have them.
        there: What the checkpoint has, by node.
        patterns: Of names, such as ``w*``; or ``node.name``.

    Raises:
        UsageError: E382, a pattern means none.
    """
    constants = dict(job.constants)
    # Of constants the checkpoint has only the objects.
    both = {
        node: [n for n in (*names, *constants.get(node, ())) if n in there.get(node, ())]
        for node, names in checkpointed_blobs(job).items()
    }
    for pattern in patterns:
        if not any(_means(pattern, node, name) for node in both for name in both[node]):
            known = sorted({name for names in both.values() for name in names})
            raise UsageError.of(
                "E382",
                f"--blobs {pattern}: no blob of that name is both in the checkpoint and in the "
                "state of the job",
                did_you_mean(pattern.rpartition(".")[2], known),
            )
    wanted = {
        node: tuple(n for n in names if any(_means(one, node, n) for one in patterns))
        for node, names in both.items()
    }
    return {node: names for node, names in wanted.items() if names}


def expect_divisible(job: Job, store: CheckpointStore, epoch: int) -> frozenset[str]:
    """The nodes whose state is put together and divided anew, as the job declares it.

    Raises:
        DriftError: E387, E388, some of what the job declares cannot be.
    """
    found = resizing(job, store.manifest(epoch), store.path(epoch), compare=True)
    if job.layouts and found.faults:
        raise DriftError(*(fault for faults in found.faults.values() for fault in faults))
    return found.nodes


def expect_all(
    job: Job, there: Mapping[str, tuple[str, ...]], parent: str, without: Collection[str] = ()
) -> None:
    """See that a checkpoint has the whole state of a job, but for some nodes.

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


def stored_names(store: CheckpointStore, epoch: int) -> dict[str, tuple[str, ...]]:
    """The names of the blobs that an epoch holds, by node.

    Raises:
        CheckpointError: A file is not there, or damaged.
    """
    # Brings h5py in.
    from jobrun.checkpoint.hdf5 import inspect_state  # noqa: PLC0415
    from jobrun.checkpoint.wholes import whole_names  # noqa: PLC0415

    found = {}
    for file in store.manifest(epoch).files:
        facts = inspect_state(str(Path(store.path(epoch), file.name)))
        found[file.node] = whole_names(blob.name for blob in facts.blobs)
    return found


def _store(run: Run) -> CheckpointStore:
    return DirectoryStore(str(run.path / str(run.record.parent["checkpoints"])))


def _expect_good(store: CheckpointStore, epoch: int, parent: Mapping[str, Any]) -> None:
    mend = "put the parent back where it was, or fork again from an epoch that is there"
    if epoch not in store.epochs():
        raise CheckpointError.of("E359", f"{parent_words(parent)}, is not there any more", mend)
    damage = inspector(store, str(parent["run_id"]))(epoch)
    if damage is not None:
        raise CheckpointError.of(
            "E359", f"{parent_words(parent)}, cannot be used: {damage.reason}", mend
        )


def _means(pattern: str, node: str, name: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(f"{node}.{name}", pattern)
