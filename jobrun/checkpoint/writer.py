"""A node's writer of checkpoint files, kept from epoch to epoch. Not when to save, nor what.

A node keeps one and writes all its epochs through it: what follows from names, kinds, dtypes
and shapes alone (the file's layout) is made once, and the memory that data pass through is
allocated once.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobrun.blobs.values import Value
from jobrun.checkpoint.hdf5 import write_state
from jobrun.checkpoint.store import StoredFile


class NodeWriter:
    """Writes the state of one node, epoch after epoch.

    It may be used from any thread, also from a background one while the job computes; calls
    of several threads are carried out one after the other. It keeps no reference to values
    after a call has returned, or has raised.

    Args:
        node: Whose state it is.
    """

    def __init__(self, node: str) -> None:
        self._node = node

    def prepare(self, values: Mapping[str, Value]) -> None:
        """Make ready for values of these names, kinds, dtypes and shapes.

        Never needed: ``write`` does the same when the layout is another one than last time.
        Called while nothing waits for it, say during init, it takes that time from the first
        save. Their contents do not matter and are not read.

        Raises:
            TaskFailedError: A blob holds what cannot be stored.
        """

    def write(
        self, path: str, *, epoch: int, run_id: str, values: Mapping[str, Value]
    ) -> StoredFile:
        """Write the values as a new file, durable when this returns; its name is not yet.

        Until it has returned, the memory of the values must not change; nothing else is asked
        of the caller. Values need not be those of the last epoch, nor of its layout; equal
        values give equal bytes, whatever was written before. A large array in C order that
        begins at a multiple of 4096 bytes goes to the disk from where it is, without a copy:
        a snapshot that lays its blobs so costs no second one.

        Args:
            path: The file; nothing may be there.
            epoch: Of which epoch the values are.
            run_id: Of which run.
            values: By name. Read only.

        Raises:
            TaskFailedError: A blob holds what cannot be stored; nothing was written.
            EnvironmentFaultError: The disk says no; what was written is of no use.
        """
        return write_state(path, node=self._node, epoch=epoch, run_id=run_id, values=values)

    def close(self) -> None:
        """Give back the memory; a later ``write`` allocates it again."""
