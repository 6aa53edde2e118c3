"""Compare the dtypes and shapes stored in a checkpoint with those that the job's spec makes.

Only what is known without running is compared: a spec that has been changed since, or that a
fork changes, may know better than the checkpoint.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType

from jobrun.checkpoint.hdf5.dtypes import parse_dtype
from jobrun.checkpoint.hdf5.index_parser import BlobType
from jobrun.checkpoint.store_protocol import CheckpointStore
from jobrun.checkpoint.stores.object_references import open_checkpoint
from jobrun.core.errors import CheckpointError, Fault
from jobrun.graph.query import checkpointed_blobs
from jobrun.graph.types import Job
from jobrun.ops.abstract_values import UNKNOWN, Known
from jobrun.runner.locate_faults import iter_bindings
from jobrun.runner.preflight.blob_types import infer_header_types

_ARRAYS = {"array", "numpy"}


def require_stored_types(
    job: Job,
    folder: Path,
    store: CheckpointStore,
    epoch: int,
    moved: Mapping[tuple[str, str], BlobType] = MappingProxyType({}),
    without: Collection[str] = (),
) -> None:
    """Require that an epoch's stored blobs have the types that the job is known to make.

    Args:
        job: The job that is to continue from there.
        folder: The spec's folder, absolute.
        store: Where the epoch is, verified.
        epoch: Its number.
        moved: What nodes will have that do not load a file of their own, by node and name.
        without: The nodes whose files are not looked at.

    Raises:
        CheckpointError: E325, one fault for each blob that differs. Nothing was loaded.
    """
    known = infer_header_types(job, folder).owned
    faults = []
    stored = dict(moved)
    for file in store.manifest(epoch).files:
        if file.node not in without:
            names = checkpointed_blobs(job).get(file.node, ())
            there = _types_in(Path(store.path(epoch), file.name))
            stored |= {(file.node, name): there[name] for name in names if name in there}
    for blob, kind in stored.items():
        expected = known.get(blob, UNKNOWN)
        if not _fits(kind, expected):
            faults.append(_fault(job, epoch, blob, kind, expected))
    if faults:
        raise CheckpointError(*faults)


def _types_in(path: Path) -> dict[str, BlobType]:
    with open_checkpoint(str(path)) as file:
        index = file.index
        return {name: index.type_of(row) for name, row in index.blob_rows().items()}


def _fits(stored: BlobType, known: Known) -> bool:
    if stored.kind not in _ARRAYS or known.weak is not False or known.dtype is None:
        return True
    # Only data from files keep their byte order; the types of a job have none.
    if parse_dtype(stored.dtype).name != known.dtype:
        return False
    if known.shape is None:
        return True
    return len(known.shape) == len(stored.shape) and all(
        length in {None, there} for length, there in zip(known.shape, stored.shape, strict=True)
    )


def _fault(job: Job, epoch: int, blob: tuple[str, str], stored: BlobType, known: Known) -> Fault:
    node, name = blob
    of_node = f" of node '{node}'" if len(tuple(job.cluster)) > 1 else ""
    there = _words(parse_dtype(stored.dtype).name, stored.shape)
    here = _words(known.dtype or "?", known.shape)
    path, origin = next(iter_bindings(job, node, name), ("", None))
    return Fault(
        "E325",
        f"blob '{name}'{of_node} is {there} in the checkpoint of epoch {epoch}, and {here} in "
        "the spec",
        "continue with the spec that it was saved with, or fork with the blobs to take: --blobs",
        origin,
        path,
    )


def _words(dtype: str, shape: tuple[int | None, ...] | None) -> str:
    lengths = ["?" if length is None else str(length) for length in shape or ()]
    return f"{dtype} {' x '.join(lengths)}".strip()
