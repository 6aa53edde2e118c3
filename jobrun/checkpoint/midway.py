"""Checkpoints within an epoch, beside the whole ones: ``epoch-000003.records-000050/`` each.

They are made and removed as whole epochs are, and no list of epochs has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from jobrun.checkpoint.directory import DirectoryStore, epoch_name
from jobrun.formats.files import disk_faults

_MIDWAY = re.compile(r"epoch-([0-9]{6,18})\.records-([0-9]{6,18})")


class MidwayStore(DirectoryStore):
    """See ``DirectoryStore``: of each epoch its checkpoint after one number of records.

    Args:
        root: Where the whole epochs are, too.
        records: How many records of its epoch each of these checkpoints is after.
    """

    def __init__(self, root: str, records: int) -> None:
        super().__init__(root)
        self._records = records

    def path(self, epoch: int) -> str:
        """See ``CheckpointStore.path``."""
        return str(self._root / midway_name(epoch, self._records))

    def _entries(self) -> Iterator[tuple[int, Path]]:
        for epoch, records in midways(str(self._root)):
            if records == self._records:
                yield epoch, Path(self.path(epoch))


def midway_name(epoch: int, records: int) -> str:
    """The name of the directory of a checkpoint within an epoch."""
    return f"{epoch_name(epoch)}.records-{records:06d}"


def parsed_name(name: str) -> tuple[int, int] | None:
    """Epoch and number of records of such a directory's name; None for another one."""
    found = _MIDWAY.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


def midways(root: str) -> tuple[tuple[int, int], ...]:
    """Epoch and number of records of each checkpoint within an epoch, ascending."""
    place = Path(root)
    if not place.is_dir():
        return ()
    with disk_faults("E313", f"list {root}"):
        names = [path.name for path in place.iterdir()]
    found = [one for one in map(parsed_name, names) if one is not None]
    # One has one name: another one is someone's copy.
    return tuple(sorted(one for one in found if midway_name(*one) in names))
