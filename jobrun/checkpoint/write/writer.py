"""Write a node's checkpoint file; the writer is kept from epoch to epoch.

A node keeps one and writes all its epochs through it: what follows from names, kinds, dtypes
and shapes alone (the file's layout) is made once, and the memory that data pass through is
allocated once.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from msgspec import Struct

from jobrun.checkpoint.blob_parts import flatten_values
from jobrun.checkpoint.hdf5 import user_block as userblock
from jobrun.checkpoint.hdf5.file_layout import PAGE
from jobrun.checkpoint.hdf5.user_block import Header
from jobrun.checkpoint.hdf5.value_codec import Array
from jobrun.checkpoint.store_protocol import StoredFile
from jobrun.checkpoint.write.array_types import ArrayTypes
from jobrun.checkpoint.write.block_writer import BlockWriter
from jobrun.checkpoint.write.direct_io import Bytes, FileWriter, SlabPool, aligned
from jobrun.checkpoint.write.encoder import (
    EncodedFile,
    FileEncoder,
    FindAdjacent,
    PreviousFile,
    build_encoder,
)
from jobrun.checkpoint.write.memory_digests import TakenDigests
from jobrun.checkpoint.write.reusable_file import (
    known_digests,
    open_over_removed,
    share_blocks,
)
from jobrun.core.failpoints import reach
from jobrun.core.files.digest import digest_bytes
from jobrun.core.files.disk import create_file, disk_faults, sync_file
from jobrun.core.files.file_lock import close_locked
from jobrun.graph.checkpoint_policy import Rules
from jobrun.values.blob_kinds import Value

# From this length on, a writing thread and O_DIRECT are worth their set-up.
_LARGE_BYTES = 1 << 20


class _Written(Struct, frozen=True):
    """What a file has become: its user block, and digests of the blocks behind it."""

    block: bytes
    size_bytes: int
    digests: list[bytes]
    handed_bytes: int
    sync_s: float


class _Save(Struct, frozen=True):
    """What one call of ``write`` writes."""

    program: FileEncoder
    memory: TakenDigests
    arrays: list[Array]
    epoch: int
    run_id: str
    known: PreviousFile
    adjacent: FindAdjacent | None
    over_removed: bool


class NodeWriter:
    """Writes the state of one node, epoch after epoch.

    It may be used from any thread, also from a background one while the job computes; calls
    of several threads are carried out one after the other. It keeps no reference to values
    after a call has returned, or has raised. Beside the values it needs 64 MiB of memory at
    most, and less for small states.

    Args:
        node: Whose state it is.
        compression: Which blobs to compress, and how, where that makes them smaller.
        origins: Of some blobs where the spec makes them; becomes an attribute in the file.
    """

    def __init__(
        self, node: str, compression: Rules = (), origins: Mapping[str, str] | None = None
    ) -> None:
        self._node = node
        self._origins = origins or {}
        self._compression = compression
        self._lock = threading.Lock()
        self._pool = SlabPool()
        self._program: FileEncoder | None = None
        # Digests of the blocks and values of the last file that ``_program`` encoded.
        self._digests: Sequence[bytes] = ()
        self._values: Sequence[bytes] = ()
        # Descriptor of that file while the next one may share its blocks; -1 for none.
        self._last = -1
        self._may_share = True

    @property
    def lead_bytes(self) -> int:
        """Return at which offset of a 4 KiB page small arrays begin in this writer's files.

        Copies in memory that begin so are written from where they are.
        """
        return self._program.gathered % PAGE if self._program else 0

    def prepare(self, values: Mapping[str, Value]) -> None:
        """Prepare the writer's file layout before a save, for values of these names and types.

        Never needed: ``write`` does the same when the layout is another one than last time.
        Called while nothing waits for it, say during init, it takes that time from the first
        save. Their contents do not matter and are not kept.

        Raises:
            TaskFailedError: A blob holds what cannot be stored.
        """
        with self._lock:
            self._arrays(flatten_values(values))

    def write(
        self,
        path: str,
        *,
        epoch: int,
        run_id: str,
        values: Mapping[str, Value],
        unchanged: Collection[str] = (),
        types: ArrayTypes | None = None,
        adjacent: FindAdjacent | None = None,
        over_removed: bool = False,
    ) -> StoredFile:
        """Write a node's values as a new file, durable on return except for the file's name.

        Until it has returned, the memory of the values must not change; nothing else is asked
        of the caller. Values need not be those of the last epoch, nor of its layout; equal
        values give equal bytes, whatever was written before. A large array in C order that
        begins at a multiple of 4096 bytes goes to the disk from where it is, without a copy:
        a snapshot that lays its blobs so costs no second one.

        Args:
            path: The file; nothing may be there, but see ``over_removed``.
            epoch: Of which epoch the values are.
            run_id: Of which run.
            values: By name. Read only. Containers, and states of objects, become groups.
            unchanged: Names whose values are, bit for bit, those of the last ``write`` that
                returned. They are not even read where a file that is used again has them.
            types: Those of the values, where the caller knows them.
            adjacent: Finds values that lie in memory one after the other, as those that a snapshot
                has copied: they are read as one.
            over_removed: A file that is there is a removed epoch's, and may be overwritten (see
                ``reusable_file``).

        Raises:
            TaskFailedError: A blob holds what cannot be stored; nothing was written.
            EnvironmentFaultError: The system refuses; what was written is of no use.
        """
        started = time.perf_counter()
        folder, name = os.path.split(path)
        with self._lock:
            before = self._program
            parts = flatten_values(values)
            program, arrays = self._arrays(parts, types if parts is values else None)
            known_values = self._values if program is before else ()
            memory = program.memory.take(parts, unchanged, known_values)
            end = program.most_bytes
            with disk_faults("E313", f"write {path}", directory=folder, needed_bytes=end):
                known = PreviousFile(unchanged, self._digests if program is before else ())
                save = _Save(program, memory, arrays, epoch, run_id, known, adjacent, over_removed)
                # Forgotten first: if this save fails, they no longer describe the last file.
                self._digests = self._values = ()
                written = self._write(path, save)
                self._digests, self._values = written.digests, memory.values
        return StoredFile(
            node=self._node,
            name=name,
            size_bytes=written.size_bytes,
            digest=digest_bytes(written.block),
            seconds=time.perf_counter() - started,
            sync_seconds=written.sync_s,
            written_bytes=written.handed_bytes,
        )

    def close(self) -> None:
        """Free this writer's memory; its next ``write`` allocates memory again.

        Does not wait for a ``write`` that continues in another thread: it may hang in a system
        call, and the caller has given it up.
        """
        if self._lock.acquire(blocking=False):
            try:
                self._pool = SlabPool()
                self._let_go()
            finally:
                self._lock.release()

    def _arrays(
        self, values: Mapping[str, Value], types: ArrayTypes | None = None
    ) -> tuple[FileEncoder, list[Array]]:
        if self._program is not None:
            arrays = self._program.arrays(values, types)
            if arrays is not None:
                return self._program, arrays
        self._program, arrays = build_encoder(values, self._compression, self._origins)
        return self._program, arrays

    def _write(self, path: str, save: _Save) -> _Written:
        """Write a node's whole checkpoint file, a reused or new one, and make it durable."""
        if save.over_removed:
            descriptor, is_removed = open_over_removed(path)
        else:
            descriptor, is_removed = create_file(path), False
        try:
            reach("checkpoint.file-opened")
            old: Sequence[bytes] = ()
            parts = save.program.parts
            if is_removed and parts is not None and save.program.most_bytes >= _LARGE_BYTES:
                old = known_digests(descriptor, save.program.layout.digest, parts, save.epoch)
            elif not is_removed and parts is not None:
                old = self._shared(descriptor, save)
            filled, digests, handed_bytes = self._fill(descriptor, save, old)
            block = self._seal(descriptor, save, filled)
            reach("checkpoint.file-written")
            # Not retried: after a failure the kernel may drop the pages and then report success.
            synced = time.perf_counter()
            sync_file(descriptor)
            sync_s = time.perf_counter() - synced
        except BaseException:
            close_locked(descriptor)
            raise
        # Some file systems report a failed write only here.
        close_locked(descriptor)
        reach("checkpoint.file-synced")
        self._let_go()
        if self._may_share:
            self._last = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        return _Written(block, filled.end, digests, handed_bytes + len(block), sync_s)

    def _shared(self, descriptor: int, save: _Save) -> Sequence[bytes]:
        """Clone the writer's last file by reflink as its next; return digests of shared blocks.

        Returns the digests of the blocks; empty without such a copy.

        No one writes to the last one: it is the newest that there is.
        """
        if self._last < 0 or not save.known.digests:
            return ()
        old = share_blocks(self._last, descriptor, save.known.digests, save.epoch)
        self._may_share = old is not None
        return old or ()

    def __del__(self) -> None:
        # It was not closed; after an interrupted constructor attributes may be missing.
        with contextlib.suppress(AttributeError, OSError):
            self._let_go()

    def _let_go(self) -> None:
        last, self._last = self._last, -1
        if last >= 0:
            # A failed close has closed the descriptor all the same: it must not be retried.
            os.close(last)

    def _fill(
        self, descriptor: int, save: _Save, old: Sequence[bytes]
    ) -> tuple[EncodedFile, list[bytes], int]:
        """Write a node's checkpoint file except its user block; return its parts and digests."""
        most = save.program.most_bytes
        is_large = most >= _LARGE_BYTES
        file = FileWriter(descriptor, direct=is_large)
        try:
            if is_large:
                file.start()
            program, memory = save.program, save.memory
            filling = BlockWriter(
                file, self._pool, most, old, program.first, digest_block=memory.digest_block
            )
            filled = program.fill(
                filling, save.arrays, save.epoch, memory.values, save.known, save.adjacent
            )
            file.wait()
        finally:
            file.stop()
        handed_bytes = filling.written_bytes
        if filled.front is not None:
            file.write(filled.front, userblock.SIZE)
            file.wait()
            handed_bytes += filled.front.size
        return filled, filling.digests, handed_bytes

    def _seal(self, descriptor: int, save: _Save, filled: EncodedFile) -> bytes:
        """Finish the writer's file: write its user block last, and cut off excess bytes."""
        reach("checkpoint.file-half-written")
        header = Header(
            node=self._node,
            epoch=save.epoch,
            run_id=save.run_id,
            length=filled.end - userblock.SIZE,
            digest=digest_bytes(filled.tail),
            layout=save.program.layout.digest,
            parts=filled.parts,
            types=save.program.types,
            format=userblock.FORMAT,
        )
        block = userblock.encode(header)
        page: Bytes = np.frombuffer(block, np.uint8)
        is_large = save.program.most_bytes >= _LARGE_BYTES
        if is_large:
            page = aligned(userblock.SIZE)
            page[...] = np.frombuffer(block, np.uint8)
        # Written last: without its user block the file is no checkpoint.
        FileWriter(descriptor, direct=is_large).write(page, 0)
        os.ftruncate(descriptor, filled.end)
        return block


def write_state(
    path: str, *, node: str, epoch: int, run_id: str, values: Mapping[str, Value]
) -> StoredFile:
    """Write a node's whole checkpoint file in one call; return the file's size and digest.

    Equal arguments give equal bytes. The file's name is made durable by the store's commit.
    Who writes more than one epoch keeps a ``NodeWriter``.

    Raises:
        TaskFailedError: A blob holds what cannot be stored; nothing was written.
        EnvironmentFaultError: The system refuses; what was written is of no use.
    """
    return NodeWriter(node).write(path, epoch=epoch, run_id=run_id, values=values)
