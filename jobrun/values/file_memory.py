"""Map large arrays into memory from unlinked files, and let go of their pages once used.

The content of a program's ``state_dir`` may be larger than the memory. So its array lies in a file
without a name, which the system deletes with the array or the process. To the rest of jobrun it is
an array like any other; code that walks over large arrays calls ``release_pages`` behind itself.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt

from jobrun.core.system_calls import allocate_file

Bytes = npt.NDArray[np.uint8]


class FileMemory(mmap.mmap):
    """The memory of an array that lies in a file.

    Attributes:
        descriptor: Of the file, which has no name; closed with the memory.
        listing: What the directory that was stored in it looked like, if that is known.
    """

    descriptor: int
    listing: Any = None

    def __del__(self) -> None:
        os.close(self.descriptor)


def open_unnamed(folder: str) -> int:
    """Open a new file without a name on the file system of a folder, which is made if needed.

    Returns:
        Its descriptor, open for reading and writing.

    Raises:
        OSError: The system refuses.
    """
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - names may be any bytes
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        return os.dup(file.fileno())


def map_file(descriptor: int, listing: Any = None) -> Bytes:
    """Return the content of a file as an array, which closes the file; writes to it go there.

    Args:
        descriptor: That of ``open_unnamed``; of a file that is not empty, with all its blocks
            allocated if the array is written to.
        listing: Is kept with the array.
    """
    memory = FileMemory(descriptor, os.fstat(descriptor).st_size)
    memory.descriptor, memory.listing = descriptor, listing
    return np.frombuffer(memory, np.uint8)


def allocate_in_file(folder: str, size_bytes: int) -> Bytes:
    """Allocate an array of bytes in a file, all of whose blocks are there.

    Raises:
        OSError: There is no room: known now, and not at a write, which would be a SIGBUS.
    """
    if not size_bytes:
        return np.empty(0, np.uint8)
    descriptor = open_unnamed(folder)
    try:
        allocate_file(descriptor, size_bytes)
        os.ftruncate(descriptor, size_bytes)
        return map_file(descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def find_file_memory(array: npt.NDArray[Any]) -> FileMemory | None:
    """Return the file memory that an array is a view of, or None."""
    base: Any = array.base
    while base is not None and type(base) is not FileMemory:
        base = base.obj if type(base) is memoryview else getattr(base, "base", None)
    return base


def is_whole_file(array: npt.NDArray[Any]) -> bool:
    """Return whether an array is all that lies in a file."""
    memory = find_file_memory(array)
    return memory is not None and len(memory) == array.nbytes


def release_pages(array: npt.NDArray[Any]) -> None:
    """Let the system take back the pages of a contiguous array that lies in a file.

    The content stays in the file, and in the system's cache as long as there is room; an array
    that lies in memory is left as it is.
    """
    memory = find_file_memory(array)
    if memory is None or not array.nbytes:
        return
    start = np.frombuffer(memory, np.uint8).ctypes.data
    begin = (array.ctypes.data - start) // mmap.PAGESIZE * mmap.PAGESIZE
    memory.madvise(mmap.MADV_DONTNEED, begin, array.ctypes.data - start + array.nbytes - begin)
