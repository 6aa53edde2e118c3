"""Write a file from page-aligned buffers in a thread of its own, with ``O_DIRECT`` if possible.

Memory that the system has just given out costs more to touch than the disk to write; so slabs
are made once, and pass between the one who fills them and the thread that writes them.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from jobrun.values.file_memory import release_pages

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
SLAB_BYTES = 1 << 24
# Smaller pieces are not worth a call: they hold little memory.
_RELEASED_BYTES = 1 << 17
MOST_SLABS = 4
# A multiple of the size of a block.
LEAST_PART_BYTES = 1 << 22
_DIRECT = getattr(os, "O_DIRECT", 0)
_HUGE_PAGE_BYTES = 1 << 21


class SlabPool:
    """Up to four slabs of page-aligned memory, made when they are first needed."""

    def __init__(self) -> None:
        self._free: queue.SimpleQueue[Bytes] = queue.SimpleQueue()
        self._made = 0
        self._size = 0

    def slab_bytes(self, wanted_bytes: int) -> int:
        """Return the size of the page-aligned buffers (slabs) for direct writes of a file.

        Of a file that is not small an eighth, so that writing begins while the rest is filled.
        """
        if wanted_bytes <= LEAST_PART_BYTES:
            return -(-wanted_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        parts = max(1, wanted_bytes // 8 // LEAST_PART_BYTES)
        return min(SLAB_BYTES, parts * LEAST_PART_BYTES)

    def take(self, wanted_bytes: int) -> Bytes:
        """Take a free page-aligned buffer to fill for direct I/O; wait while all are in use."""
        self._fit(self.slab_bytes(wanted_bytes))
        if self._made < MOST_SLABS and self._free.empty():
            self._made += 1
            return aligned(self._size)
        return self._free.get()

    def give(self, slab: Bytes) -> None:
        """Give back a page-aligned buffer that direct I/O has written; any thread may do so."""
        self._free.put(slab)

    def _fit(self, size: int) -> None:
        """Replace the page-aligned buffers for direct I/O by larger ones if a file needs them."""
        if size > self._size:
            self._free = queue.SimpleQueue()
            self._made = 0
            self._size = max(size, min(SLAB_BYTES, 2 * self._size))


def aligned(size: int) -> Bytes:
    """Allocate page-aligned memory for direct I/O (``O_DIRECT``), with all its pages touched.

    Args:
        size: In bytes.
    """
    memory = np.frombuffer(map_memory(size), np.uint8, size)
    memory[:: mmap.PAGESIZE] = 0
    return memory


def map_memory(size: int) -> mmap.mmap:
    """Map page-aligned memory for direct I/O: ``size`` bytes or more, in huge pages if possible.

    Of huge pages a direct write is one long piece for the disk, not a list of thousands of small
    ones: it takes half the time, and a sixth of the processor's.
    """
    if size >= _HUGE_PAGE_BYTES:
        # Linux aligns a mapping to a huge page only if its length is a multiple of one.
        size = -(-size // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # MADV_DONTFORK: programs that steps start do not need this memory.
    for advice in ("MADV_DONTFORK", "MADV_HUGEPAGE"):
        if hasattr(mmap, advice):
            try:
                memory.madvise(getattr(mmap, advice))
            except OSError:
                # An old kernel does not know this advice, which is optional.
                continue
    return memory


class FileWriter:
    """Writes pieces to a file, in a thread of its own once ``start`` was called.

    Direct writing, past the page cache, is used if ``direct`` asks for it and as long as the
    file system takes it.
    """

    def __init__(self, descriptor: int, *, direct: bool) -> None:
        self._descriptor = descriptor
        self._direct = direct and bool(_DIRECT) and _set_direct(descriptor, on=True)
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_direct(self) -> bool:
        """Return whether page-aligned memory is written with ``O_DIRECT``, without a copy."""
        return self._direct

    def start(self) -> None:
        """Start the thread that writes a file directly from page-aligned buffers."""
        self._thread = threading.Thread(target=self._work, name="checkpoint-writer", daemon=True)
        self._thread.start()

    def write(self, piece: Bytes, offset: int) -> None:
        """Write page-aligned bytes at an offset, in the writing thread if there is one.

        Raises:
            OSError: This piece or an earlier one could not be written.
        """
        self._raise()
        if self._thread is None:
            self._write(piece, offset)
        else:
            self._jobs.put(lambda: self._try(piece, offset))

    def then(self, act: Callable[[], None]) -> None:
        """Call a function once the direct I/O thread has written all earlier buffers, or failed."""
        if self._thread is None:
            act()
        else:
            self._jobs.put(act)

    def wait(self) -> None:
        """Wait until the direct I/O thread has written all buffers, or has failed; then end it.

        Raises:
            OSError: Something could not be written.
        """
        self.stop()
        self._raise()

    def stop(self) -> None:
        """Stop the direct I/O thread that writes the file; raise no error."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def _try(self, piece: Bytes, offset: int) -> None:
        if self._error is None:
            try:
                self._write(piece, offset)
            except BaseException as error:  # noqa: BLE001 - raised where the writer waits
                self._error = error

    def _write(self, piece: Bytes, offset: int) -> None:
        view = piece.data
        while view:
            try:
                count = os.pwrite(self._descriptor, view, offset)
            except OSError as error:
                if error.errno != errno.EINVAL or not self._direct:
                    raise
                # The file system accepts O_DIRECT on open and fails on write.
                self._direct = not _set_direct(self._descriptor, on=False)
                continue
            view, offset = view[count:], offset + count
        if piece.nbytes >= _RELEASED_BYTES:
            release_pages(piece)


def _set_direct(descriptor: int, *, on: bool) -> bool:
    try:
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        wanted = flags | _DIRECT if on else flags & ~_DIRECT
        fcntl.fcntl(descriptor, fcntl.F_SETFL, wanted)
    except OSError:
        return False
    return True
