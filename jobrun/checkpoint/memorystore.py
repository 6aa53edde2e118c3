"""Checkpoints in memory, for experiments and tests: nothing of them outlives the process.

Nodes write and read files by their paths, so what is in memory is a file system (Linux keeps
one at ``/dev/shm``), and all else is as with the usual store: the same files, the same commit,
the same verification. Only a power cut is nothing that it could survive.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

from jobrun.checkpoint.directory import DirectoryStore
from jobrun.core.errors import EnvironmentFaultError

_MEMORY = "/dev/shm"  # noqa: S108 - a directory of one's own is made in it


class MemoryStore(DirectoryStore):
    """See ``CheckpointStore``. What it holds is gone when the store is.

    Args:
        place: A directory of a file system that is in memory.

    Raises:
        EnvironmentFaultError: There is none.
    """

    def __init__(self, place: str = _MEMORY) -> None:
        try:
            root = tempfile.mkdtemp(prefix="jobrun-", dir=place)
        except OSError as error:
            raise EnvironmentFaultError.of(
                "E313",
                f"cannot make a directory in {place}: {error.strerror or error}",
                "name a directory of a file system that is in memory",
            ) from error
        super().__init__(str(Path(root) / "checkpoints"))
        self._forget = weakref.finalize(self, shutil.rmtree, root, ignore_errors=True)

    def clear(self) -> None:
        """Give the memory back now; all epochs are gone."""
        self._forget()
