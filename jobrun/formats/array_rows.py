"""Read rows of arrays that are contiguous, in a file of any format or in memory."""

from __future__ import annotations

import math
import mmap
import os
from typing import Any

import numpy as np

from jobrun.core.lazy_dataclass import dataclass
from jobrun.core.system_calls import read_into
from jobrun.formats import errors as faults
from jobrun.formats.rows import Array, Column, Piece, common_length

# Rows in any order are taken from a mapping of what is no larger than this; of larger files they
# are read one by one, for Linux maps much more around each than is asked for.
_MAPPED_BYTES = 256 << 20
# What is mapped counts as this process's memory until it is given back.
_GIVE_BACK_BYTES = 128 << 20
_AROUND_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Extent:
    """An array that lies contiguously in a file.

    Attributes:
        member: Its name in the file; for messages.
        offset: Of its first byte.
        fortran: Its first axis is the one that changes fastest.
    """

    member: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int
    fortran: bool = False


class ArrayRows:
    """Rows of arrays that are contiguous, in a file or in memory.

    Args:
        path: For messages, and of the file in which extents lie.
        parts: The columns.
        names: What they are called; else as the extents say.
    """

    def __init__(
        self, path: str, parts: tuple[Extent | Array, ...], names: tuple[str, ...] = ()
    ) -> None:
        self._path = path
        self._names = names or tuple(one.member if isinstance(one, Extent) else "" for one in parts)
        for name, part in zip(self._names, parts, strict=True):
            if not part.shape:
                raise faults.no_rows(path, name)
        lengths = [(name, part.shape[0]) for name, part in zip(self._names, parts, strict=True)]
        self._length = common_length(path, lengths)
        self._columns = tuple(
            Column(name, part.dtype, tuple(part.shape[1:]))
            for name, part in zip(self._names, parts, strict=True)
        )
        in_file = any(isinstance(part, Extent) for part in parts)
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if in_file else -1
        self._sources = tuple(
            _Extent(self._file, path, part) if isinstance(part, Extent) else _InMemory(part)
            for part in parts
        )

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the name, dtype and row shape of each contiguous array whose rows are read."""
        return self._columns

    def __len__(self) -> int:
        return self._length

    @property
    def is_indexable(self) -> bool:
        """Return whether rows of all arrays can be indexed: in memory, or in a file's mapping."""
        return all(source.is_indexable for source in self._sources)

    def take(self, start: int, stop: int) -> Piece:
        """Read consecutive rows of each contiguous array."""
        return tuple(source.take(start, stop) for source in self._sources)

    def pick(self, rows: Array) -> Piece:
        """Read rows of each contiguous array by row numbers, in the order given."""
        return tuple(source.pick(rows) for source in self._sources)

    def close(self) -> None:
        """Close the file, of any format, that holds the contiguous arrays whose rows were read."""
        for source in self._sources:
            source.close()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class _InMemory:
    """The rows of an array in memory, which does not change meanwhile."""

    is_indexable = True

    def __init__(self, array: Array) -> None:
        self._array = array

    def take(self, start: int, stop: int) -> Array:
        """Return a copy of consecutive rows of an array in memory."""
        return self._array[start:stop].copy(order="C")

    def pick(self, rows: Array) -> Array:
        """Return a copy of an array's rows in memory, by row numbers in the order given."""
        return self._array.take(rows, axis=0)

    def close(self) -> None:
        """Release the reference to an array in memory whose rows were read."""
        self._array = self._array[:0]


class _Extent:
    """Rows of an array that lies contiguously in a file.

    Rows in order are read rather than mapped: a mapping of a file that someone cuts short
    ends the process, and its pages count as memory in use.
    """

    def __init__(self, file: int, path: str, extent: Extent) -> None:
        self._file = file
        self._path = path
        self._extent = extent
        self._row_bytes = extent.dtype.itemsize * math.prod(extent.shape[1:])
        self._map: Any = None
        self._rows: Any = None
        self._touched_bytes = 0

    @property
    def is_indexable(self) -> bool:
        """Return whether an array's rows in a file can be indexed in a mapping: up to 256 MiB."""
        return self._row_bytes * self._extent.shape[0] <= _MAPPED_BYTES

    def take(self, start: int, stop: int) -> Array:
        """Read consecutive rows of an array that lies contiguously in a file."""
        if self._extent.fortran and len(self._extent.shape) > 1:
            found = self._mapped()[start:stop].copy("C")
            self._release_pages(found.nbytes)
            return np.asarray(found)
        extent = self._extent
        rows = np.empty((stop - start, *extent.shape[1:]), extent.dtype)
        if rows.nbytes:
            self._fill(rows, extent.offset + start * self._row_bytes)
        return rows

    def pick(self, rows: Array) -> Array:
        """Read rows of an array in a file by row numbers, in the order given."""
        extent = self._extent
        self._check_size()
        if extent.fortran and len(extent.shape) > 1:
            found = np.ascontiguousarray(self._mapped()[rows])
            self._release_pages(len(rows) * _AROUND_BYTES)
            return found
        found = np.empty((len(rows), *extent.shape[1:]), extent.dtype)
        if found.nbytes:
            self._gather(rows, _as_bytes(found))
        return found

    def _gather(self, rows: Array, target: Array) -> None:
        """Read rows of an array as bytes, by the offsets at which they begin in the file."""
        extent = self._extent
        if self.is_indexable:
            # No row is out of bounds; to have that checked would take a copy.
            self._mapped().take(rows, axis=0, out=target, mode="clip")
            return
        # Through the file once, each row to where it was asked for.
        order = np.argsort(rows, kind="stable")
        for at, row in zip(order.tolist(), rows[order].tolist(), strict=True):
            self._fill(target[at : at + 1], extent.offset + row * self._row_bytes)

    def close(self) -> None:
        """Release the memory mapping of an array whose rows were read from a file."""
        self._map = self._rows = None

    def _fill(self, found: Array, offset: int) -> None:
        view = _as_bytes(found).reshape(-1).data
        while view:
            count = read_into(self._file, [view], offset)
            if count == 0:
                raise self._cut_short()
            view = view[count:]
            offset += count

    def _mapped(self) -> Any:
        """Map an array in a file to memory; return it, as rows of raw bytes if in C order."""
        if self._map is None:
            extent = self._extent
            if extent.fortran and len(extent.shape) > 1:
                self._map = np.memmap(
                    self._path, extent.dtype, "r", extent.offset, extent.shape, "F"
                )
            else:
                shape = (extent.shape[0], self._row_bytes)
                self._map = np.memmap(self._path, np.uint8, "r", extent.offset, shape)
                # Rows will be asked for in any order: the disk had better give them in its own.
                self._map._mmap.madvise(mmap.MADV_WILLNEED)
            # What is mapped, without what numpy's class for it costs at each use.
            self._rows = np.asarray(self._map)
        return self._rows

    def _release_pages(self, touched_bytes: int) -> None:
        """Release mapped pages of array rows after 128 MiB; the page cache still holds them."""
        self._touched_bytes += touched_bytes
        if self._touched_bytes > _GIVE_BACK_BYTES:
            self._touched_bytes = 0
            self._map._mmap.madvise(mmap.MADV_DONTNEED)

    def _check_size(self) -> None:
        expected = self._extent.offset + self._row_bytes * self._extent.shape[0]
        if os.fstat(self._file).st_size < expected:
            raise self._cut_short()

    def _cut_short(self) -> Exception:
        return faults.unreadable(self._path, "it has been cut short since it was opened")


def _as_bytes(array: Array) -> Array:
    """View the rows of an array as raw bytes: uint8, one row of bytes for each row."""
    return array.reshape(len(array), -1).view(np.uint8)
