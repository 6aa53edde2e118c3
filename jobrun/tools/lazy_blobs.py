"""Read the blobs of a checkpoint lazily: one by one on demand, each verified as it is read.

Beside one blob at a time, and the index of a file, no memory is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from jobrun.checkpoint.blob_parts import take_out_inline
from jobrun.checkpoint.hdf5.dataset_names import is_structure
from jobrun.checkpoint.hdf5.value_codec import encode
from jobrun.checkpoint.read.load import load
from jobrun.checkpoint.read.verified_file import StateFile
from jobrun.checkpoint.store_protocol import EpochHold
from jobrun.checkpoint.stores.object_references import open_checkpoint
from jobrun.core.partly_compared import PartlyCompared
from jobrun.tools.inspection import CheckpointLocation, locate_checkpoint
from jobrun.values.blob_kinds import Value


class StoredBlob(Struct, frozen=True):
    """The facts about a stored blob that is not read yet.

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


class StoredNode(Struct, frozen=True):
    """The open checkpoint file of one node."""

    node: str
    path: str
    blobs: tuple[StoredBlob, ...]
    _read: Callable[[str], Value]

    def read(self, name: str) -> Value:
        """Read one blob lazily, so that it is verified only when a tool wants its value.

        Raises:
            CheckpointError: It is damaged.
        """
        return self._read(name)


class StoredEpoch(PartlyCompared, frozen=True):
    """A stored checkpoint, or one file of it, whose blobs are read on demand.

    Attributes:
        path: Of the file, or of the epoch's directory.
        epoch: 0 is what init made.
        run_id: Of the run that wrote it.
        files: Path and digest of each node's file; an empty digest where there is no manifest.
        hold: Keeps the epoch from being deleted while this object is in use.
    """

    uncompared: ClassVar[tuple[str, ...]] = ("hold",)

    path: str
    epoch: int
    run_id: str
    files: tuple[tuple[str, str], ...]
    hold: EpochHold | None = None


def find_stored_epoch(target: str, run_dir: Path) -> StoredEpoch:
    """Find the checkpoint whose blobs are read lazily: a file, a folder or ``RUN@EPOCH``.

    Raises:
        CheckpointError: It is not there, or its manifest is damaged.
        UsageError: No run is called so.
    """
    location: CheckpointLocation = locate_checkpoint(target, run_dir)
    if location.store is None:
        path = str(location.path)
        with open_checkpoint(path) as file:
            header = file.header
        return StoredEpoch(path, header.epoch, header.run_id, ((path, ""),))
    manifest = location.store.manifest(location.epoch)
    files = tuple((str(location.path / file.name), file.digest) for file in manifest.files)
    return StoredEpoch(str(location.path), location.epoch, manifest.run_id, files, location.hold)


@contextmanager
def open_node(path: str, digest: str) -> Iterator[StoredNode]:
    """Open a node's checkpoint file to read its blobs lazily, each when it is asked for.

    Args:
        path: The file.
        digest: What its manifest says of it; empty if none does.

    Raises:
        CheckpointError: It is missing, damaged, or none of jobrun's.
    """
    with open_checkpoint(path) as file:
        file.require_digest(digest)
        scalars = _scalars(file)
        yield StoredNode(file.header.node, path, _blobs(file, scalars), _reader(file, scalars))


def _scalars(file: StateFile) -> dict[str, Value]:
    """Read the scalars that containers have in their structures, by the names of their parts."""
    structures = load(file, filter(is_structure, file.index.names))
    scalars: dict[str, Value] = {}
    for link, text in structures.items():
        scalars.update(take_out_inline(link, text)[1])
    return scalars


def _blobs(file: StateFile, scalars: Mapping[str, Value]) -> tuple[StoredBlob, ...]:
    index = file.index
    blobs = []
    for row, name in enumerate(index.shown_names):
        kind = index.type_of(row)
        shape = () if kind.kind == "text" else kind.shape
        blobs.append(StoredBlob(file.header.node, name, kind.kind, kind.dtype, shape))
    for name, value in scalars.items():
        coded = encode(value, name)
        blobs.append(StoredBlob(file.header.node, name, coded.kind, coded.dtype, ()))
    return tuple(blobs)


def _reader(file: StateFile, scalars: Mapping[str, Value]) -> Callable[[str], Value]:
    return lambda name: scalars[name] if name in scalars else load(file, [name])[name]
