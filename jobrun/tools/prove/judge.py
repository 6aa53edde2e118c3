"""Judge a killed and resumed run of a proof: compare it bit for bit, and find lost epochs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.core.errors import CheckpointError, JobrunError
from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.blob_access import Access
from jobrun.graph.query import walk
from jobrun.graph.steps import Net, Step
from jobrun.graph.types import Job
from jobrun.runner.rundir.journal import read_journal
from jobrun.runner.rundir.run_directories import Run, runs
from jobrun.runtime.codegen.liveness import access_finder
from jobrun.tools.inspection import checkpoint_directory, inspect
from jobrun.values import compare
from jobrun.values.blob_kinds import Value

_ARTIFACTS = "artifacts"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between a judged run and the reference.

    Attributes:
        what: In words: what differs, and how.
        epoch: The first kept epoch that differs; -1 when none does, or one is missing.
        node: Of the blob that differs; empty when it is no blob.
        blob: Its name; of a container or an object, with the path inside it.
        element: Where in it, as an index; empty for what is not an array's element.
    """

    what: str
    epoch: int = -1
    node: str = ""
    blob: str = ""
    element: tuple[int, ...] = ()


def find_difference(
    reference: Run,
    found: Run,
    *,
    but: frozenset[str] = frozenset(),
    without: frozenset[str] = frozenset(),
) -> Difference | None:
    """Judge whether a proof's two finished runs are equal: find their first difference, or None.

    Compared are: which epochs are kept; every blob of each of them by kind, dtype, shape and
    bits; metrics, patience and the reason to stop; and the files under ``artifacts``.

    Args:
        reference: What it should be.
        found: What it is.
        but: Names of artifacts that do not count.
        without: Names of blobs that do not count, or ``NODE.BLOB`` for those of one node.
    """
    expected, kept = _store(reference), _store(found)
    if expected.epochs() != kept.epochs():
        return Difference(f"it keeps epochs {_list(kept)}, not {_list(expected)}")
    for epoch in expected.epochs():
        differs = _in_epoch(Path(expected.path(epoch)), Path(kept.path(epoch)), epoch, without)
        differs = differs or _in_progress(expected, kept, epoch)
        if differs is not None:
            return differs
    return _in_artifacts(reference, found, but)


def different_artifacts(first: Run, second: Run) -> frozenset[str]:
    """Compare artifact files of a proof's two runs; return the names of those that differ."""
    ours, theirs = _artifacts(first), _artifacts(second)
    return frozenset(
        name for name in ours.keys() | theirs.keys() if not _alike(ours.get(name), theirs.get(name))
    )


def find_lost_epochs(run: Run) -> str:
    """Judge a killed run: describe the epoch that it saved but lost; empty if there is none."""
    try:
        newest = read_journal(run.path, run.record.run_id).newest
        if newest < 0:
            return ""
        damage = _store(run).verify(newest)
    except JobrunError as error:
        return str(error)
    if damage is None:
        return ""
    return f"epoch {newest} was acknowledged and cannot be used: {damage.reason}"


def find_any_lost_epochs(folder: Path) -> str:
    """Judge the killed runs in a folder: describe the first saved epoch lost; empty if none."""
    return next((words for run in runs(folder) if (words := find_lost_epochs(run))), "")


def _store(run: Run) -> DirectoryStore:
    return DirectoryStore(str(checkpoint_directory(run)))


def _list(store: DirectoryStore) -> str:
    return ", ".join(map(str, store.epochs())) or "none"


def _in_epoch(
    reference: Path, found: Path, epoch: int, without: frozenset[str]
) -> Difference | None:
    try:
        expected, given = _blobs(reference), _blobs(found)
    except CheckpointError as error:
        return Difference(str(error), epoch)
    if expected.keys() != given.keys():
        node, blob = min(expected.keys() ^ given.keys())
        return Difference(f"'{blob}' of node '{node}' is in one of them only", epoch, node, blob)
    for (node, blob), value in expected.items():
        if without & {blob, f"{node}.{blob}"}:
            continue
        differs = compare.find_difference(value, given[node, blob])
        if differs is not None:
            element, words = first_element(differs)
            return Difference(words, epoch, node, "/".join((blob, *differs.path)), element)
    return None


def _blobs(epoch: Path) -> dict[tuple[str, str], Value]:
    return {
        (file.header.node, blob.name): blob.value
        for file in inspect(str(epoch), epoch.parent).files
        for blob in file.blobs
    }


def first_element(differs: compare.Difference) -> tuple[tuple[int, ...], str]:
    """Judge two arrays of a proof: find and describe the first element that differs by bits."""
    if differs.what != "bits":
        return (), f"it {differs.words}"
    first, second = np.asarray(differs.expected), np.asarray(differs.found)
    if first.ndim == 0:
        return (), f"it is {_shown(differs.found)}, not {_shown(differs.expected)}"
    width = first.dtype.itemsize
    bits = [
        np.ascontiguousarray(one).reshape(-1).view(np.uint8).reshape(-1, width)
        for one in (first, second)
    ]
    at = int(np.flatnonzero((bits[0] != bits[1]).any(axis=1))[0])
    element = tuple(int(place) for place in np.unravel_index(at, first.shape))
    return element, f"it is {second[element]}, not {first[element]}"


def _shown(value: Value) -> str:
    # Numpy's own form of a scalar names its type, which is the same in both.
    return str(value) if isinstance(value, np.generic) else repr(value)


def _in_progress(expected: DirectoryStore, found: DirectoryStore, epoch: int) -> Difference | None:
    first = _without_times(expected.manifest(epoch).runner)
    second = _without_times(found.manifest(epoch).runner)
    for name in sorted(first.keys() | second.keys()):
        if first.get(name) != second.get(name):
            what = f"{name}: it is {second.get(name)}, not {first.get(name)}"
            return Difference(what, epoch)
    return None


def _without_times(runner: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in runner.items() if not name.endswith("_s")}


def _in_artifacts(reference: Run, found: Run, but: frozenset[str]) -> Difference | None:
    names = different_artifacts(reference, found) - but
    return Difference(f"the artifact {min(names)} differs") if names else None


def _artifacts(run: Run) -> dict[str, Path]:
    root = run.path / _ARTIFACTS
    return {
        path.relative_to(root).as_posix(): path
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def _alike(first: Path | None, second: Path | None) -> bool:
    if first is None or second is None:
        return False
    return first.read_bytes() == second.read_bytes()


def last_writer(job: Job, node: str, blob: str) -> str:
    """Find the last step of an epoch that writes a blob which a proof judged as different."""
    found = ""
    for task in job.epoch.tasks:
        for path, access in _accesses(task.steps) if task.node == node else ():
            if blob in (*access.binds, *access.changes, *access.atomic):
                found = path
    return found


def _accesses(steps: tuple[Step, ...]) -> Iterator[tuple[str, Access]]:
    for step in walk(steps):
        if isinstance(step, Net):
            yield from ((op.path, access_finder().of_op(op)) for op in step.ops)
        else:
            yield step.path, access_finder().of_step(step)


def accept_without_comparison(reference: Run, found: Run) -> None:
    """Return None, for no difference, since bits cannot judge two runs of an inexact job."""
    del reference, found
