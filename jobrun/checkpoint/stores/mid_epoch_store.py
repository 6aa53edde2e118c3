"""Store mid-epoch checkpoints, in directories such as ``epoch-000003.records-000050/``.

They are made and removed as whole epochs are, and no list of epochs has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from jobrun.checkpoint.store_protocol import CheckpointStore
from jobrun.checkpoint.stores.directory import DirectoryStore, epoch_name
from jobrun.core.files.disk import disk_faults, list_directory
from jobrun.core.text.patterns import lazy_pattern

_MIDWAY = lazy_pattern(r"epoch-([0-9]{6,18})\.records-([0-9]{6,18})")


class MidEpochStore(DirectoryStore):
    """A ``DirectoryStore`` that has, of each epoch, the checkpoint after one number of records.

    Args:
        root: Where the whole epochs are, too.
        records: How many records of its epoch each of these checkpoints is after.
    """

    def __init__(self, root: str, records: int) -> None:
        super().__init__(root)
        self._records = records

    def path(self, epoch: int) -> str:
        """Return the directory of an epoch's mid-epoch checkpoint in this store."""
        return str(self._root / mid_epoch_name(epoch, self._records))

    def _listed(self) -> Iterator[int]:
        for epoch, records in list_mid_epochs(str(self._root)):
            if records == self._records:
                yield epoch


def mid_epoch_store(store: CheckpointStore, records: int) -> MidEpochStore:
    """Return the mid-epoch store for one number of records, in the directory of ``store``."""
    return MidEpochStore(str(Path(store.path(0)).parent), records)


def mid_epoch_name(epoch: int, records: int) -> str:
    """Return the name of the directory of a mid-epoch checkpoint."""
    return f"{epoch_name(epoch)}.records-{records:06d}"


def parse_mid_epoch_name(name: str) -> tuple[int, int] | None:
    """Parse the name of a mid-epoch checkpoint's directory into epoch and number of records."""
    match = _MIDWAY.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


def list_mid_epochs(root: str) -> tuple[tuple[int, int], ...]:
    """List the epoch and number of records of each stored mid-epoch checkpoint, ascending."""
    with disk_faults("E313", f"list {root}"):
        names = [path.name for path in list_directory(root)]
    mid_epochs = [
        mid_epoch for mid_epoch in map(parse_mid_epoch_name, names) if mid_epoch is not None
    ]
    # Each checkpoint has exactly one name; a directory with another one is a copy made by hand.
    return tuple(
        sorted(mid_epoch for mid_epoch in mid_epochs if mid_epoch_name(*mid_epoch) in names)
    )


def remove_mid_epochs(root: str, chosen: tuple[tuple[int, int], ...]) -> None:
    """Delete stored mid-epoch checkpoints, renaming the directory of each first."""
    for epoch, records in chosen:
        MidEpochStore(root, records).remove((epoch,))
