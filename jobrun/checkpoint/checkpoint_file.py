"""Read or inspect one node's checkpoint file as a whole, with every byte verified.

``hdf5/`` describes the bytes of a file. libhdf5 takes no part in reading them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from jobrun.checkpoint.blob_parts import take_out_inline
from jobrun.checkpoint.hdf5.dataset_names import is_structure
from jobrun.checkpoint.hdf5.dtypes import is_custom
from jobrun.checkpoint.hdf5.user_block import Header
from jobrun.checkpoint.hdf5.value_codec import encode
from jobrun.checkpoint.read.load import load
from jobrun.checkpoint.read.load_into_objects import InPlace
from jobrun.checkpoint.read.verified_file import StateFile
from jobrun.checkpoint.stores.object_references import open_checkpoint
from jobrun.core.errors import CheckpointError
from jobrun.values.blob_kinds import Value


class BlobFacts(Struct, frozen=True):
    """A stored blob, for people.

    Attributes:
        name: The blob's name.
        kind: ``array``, ``numpy`` (a numpy scalar), ``bool``, ``int`` … as in ``values.kinds``.
        dtype: The logical dtype.
        shape: As numpy has it; () for scalars and text.
        size_bytes: As stored.
        minimum: Of real numbers that are not NaN; None when there are none.
        mean: Likewise, in float64.
        maximum: Likewise.
        nans: How many items are NaN.
        value: The value itself.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    minimum: float | int | None
    mean: float | None
    maximum: float | int | None
    nans: int
    value: Value


class FileFacts(Struct, frozen=True):
    """A checkpoint file that was verified, for people.

    Attributes:
        path: Where it is.
        size_bytes: Its length.
        header: What its user block says.
        blobs: Its blobs, each part of one by itself.
        names: Of the blobs; of one in parts its own.
    """

    path: str
    size_bytes: int
    header: Header
    blobs: tuple[BlobFacts, ...]
    names: tuple[str, ...] = ()


def read_state(
    path: str,
    *,
    node: str,
    epoch: int,
    run_id: str,
    digest: str,
    names: Iterable[str],
    partial: bool = False,
    in_place: InPlace | None = None,
) -> dict[str, Value]:
    """Read the named blobs of a node's checkpoint file, after verifying the file's digest.

    They are exactly as they were written.

    Arrays own their memory, are aligned, writable, and in the axis order they had. Containers are
    put together again; of an object there is its ``ObjectState``.

    Args:
        path: The file; it is read once.
        node: Whose state is expected in it.
        epoch: Of which epoch.
        run_id: Of which run.
        digest: ``sha256:<hex>``, as its manifest says; empty if it is unknown.
        names: The blobs to read.
        partial: Leave out those that the file does not hold.
        in_place: Objects whose memory receives their states.

    Raises:
        CheckpointError: The file is missing, not a plain one, not a checkpoint, of a newer
            format, of another node, epoch or run, damaged, or lacks a blob.
    """
    with open_checkpoint(path) as file:
        _require_identity(path, file.header, node, epoch, run_id)
        file.require_digest(digest)
        return (in_place or InPlace({})).load(file, names, partial=partial)


def inspect_state(path: str) -> FileFacts:
    """Inspect a whole checkpoint file; return its header, and each blob's dtype, shape and mean.

    No manifest is needed. It is verified by its own header, which shows damage, not forgery.

    Raises:
        CheckpointError: It is missing, not a plain one, not a checkpoint, of a newer format,
            or damaged.
    """
    with open_checkpoint(path) as file:
        values = load(file)
        index = file.index
        facts: list[BlobFacts] = []
        for name, shown in zip(index.names, index.shown_names, strict=True):
            stored = _blob_facts(file, name, shown, values[name])
            facts += _with_scalars(stored) if is_structure(name) else (stored,)
        return FileFacts(path, file.size_bytes, file.header, tuple(facts), index.blobs)


def _with_scalars(structure: BlobFacts) -> Iterator[BlobFacts]:
    """Yield a container's structure, and the scalars that it has inside as parts of their own."""
    text, scalars = take_out_inline(structure.name, structure.value)
    yield replace(structure, value=text)
    for name, value in scalars.items():
        coded = encode(value, name)
        yield BlobFacts(
            name, coded.kind, coded.dtype, (), coded.array.nbytes, *_statistics(value), value
        )


def _require_identity(path: str, header: Header, node: str, epoch: int, run_id: str) -> None:
    identity = (header.node, header.epoch, header.run_id)
    if identity != (node, epoch, run_id):
        raise CheckpointError.of(
            "E304",
            f"{path} belongs to node {header.node}, epoch {header.epoch}, run {header.run_id}; "
            f"wanted was node {node}, epoch {epoch}, run {run_id}",
            "put the right file back, or use another epoch",
        )


def _blob_facts(file: StateFile, name: str, shown: str, value: Value) -> BlobFacts:
    stored = file.index.type_of(file.index.rows[name])
    minimum, mean, maximum, nans = _statistics(value)
    return BlobFacts(
        name=shown,
        kind=stored.kind,
        dtype=stored.dtype,
        shape=() if stored.kind == "text" else stored.shape,
        size_bytes=stored.size_bytes,
        minimum=minimum,
        mean=mean,
        maximum=maximum,
        nans=nans,
        value=value,
    )


def _statistics(value: Any) -> tuple[float | int | None, float | None, float | int | None, int]:
    array = np.asarray(getattr(value, "value", value))
    if is_custom(array.dtype) and "float" in array.dtype.name:
        array = array.astype(np.float32)
    if array.dtype.kind not in "biuf":
        nans = int(np.isnan(array).sum()) if array.dtype.kind == "c" else 0
        return None, None, None, nans
    wanted = array[~np.isnan(array)] if array.dtype.kind == "f" else array.reshape(-1)
    nans = array.size - wanted.size
    if not wanted.size:
        return None, None, None, nans
    with np.errstate(all="ignore"):
        mean = float(wanted.mean(dtype=np.float64))
    return wanted.min().item(), mean, wanted.max().item(), nans
