"""Store checkpoints in a memory file system, for experiments and tests.

Nodes write and read files by their paths, so what is in memory is a file system (Linux keeps
one at ``/dev/shm``), and all else is as with the usual store: the same files, the same commit,
the same verification. Only a power cut is nothing that it could survive.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.core.errors import EnvironmentFaultError

_MEMORY = "/dev/shm"  # noqa: S108 - a directory of one's own is made in it


class MemoryStore(DirectoryStore):
    """A ``DirectoryStore`` in a memory file system; its checkpoints end with the store.

    Args:
        place: A directory of a file system that is in memory.

    Raises:
        EnvironmentFaultError: There is none.
    """

    def __init__(self, directory: str = _MEMORY) -> None:
        try:
            root = tempfile.mkdtemp(prefix="jobrun-", dir=directory)
        except OSError as error:
            raise EnvironmentFaultError.of(
                "E313",
                f"cannot create a directory in {directory}: {error.strerror or error}",
                "name a directory of a file system that is in memory",
            ) from error
        super().__init__(str(Path(root) / "checkpoints"))
        self._forget = weakref.finalize(self, shutil.rmtree, root, ignore_errors=True)

    def clear(self) -> None:
        """Delete all epochs of the memory store and free their memory now."""
        self._forget()
