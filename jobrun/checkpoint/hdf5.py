"""One node's checkpoint file, by its path: written whole, read only after it is verified.

What is in a file is told by ``userblock``, ``layout`` and ``blocks``; here is the way in to
files of all formats. libhdf5 has no part in writing or reading a file of format 2. Files of
format 1 are read by it in memory, after their one digest was compared.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from jobrun.blobs.values import Value
from jobrun.checkpoint import image, userblock
from jobrun.checkpoint.codec import Coded
from jobrun.checkpoint.dtypes import is_custom
from jobrun.checkpoint.loading import load
from jobrun.checkpoint.plainfile import open_plain, read_plain
from jobrun.checkpoint.statefile import StateFile, expect_length
from jobrun.checkpoint.store import StoredFile
from jobrun.checkpoint.userblock import Header
from jobrun.checkpoint.wholes import load_wholes
from jobrun.checkpoint.writer import NodeWriter
from jobrun.core.errors import CheckpointError
from jobrun.core.names import did_you_mean


@dataclass(frozen=True, slots=True)
class BlobFacts:
    """A stored blob, for people.

    Attributes:
        name: The blob's name.
        kind: ``array``, ``numpy`` (a numpy scalar), ``bool``, ``int`` … as in ``blobs.values``.
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


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A checkpoint file that was verified: what its header says, its length, its blobs by name."""

    path: str
    size_bytes: int
    header: Header
    blobs: tuple[BlobFacts, ...]


class _Stored(NamedTuple):
    kind: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int


def write_state(
    path: str, *, node: str, epoch: int, run_id: str, values: Mapping[str, Value]
) -> StoredFile:
    """Write a node's state blobs as a new file, durable when this returns.

    Equal arguments give equal bytes. The file's name is made durable by the store's commit.
    Who writes more than one epoch keeps a ``writer.NodeWriter``.

    Raises:
        TaskFailedError: A blob holds what cannot be stored; nothing was written.
        EnvironmentFaultError: The disk says no; what was written is of no use.
    """
    return NodeWriter(node).write(path, epoch=epoch, run_id=run_id, values=values)


def read_state(
    path: str,
    *,
    node: str,
    epoch: int,
    run_id: str,
    digest: str,
    names: Iterable[str],
    partial: bool = False,
) -> dict[str, Value]:
    """The state blobs of those names, all or none, exactly as they were written.

    Arrays own their memory, are aligned, writable and in C order. Containers are put together
    again; of an object there is its ``ObjectState``.

    Args:
        path: The file; it is read once.
        node: Whose state is expected in it.
        epoch: Of which epoch.
        run_id: Of which run.
        digest: ``sha256:<hex>``, as its manifest says; empty if nobody knows it.
        names: The blobs to read.
        partial: Leave out those that the file does not hold.

    Raises:
        CheckpointError: The file is missing, not a plain one, not a checkpoint, of a newer
            format, of another node, epoch or run, damaged, or lacks a blob.
    """
    with open_plain(path) as (descriptor, size):
        block = os.pread(descriptor, userblock.SIZE, 0)
        header = userblock.decode(block, path)
        _expect_identity(path, header, node, epoch, run_id)
        if header.parts is not None:
            file = StateFile(path, descriptor, size, block, header)
            file.expect_digest(digest)
            return load_wholes(file, names, partial=partial)
    blobs = _blobs_of_format_1(path, digest, names, partial=partial)
    return {name: value for name, _, value in blobs}


def inspect_state(path: str) -> FileFacts:
    """Everything about a checkpoint file, for people, without its manifest.

    It is verified by its own header, which shows damage, not forgery.

    Raises:
        CheckpointError: It is missing, not a plain one, not a checkpoint, of a newer format,
            or damaged.
    """
    with open_plain(path) as (descriptor, size):
        block = os.pread(descriptor, userblock.SIZE, 0)
        header = userblock.decode(block, path)
        if header.parts is not None:
            file = StateFile(path, descriptor, size, block, header)
            values = load(file)
            facts = tuple(_facts_of_row(file, name, values[name]) for name in file.index.names)
            return FileFacts(path, size, header, facts)
    blobs = _blobs_of_format_1(path, "", None)
    old = tuple(_blob_facts(name, _stored(coded), value) for name, coded, value in blobs)
    return FileFacts(path, size, header, old)


def _expect_identity(path: str, header: Header, node: str, epoch: int, run_id: str) -> None:
    found = (header.node, header.epoch, header.run_id)
    if found != (node, epoch, run_id):
        raise CheckpointError.of(
            "E304",
            f"{path} belongs to node {header.node}, epoch {header.epoch}, run {header.run_id}; "
            f"wanted was node {node}, epoch {epoch}, run {run_id}",
            "put the right file back, or use another epoch",
        )


def _blobs_of_format_1(
    path: str, digest: str, names: Iterable[str] | None, *, partial: bool = False
) -> list[tuple[str, Coded, Value]]:
    data = read_plain(path)
    header = userblock.decode(data, path)
    _verify(path, data, header, digest)
    return _blobs(path, data, header, names, partial=partial)


def _verify(path: str, data: bytes, header: Header, digest: str) -> None:
    expect_length(path, len(data), header)
    if digest:
        if userblock.sha256(data) != digest:
            raise userblock.damaged(path, "its checksum is not the one in the manifest")
    elif userblock.sha256(memoryview(data)[userblock.SIZE :]) != header.digest:
        raise userblock.damaged(path, "the checksum of its content does not match")


def _blobs(
    path: str, data: bytes, header: Header, names: Iterable[str] | None, *, partial: bool = False
) -> list[tuple[str, Coded, Value]]:
    try:
        coded = image.read(data, header.epoch, names, partial=partial)
        return [(name, coded[name], image.value_of(name, coded[name])) for name in coded]
    except image.StructureError as error:
        raise CheckpointError.of(
            "E306",
            f"refused to read {path}: {error}",
            "jobrun did not write it like this; use another epoch, or a copy of this one",
        ) from error
    except KeyError as error:
        raise _missing_blob(path, str(error.args[0]), data) from error


def _missing_blob(path: str, name: str, data: bytes) -> CheckpointError:
    there = image.read(data, userblock.decode(data, path).epoch)
    return CheckpointError.of("E307", f"{path} has no blob '{name}'", did_you_mean(name, there))


def _facts_of_row(file: StateFile, name: str, value: Value) -> BlobFacts:
    index = file.index
    kind = index.type_of(index.rows[name])
    return _blob_facts(name, _Stored(kind.kind, kind.dtype, kind.shape, kind.size_bytes), value)


def _stored(coded: Coded) -> _Stored:
    return _Stored(coded.kind, coded.dtype, coded.array.shape, coded.array.nbytes)


def _blob_facts(name: str, stored: _Stored, value: Value) -> BlobFacts:
    minimum, mean, maximum, nans = _statistics(value)
    return BlobFacts(
        name=name,
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
