"""One node's checkpoint file: written whole and durably, read only after every byte is verified.

libhdf5 works in memory alone. It never writes to a disk, which might be full (that can end
the process), and it never sees a byte whose checksum was not compared first (some damage
makes it hang, or read wrong numbers without a word).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jobrun.blobs.values import Value
from jobrun.checkpoint import image, userblock
from jobrun.checkpoint.codec import Coded, encode
from jobrun.checkpoint.plainfile import read_plain
from jobrun.checkpoint.store import StoredFile
from jobrun.checkpoint.userblock import Header
from jobrun.core.crashpoints import reach
from jobrun.core.errors import CheckpointError
from jobrun.core.names import did_you_mean
from jobrun.formats.files import disk_faults, write_all

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


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


def write_state(
    path: str, *, node: str, epoch: int, run_id: str, values: Mapping[str, Value]
) -> StoredFile:
    """Write a node's state blobs as a new file, durable when this returns.

    Equal arguments give equal bytes. The file's name is made durable by the store's commit.

    Raises:
        TaskFailedError: A blob holds what cannot be stored; nothing was written.
        EnvironmentFaultError: The disk says no; what was written is of no use.
    """
    started = time.perf_counter()
    coded = {name: encode(values[name], name) for name in sorted(values)}
    buffer = image.build(epoch, coded)
    whole = buffer.getbuffer()
    body = whole[userblock.SIZE :]
    layout = _layout_digest(coded)
    header = Header(node, epoch, run_id, len(body), userblock.sha256(body), layout)
    whole[: userblock.SIZE] = userblock.encode(header)
    place = str(Path(path).parent)
    with disk_faults("E313", f"write {path}", place=place, needed_bytes=len(whole)):
        _write_new(path, whole)
    return StoredFile(
        node=node,
        name=Path(path).name,
        size_bytes=len(whole),
        digest=userblock.sha256(whole),
        seconds=time.perf_counter() - started,
    )


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

    Arrays own their memory, are aligned, writable and in C order.

    Args:
        path: The file; it is read once.
        node: Whose state is expected in it.
        epoch: Of which epoch.
        run_id: Of which run.
        digest: ``sha256:<hex>`` of the whole file, as its manifest says.
        names: The blobs to read.
        partial: Leave out those that the file does not hold.

    Raises:
        CheckpointError: The file is missing, not a plain one, not a checkpoint, of a newer
            format, of another node, epoch or run, damaged, or lacks a blob.
    """
    data = read_plain(path)
    header = userblock.decode(data, path)
    _expect_identity(path, header, node, epoch, run_id)
    _verify(path, data, header, digest)
    blobs = _blobs(path, data, header, names, partial=partial)
    return {name: value for name, _, value in blobs}


def inspect_state(path: str) -> FileFacts:
    """Everything about a checkpoint file, for people, without its manifest.

    It is verified by its own header, which shows damage, not forgery.

    Raises:
        CheckpointError: It is missing, not a plain one, not a checkpoint, of a newer format,
            or damaged.
    """
    data = read_plain(path)
    header = userblock.decode(data, path)
    _verify(path, data, header, "")
    facts = tuple(
        _blob_facts(name, coded, value) for name, coded, value in _blobs(path, data, header, None)
    )
    return FileFacts(path, len(data), header, facts)


def _write_new(path: str, data: memoryview) -> None:
    descriptor = os.open(path, _FLAGS, 0o644)
    try:
        reach("checkpoint.file-opened")
        half = len(data) // 2
        write_all(descriptor, data[:half])
        reach("checkpoint.file-half-written")
        write_all(descriptor, data[half:])
        reach("checkpoint.file-written")
        # Once: after a failure the kernel may have dropped the bytes, and would say yes.
        os.fsync(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    # Some file systems report a failed write only here.
    os.close(descriptor)
    reach("checkpoint.file-synced")


def _expect_identity(path: str, header: Header, node: str, epoch: int, run_id: str) -> None:
    found = (header.node, header.epoch, header.run_id)
    if found != (node, epoch, run_id):
        raise CheckpointError.of(
            "E304",
            f"{path} belongs to node {header.node}, epoch {header.epoch}, run {header.run_id}; "
            f"wanted was node {node}, epoch {epoch}, run {run_id}",
            "put the right file back, or use another epoch",
        )


def _verify(path: str, data: bytes, header: Header, digest: str) -> None:
    expected = userblock.SIZE + header.length
    if len(data) != expected:
        how = "truncated" if len(data) < expected else "longer than it was written"
        raise CheckpointError.of(
            "E302",
            f"{path} is {how}: it has {len(data)} bytes, expected {expected}",
            "use another epoch, or a copy of this one",
        )
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


def _layout_digest(coded: Mapping[str, Coded]) -> str:
    layout = [[name, one.kind, one.dtype, list(one.array.shape)] for name, one in coded.items()]
    return userblock.sha256(json.dumps(layout, sort_keys=True).encode())


def _blob_facts(name: str, coded: Coded, value: Value) -> BlobFacts:
    minimum, mean, maximum, nans = _statistics(value)
    return BlobFacts(
        name=name,
        kind=coded.kind,
        dtype=coded.dtype,
        shape=() if coded.kind == "text" else coded.array.shape,
        size_bytes=coded.array.nbytes,
        minimum=minimum,
        mean=mean,
        maximum=maximum,
        nans=nans,
        value=value,
    )


def _statistics(value: Any) -> tuple[float | int | None, float | None, float | int | None, int]:
    array = np.asarray(getattr(value, "value", value))
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
