"""Read rows of data files of any format, or of arrays in memory, in order or in any order.

The rows of a file are the first axis of its members, all of one length; a nested field of rows of a
structured dtype is a column of its own. A piece is read into memory of its own, so a file may be
larger than memory:

=========== ====================================== ==========================================
format      rows in order                          rows in any order
=========== ====================================== ==========================================
npy, npz    read into place, without a mapping     mapped up to 256 MiB, else read row by row
hdf5        as npy where the dataset is one piece; chunk by chunk where it is not
parquet     row group by row group                 the same, some row groups kept
csv, tsv    from memory up to 64 MiB; else line by line, and by an index: 8 bytes per line
=========== ====================================== ==========================================

A compressed member of an npz file is read whole, up to 1 GiB; a larger one is refused.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from msgspec import Struct

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.file_formats import FileFormat
from jobrun.core.system_calls import read_into
from jobrun.formats import errors as faults
from jobrun.formats.headers import format_module, require_file, resolve_member

Array = np.ndarray[Any, Any]
Piece = tuple[Array, ...]

# Rows in any order are taken from a mapping of what is no larger than this; of larger files they
# are read one by one, for Linux maps much more around each than is asked for.
_MAPPED_BYTES = 256 << 20
# What is mapped counts as this process's memory until it is given back.
_GIVE_BACK_BYTES = 128 << 20
_MAPPED_AROUND_BYTES = 1 << 16


def open_rows(kind: FileFormat, path: str, members: Sequence[str]) -> Rows:
    """Open a data file of any format to read its rows.

    Args:
        kind: The format, whatever the file's name says.
        path: The file.
        members: One for each column; the empty name for the only member of a file.

    Raises:
        EnvironmentFaultError: File or member are missing, damaged or cut short, hold Python
            objects, have no rows, or members differ in length.
    """
    require_file(path)
    module = format_module(kind)
    rows: Rows
    try:
        rows = module.open_file(path, tuple(members))
    except EnvironmentFaultError as error:
        return open_fields(module, path, members, error)
    return rows


class Column(Struct, frozen=True):
    """One column of rows of a data file: the dtype and shape of a row.

    Of a ragged column the first axis is as long as memory should reckon with for a row.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        """Return the size in bytes of one row of this ``Column`` when ``Rows`` are read."""
        return self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))


class Rows(Protocol):
    """Rows of several columns, of any format. One thread at a time."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the name, dtype and shape of each column of the open rows of a data file."""

    def __len__(self) -> int:
        """Return the number of rows in the data file."""

    def take(self, start: int, stop: int) -> Piece:
        """Read rows ``start`` to ``stop - 1`` of a data file of any format, column by column.

        The memory is the caller's own.

        Raises:
            EnvironmentFaultError: The file cannot be read, or not any more.
        """

    def pick(self, rows: Array) -> Piece:
        """Read rows of a data file of any format by row numbers, in the order given."""

    def close(self) -> None:
        """Close the data file of any format from which ``Rows`` are read."""


def common_length(path: str, lengths: Sequence[tuple[str, int]]) -> int:
    """Return the number of rows that all columns have; raise E288 if their lengths differ.

    Raises:
        EnvironmentFaultError: E288, they differ.
    """
    first, length = lengths[0]
    for name, other in lengths[1:]:
        if other != length:
            raise faults.uneven(path, (first, length), (name, other))
    return length


def sort_rows(rows: Array) -> tuple[Array, Array]:
    """Sort requested row numbers into file order; return them, and where each one went."""
    order = np.argsort(rows, kind="stable")
    positions = np.empty_like(order)
    positions[order] = np.arange(len(order))
    return rows[order], positions


def restore_order(piece: Piece, positions: Array) -> Piece:
    """Reorder rows that were read in file order to the order in which they were requested."""
    return tuple(column.take(positions, axis=0) for column in piece)


def open_fields(
    module: Any, path: str, members: Sequence[str], error: EnvironmentFaultError
) -> Rows:
    """Open a data file with rows of a structured dtype, to read some fields as columns."""
    parts = []
    bases: dict[str, int] = {}
    for member in members:
        base, fields = resolve_member(path, member, error)
        parts.append((bases.setdefault(base, len(bases)), fields))
    if list(bases) == list(members):
        raise error
    rows: Rows = module.open_file(path, tuple(bases))
    try:
        wrapped: Rows = FieldRows(rows, parts, members)
    except BaseException:
        rows.close()
        raise
    return wrapped


class FieldRows:
    """Rows whose columns are fields cut out of records, or whole columns.

    Args:
        rows: Whatever reads the records.
        parts: For each column the number of the record's column, and the fields inside it.
        names: What the columns are called.
    """

    def __init__(
        self, rows: Rows, parts: Sequence[tuple[int, tuple[str, ...]]], names: Sequence[str]
    ) -> None:
        self._rows = rows
        self._parts = tuple(parts)
        self.columns = tuple(
            _column(name, rows.columns[number], fields)
            for name, (number, fields) in zip(names, parts, strict=True)
        )

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, start: int, stop: int) -> Piece:
        """Read consecutive rows; return only the requested fields of their structured dtype."""
        return self._chosen(self._rows.take(start, stop))

    def pick(self, rows: Array) -> Piece:
        """Read rows by row numbers; return only the requested fields of their structured dtype."""
        return self._chosen(self._rows.pick(rows))

    def close(self) -> None:
        """Close the data file with rows of a structured dtype."""
        self._rows.close()

    def _chosen(self, piece: Piece) -> Piece:
        return tuple(extract_field(piece[number], fields) for number, fields in self._parts)


def extract_field(records: Array, fields: Sequence[str]) -> Array:
    """Copy a nested field out of rows that were read, which have a structured dtype."""
    if not fields:
        return records
    for name in fields:
        records = records[name]
    return np.array(records, order="C")


def _column(name: str, records: Column, fields: Sequence[str]) -> Column:
    sample = extract_field(np.empty((0, *records.shape), records.dtype), fields)
    return Column(name, sample.dtype, tuple(sample.shape[1:]))


class Extent(Struct, frozen=True):
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
        self._names = names or tuple(
            part.member if isinstance(part, Extent) else "" for part in parts
        )
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
        """Return the name, dtype and row shape of each contiguous array to read rows from."""
        return self._columns

    def __len__(self) -> int:
        return self._length

    @property
    def is_indexable(self) -> bool:
        """Return whether all arrays whose rows are read are in memory, or can be mapped to memory.

        Then any of the rows can be had by indexing.
        """
        return all(source.is_indexable for source in self._sources)

    def take(self, start: int, stop: int) -> Piece:
        """Read consecutive rows of each array of an open data file, or in memory."""
        return tuple(source.take(start, stop) for source in self._sources)

    def pick(self, rows: Array) -> Piece:
        """Read rows of each array, in a file or in memory, by row numbers in the order given."""
        return tuple(source.pick(rows) for source in self._sources)

    def close(self) -> None:
        """Close the file with the contiguous arrays whose rows were read."""
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
        """Return whether an array in a file is small enough (256 MiB) to map its rows to memory."""
        return self._row_bytes * self._extent.shape[0] <= _MAPPED_BYTES

    def take(self, start: int, stop: int) -> Array:
        """Read consecutive rows of an array that lies contiguously in a file."""
        if self._extent.fortran and len(self._extent.shape) > 1:
            mapped = self._mapped()[start:stop].copy("C")
            self._release_pages(mapped.nbytes)
            return np.asarray(mapped)
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
            picked = np.ascontiguousarray(self._mapped()[rows])
            self._release_pages(len(rows) * _MAPPED_AROUND_BYTES)
            return picked
        picked = np.empty((len(rows), *extent.shape[1:]), extent.dtype)
        if picked.nbytes:
            self._gather(rows, _as_bytes(picked))
        return picked

    def _gather(self, rows: Array, target: Array) -> None:
        """Read rows of an array as bytes, by the offsets at which they begin in the file."""
        extent = self._extent
        if self.is_indexable:
            # The rows are known to be in bounds. numpy's own check would make a copy.
            self._mapped().take(rows, axis=0, out=target, mode="clip")
            return
        # Read the file once in its own order, and put each row where it was requested.
        order = np.argsort(rows, kind="stable")
        for at, row in zip(order.tolist(), rows[order].tolist(), strict=True):
            self._fill(target[at : at + 1], extent.offset + row * self._row_bytes)

    def close(self) -> None:
        """Release the memory mapping of an array whose rows were read from a file."""
        self._map = self._rows = None

    def _fill(self, rows: Array, offset: int) -> None:
        view = _as_bytes(rows).reshape(-1).data
        while view:
            count = read_into(self._file, [view], offset)
            if count == 0:
                raise self._cut_short()
            view = view[count:]
            offset += count

    def _mapped(self) -> Any:
        """Map an array in a file to memory, and return the mapping to read rows from.

        In C order each of its rows is a row of raw bytes.
        """
        if self._map is None:
            extent = self._extent
            if extent.fortran and len(extent.shape) > 1:
                self._map = np.memmap(
                    self._path, extent.dtype, "r", extent.offset, extent.shape, "F"
                )
            else:
                shape = (extent.shape[0], self._row_bytes)
                self._map = np.memmap(self._path, np.uint8, "r", extent.offset, shape)
                # Rows will be read in random order: prefetch the file in its own order.
                self._map._mmap.madvise(mmap.MADV_WILLNEED)
            # A plain array over the mapping: each use of ``np.memmap`` costs more.
            self._rows = np.asarray(self._map)
        return self._rows

    def _release_pages(self, touched_bytes: int) -> None:
        """Release the mapped memory of an array's rows after 128 MiB of them were read."""
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
