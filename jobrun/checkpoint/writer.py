"""A node's writer of checkpoint files, kept from epoch to epoch. Not when to save, nor what.

A node keeps one and writes all its epochs through it: what follows from names, kinds, dtypes
and shapes alone (the file's layout) is made once, and the memory that data pass through is
allocated once.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from jobrun.blobs.values import Value
from jobrun.checkpoint import userblock
from jobrun.checkpoint.codec import Array
from jobrun.checkpoint.filling import Filling
from jobrun.checkpoint.program import Program, program_for
from jobrun.checkpoint.recycling import known_digests, take_spare
from jobrun.checkpoint.slabs import FileWriter, SlabPool, aligned
from jobrun.checkpoint.store import StoredFile
from jobrun.checkpoint.userblock import Header
from jobrun.core.compression import Rules
from jobrun.core.crashpoints import reach
from jobrun.formats.files import disk_faults

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# From this length on, a thread and writing past the page cache are worth their beginning.
_LARGE_BYTES = 1 << 20


class NodeWriter:
    """Writes the state of one node, epoch after epoch.

    It may be used from any thread, also from a background one while the job computes; calls
    of several threads are carried out one after the other. It keeps no reference to values
    after a call has returned, or has raised. Beside the values it needs 64 MiB of memory at
    most, and less for small states.

    Args:
        node: Whose state it is.
        compression: Which blobs to compress, and how, where that makes them smaller.
    """

    def __init__(self, node: str, compression: Rules = ()) -> None:
        self._node = node
        self._compression = compression
        self._lock = threading.Lock()
        self._pool = SlabPool()
        self._program: Program | None = None

    def prepare(self, values: Mapping[str, Value]) -> None:
        """Make ready for values of these names, kinds, dtypes and shapes.

        Never needed: ``write`` does the same when the layout is another one than last time.
        Called while nothing waits for it, say during init, it takes that time from the first
        save. Their contents do not matter and are not kept.

        Raises:
            TaskFailedError: A blob holds what cannot be stored.
        """
        with self._lock:
            self._arrays(values)

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
            path: The file; nothing may be there. A spare file beside it (see ``recycling``)
                becomes it.
            epoch: Of which epoch the values are.
            run_id: Of which run.
            values: By name. Read only.

        Raises:
            TaskFailedError: A blob holds what cannot be stored; nothing was written.
            EnvironmentFaultError: The disk says no; what was written is of no use.
        """
        started = time.perf_counter()
        with self._lock:
            program, arrays = self._arrays(values)
            end = program.most_bytes
            with disk_faults(
                "E313", f"write {path}", place=str(Path(path).parent), needed_bytes=end
            ):
                block, size = self._write(path, program, arrays, epoch, run_id)
        return StoredFile(
            node=self._node,
            name=Path(path).name,
            size_bytes=size,
            digest=userblock.sha256(block),
            seconds=time.perf_counter() - started,
        )

    def close(self) -> None:
        """Give back the memory; a later ``write`` allocates it again."""
        with self._lock:
            self._pool = SlabPool()

    def _arrays(self, values: Mapping[str, Value]) -> tuple[Program, list[Array]]:
        if self._program is not None:
            arrays = self._program.arrays(values)
            if arrays is not None:
                return self._program, arrays
        self._program, arrays = program_for(values, self._compression)
        return self._program, arrays

    def _write(
        self, path: str, program: Program, arrays: list[Array], epoch: int, run_id: str
    ) -> tuple[bytes, int]:
        """Write all of the file, durably; returns its user block and its length."""
        spare = take_spare(path)
        descriptor = os.open(path, _FLAGS, 0o644) if spare is None else spare
        try:
            reach("checkpoint.file-opened")
            old: list[bytes] = []
            parts = program.parts()
            if spare is not None and parts is not None:
                old = known_digests(descriptor, program.layout.digest, parts, epoch)
            made = self._fill(descriptor, program, arrays, old, epoch, run_id)
            reach("checkpoint.file-written")
            # Once: after a failure the kernel may have dropped the bytes, and would say yes.
            os.fsync(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        # Some file systems report a failed write only here.
        os.close(descriptor)
        reach("checkpoint.file-synced")
        return made

    def _fill(
        self,
        descriptor: int,
        program: Program,
        arrays: list[Array],
        old: list[bytes],
        epoch: int,
        run_id: str,
    ) -> tuple[bytes, int]:
        most = program.most_bytes
        is_large = most >= _LARGE_BYTES
        file = FileWriter(descriptor, direct=is_large)
        filling = Filling(file, self._pool, most, old, program.first)
        if is_large:
            file.start()
        try:
            filled = program.fill(filling, arrays, epoch)
            file.wait()
        finally:
            file.stop()
        if filled.front is not None:
            file.write(filled.front, userblock.SIZE)
        reach("checkpoint.file-half-written")
        header = Header(
            node=self._node,
            epoch=epoch,
            run_id=run_id,
            length=filled.end - userblock.SIZE,
            digest=userblock.sha256(filled.tail),
            layout=program.layout.digest,
            parts=filled.parts,
            format=userblock.FORMAT,
        )
        block = userblock.encode(header)
        page = aligned(userblock.SIZE)
        page[...] = np.frombuffer(block, np.uint8)
        # Last: without it the file is none, however much of it there is.
        file.write(page, 0)
        os.ftruncate(descriptor, filled.end)
        return block, filled.end
