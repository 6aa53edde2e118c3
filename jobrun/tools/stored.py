"""The blobs of a checkpoint one by one, each verified as it is read. Compares and writes nothing.

Beside one blob at a time, and the index of a file, no memory is needed. Only files of
format 1, which have one digest for all, are read as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jobrun.blobs.values import Value
from jobrun.checkpoint.loading import load
from jobrun.checkpoint.plainfile import open_plain
from jobrun.checkpoint.statefile import StateFile, open_state
from jobrun.checkpoint.userblock import SIZE, decode
from jobrun.tools.inspection import Place, place_of
from jobrun.tools.sandbox import inspect_guarded


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """What is known of a blob before it is read.

    Attributes:
        node: Whose it is.
        name: The blob's.
        kind: ``array``, ``numpy`` (a numpy scalar), ``bool``, ``int`` … as in ``blobs.values``.
        dtype: The logical one, as it is stored.
        shape: Of the array; () for scalars and text.
    """

    node: str
    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StoredNode:
    """The open file of one node."""

    node: str
    path: str
    blobs: tuple[StoredBlob, ...]
    _read: Callable[[str], Value]

    def read(self, name: str) -> Value:
        """The value of a blob.

        Raises:
            CheckpointError: It is damaged.
        """
        return self._read(name)


@dataclass(frozen=True, slots=True)
class StoredEpoch:
    """A checkpoint, or one file of it.

    Attributes:
        path: Of the file, or of the epoch's directory.
        epoch: 0 is what init made.
        run_id: Of the run that wrote it.
        files: Path and digest of each node's file; an empty digest where no manifest tells.
    """

    path: str
    epoch: int
    run_id: str
    files: tuple[tuple[str, str], ...]


def find_stored(target: str, run_dir: Path) -> StoredEpoch:
    """The checkpoint that a person means: a file, a directory, or ``RUN@EPOCH``.

    Raises:
        CheckpointError: It is not there, or its manifest is damaged.
        UsageError: No run is called so.
    """
    place: Place = place_of(target, run_dir)
    if place.store is None:
        path = str(place.path)
        with open_plain(path) as (descriptor, _):
            header = decode(_first(descriptor), path)
        return StoredEpoch(path, header.epoch, header.run_id, ((path, ""),))
    manifest = place.store.manifest(place.epoch)
    files = tuple((str(place.path / file.name), file.digest) for file in manifest.files)
    return StoredEpoch(str(place.path), place.epoch, manifest.run_id, files)


@contextmanager
def open_node(path: str, digest: str) -> Iterator[StoredNode]:
    """Open the file of one node.

    Args:
        path: The file.
        digest: What its manifest says of it; empty if none does.

    Raises:
        CheckpointError: It is missing, damaged, or none of jobrun's.
    """
    with open_plain(path) as (descriptor, _):
        is_old = decode(_first(descriptor), path).parts is None
    if is_old:
        yield _of_format_1(path)
        return
    with open_state(path) as file:
        file.expect_digest(digest)
        yield StoredNode(file.header.node, path, _blobs(file), _reader(file))


def _blobs(file: StateFile) -> tuple[StoredBlob, ...]:
    index = file.index
    found = []
    for name in index.names:
        kind = index.type_of(index.rows[name])
        shape = () if kind.kind == "text" else kind.shape
        found.append(StoredBlob(file.header.node, name, kind.kind, kind.dtype, shape))
    return tuple(found)


def _reader(file: StateFile) -> Callable[[str], Value]:
    return lambda name: load(file, [name])[name]


def _of_format_1(path: str) -> StoredNode:
    facts = inspect_guarded(path)
    node = facts.header.node
    values = {blob.name: blob.value for blob in facts.blobs}
    blobs = tuple(
        StoredBlob(node, blob.name, blob.kind, blob.dtype, blob.shape) for blob in facts.blobs
    )
    return StoredNode(node, path, blobs, values.__getitem__)


def _first(descriptor: int) -> bytes:
    return os.pread(descriptor, SIZE, 0)
