"""Open the rows of data files of any format, to be read in order or in any order.

The rows of a file are the first axis of its members, all of one length; a nested field of rows of a
structured dtype is a column of its own. A piece is read into memory of its own, so a file may be
larger than memory:

=========== ====================================== ==========================================
format      rows in order                          rows in any order
=========== ====================================== ==========================================
npy, npz    read into place, without a mapping     mapped up to 256 MiB, else read row by row
hdf5        as npy where the dataset is one piece; chunk by chunk where it is not
parquet     row group by row group                 the same, some row groups kept
csv, tsv    line by line                           by an index: 8 bytes of memory per line
=========== ====================================== ==========================================

A compressed member of an npz file is read whole, up to 1 GiB; a larger one is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.file_formats import FileFormat
from jobrun.core.lazy_dataclass import dataclass
from jobrun.formats import errors as faults
from jobrun.formats.headers import format_module, require_file, resolve_member

Array = np.ndarray[Any, Any]
Piece = tuple[Array, ...]


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


@dataclass(frozen=True, slots=True)
class Column:
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
        """Return name, dtype and row shape of each requested column of the rows of a data file."""

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
    """Return the number of rows of columns that are read together; refuse unequal ones (E288).

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
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return rows[order], place


def restore_order(piece: Piece, place: Array) -> Piece:
    """Put rows that were read in file order into the order in which they were requested."""
    return tuple(column.take(place, axis=0) for column in piece)


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
        """Read consecutive rows of a structured dtype, and cut the wanted nested fields out."""
        return self._chosen(self._rows.take(start, stop))

    def pick(self, rows: Array) -> Piece:
        """Read rows of a structured dtype by row numbers, and cut the wanted nested fields out."""
        return self._chosen(self._rows.pick(rows))

    def close(self) -> None:
        """Close the data file with rows of a structured dtype."""
        self._rows.close()

    def _chosen(self, piece: Piece) -> Piece:
        return tuple(extract_field(piece[number], fields) for number, fields in self._parts)


def extract_field(records: Array, fields: Sequence[str]) -> Array:
    """Copy a nested field out of rows of a structured dtype."""
    if not fields:
        return records
    for name in fields:
        records = records[name]
    return np.array(records, order="C")


def _column(name: str, records: Column, fields: Sequence[str]) -> Column:
    sample = extract_field(np.empty((0, *records.shape), records.dtype), fields)
    return Column(name, sample.dtype, tuple(sample.shape[1:]))
