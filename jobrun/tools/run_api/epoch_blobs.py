"""Read the blobs of a checkpoint by name, each when it is asked for, verified against its manifest.

A blob is read from its file at each access and belongs to the caller; nothing is kept in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from jobrun.checkpoint.hdf5.dataset_names import blob_names
from jobrun.checkpoint.read.load import load_blobs
from jobrun.checkpoint.stores.object_references import open_checkpoint
from jobrun.core.errors import CheckpointError
from jobrun.core.text.names import did_you_mean
from jobrun.graph.readers import POSITION_PREFIX
from jobrun.tools.checkpoint_blobs import StoredEpoch
from jobrun.values.blob_kinds import Value


class EpochBlobs(Mapping[str, Value]):
    """The blobs of one checkpoint by name: ``x``, or ``node.x`` where the job has several nodes.

    Arrays, numpy scalars, Python values and containers are what tasks have left; of an object (a
    network, a generator) it is the state as a tree, ``ObjectState``. While this object exists, its
    epoch is not deleted.

    Args:
        stored: The checkpoint.

    Raises:
        CheckpointError: A file is missing, or damaged where it lists its blobs.

    Attributes:
        epoch: Its number; 0 is what init made.
        path: The directory of the epoch.
    """

    def __init__(self, stored: StoredEpoch) -> None:
        self.epoch = stored.epoch
        self.path = Path(stored.path)
        self._stored = stored
        # Where each blob is: its file, the digest of that in the manifest, its name there.
        self._places: dict[str, tuple[str, str, str]] = {}
        for path, digest in stored.files:
            with open_checkpoint(path) as file:
                file.require_digest(digest)
                prefix = f"{file.header.node}." if len(stored.files) > 1 else ""
                for name in blob_names(file.index.names):
                    if not name.startswith(POSITION_PREFIX):
                        self._places[prefix + name] = (path, digest, name)

    def __getitem__(self, name: str) -> Value:
        """Read one blob, after verifying all bytes that hold it.

        Raises:
            KeyError: There is no blob of that name; the message has the nearest.
            CheckpointError: It is damaged; the message begins with its name.
        """
        if name not in self._places:
            raise KeyError(f"epoch {self.epoch} has no blob '{name}': {self._nearest(name)}")
        path, digest, own = self._places[name]
        try:
            with open_checkpoint(path) as file:
                file.require_digest(digest)
                return load_blobs(file, [own])[own]
        except CheckpointError as error:
            where = f"blob '{name}' of epoch {self.epoch}"
            faults = (replace(one, message=f"{where}: {one.message}") for one in error.faults)
            raise CheckpointError(*faults) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __repr__(self) -> str:
        return f"<EpochBlobs of epoch {self.epoch}: {', '.join(self)}>"

    def _nearest(self, name: str) -> str:
        return did_you_mean(name, tuple(self._places))
