"""Read rows of parquet files, by row groups, with pyarrow (extra ``jobrun[parquet]``).

A field of a struct is named after its column, with slashes between: ``user/id``.
"""

from __future__ import annotations

import importlib
from bisect import bisect_right
from collections import OrderedDict
from itertools import accumulate
from typing import Any

import numpy as np

from jobrun.formats import errors as faults
from jobrun.formats.headers import MemberInfo
from jobrun.formats.rows import Array, Column, Piece, restore_order, sort_rows

# Bytes of row groups held in memory. At least one row group is held.
_KEPT_BYTES = 256 << 20


def open_file(path: str, members: tuple[str, ...]) -> ParquetRows:
    """Open a parquet file to read rows of its columns."""
    arrow, file = _opened(path)
    return ParquetRows(path, members, file, arrow)


def members(path: str) -> tuple[str, ...]:
    """Return the names of a parquet file's columns.

    Raises:
        EnvironmentFaultError: The file is damaged, or pyarrow is not installed.
    """
    arrow, file = _opened(path)
    with file:
        return _names(arrow, file.schema_arrow)


def describe(path: str, member: str) -> MemberInfo:
    """Describe a parquet column by the file's schema: dtype (empty for text) and shape.

    Raises:
        EnvironmentFaultError: It is not there, or the file is damaged.
    """
    arrow, file = _opened(path)
    with file:
        kind = _kind(arrow, file.schema_arrow, path, member)
        shape: tuple[int, ...] = (file.metadata.num_rows,)
    if arrow.types.is_fixed_size_list(kind):
        shape, kind = (*shape, kind.list_size), kind.value_type
    if not arrow.types.is_primitive(kind):
        return MemberInfo("", ())
    dtype = np.dtype(kind.to_pandas_dtype())
    return MemberInfo("", ()) if dtype.hasobject else MemberInfo(dtype.str, shape)


def _opened(path: str) -> tuple[Any, Any]:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
        arrow = importlib.import_module("pyarrow")
    except ImportError as error:
        raise faults.needs_extra(path, "pyarrow") from error
    try:
        return arrow, parquet.ParquetFile(path)
    except (arrow.ArrowException, OSError) as error:
        raise faults.unreadable(path, str(error).partition("\n")[0]) from error


def _names(arrow: Any, fields: Any, before: str = "") -> tuple[str, ...]:
    """Return the names of parquet columns, with each struct replaced by its fields."""
    names: list[str] = []
    for field in fields:
        name = f"{before}{field.name}"
        inner = arrow.types.is_struct(field.type)
        names += _names(arrow, field.type, f"{name}/") if inner else [name]
    return tuple(names)


def _split_name(schema: Any, member: str) -> tuple[str, ...]:
    """Split a name into a parquet column and the fields inside it."""
    return (member,) if member in schema.names else tuple(member.split("/"))


def _kind(arrow: Any, schema: Any, path: str, member: str) -> Any:
    """Return the arrow type of a parquet column, or of a field inside the column."""
    column, *fields = _split_name(schema, member)
    if column not in schema.names:
        raise faults.missing_member(path, member, _names(arrow, schema))
    kind = schema.field(column).type
    for name in fields:
        if not arrow.types.is_struct(kind) or kind.get_field_index(name) < 0:
            raise faults.missing_member(path, member, _names(arrow, schema))
        kind = kind.field(name).type
    if arrow.types.is_struct(kind):
        inner = [name for name in _names(arrow, schema) if name.startswith(f"{member}/")]
        raise faults.no_column(path, member, f"it has fields of its own: {', '.join(inner)}")
    return kind


class ParquetRows:
    """Rows of parquet columns; a list of fixed length is one more axis."""

    def __init__(self, path: str, members: tuple[str, ...], file: Any, arrow: Any) -> None:
        self._path = path
        self._members = members
        self._file = file
        self._arrow = arrow
        for member in members:
            _kind(arrow, file.schema_arrow, path, member)
        counts = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
        self._ends = list(accumulate(counts))
        self._kept: OrderedDict[int, Piece] = OrderedDict()
        self._widths = {
            member: self._text_width(member) for member in members if self._is_text(member)
        }
        self._columns = tuple(self._column(member) for member in members)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the name, dtype and row shape of each column read from the parquet file."""
        return self._columns

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def take(self, start: int, stop: int) -> Piece:
        """Read consecutive rows of a parquet file."""
        pieces = []
        while start < stop:
            group = bisect_right(self._ends, start)
            first = self._ends[group - 1] if group else 0
            end = min(stop, self._ends[group])
            whole = self._group(group)
            pieces.append(tuple(column[start - first : end - first] for column in whole))
            start = end
        return self._joined(pieces)

    def pick(self, rows: Array) -> Piece:
        """Read rows of a parquet file by row numbers, in the order given."""
        ordered, positions = sort_rows(rows)
        groups = np.searchsorted(self._ends, ordered, side="right")
        pieces = []
        for group in np.unique(groups).tolist():
            first = self._ends[group - 1] if group else 0
            inside = ordered[groups == group] - first
            pieces.append(tuple(column[inside] for column in self._group(group)))
        return restore_order(self._joined(pieces), positions)

    def close(self) -> None:
        """Close the parquet file whose rows were read."""
        self._kept.clear()
        self._file.close()

    def _joined(self, pieces: list[Piece]) -> Piece:
        if not pieces:
            return tuple(np.empty((0, *column.shape), column.dtype) for column in self._columns)
        return tuple(np.concatenate(parts) for parts in zip(*pieces, strict=True))

    def _group(self, number: int) -> Piece:
        piece = self._kept.get(number)
        if piece is None:
            table = self._read(number, list(self._members))
            piece = tuple(self._array(table, member) for member in self._members)
            self._kept[number] = piece
            while len(self._kept) > 1 and self._kept_bytes() > _KEPT_BYTES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(number)
        return piece

    def _kept_bytes(self) -> int:
        return sum(column.nbytes for piece in self._kept.values() for column in piece)

    def _read(self, number: int, members: list[str]) -> Any:
        ways = (_split_name(self._file.schema_arrow, member) for member in members)
        columns = list(dict.fromkeys(".".join(way) for way in ways))
        try:
            return self._file.read_row_group(number, columns=columns, use_threads=False)
        except (self._arrow.ArrowException, OSError) as error:
            raise faults.unreadable(self._path, str(error).partition("\n")[0]) from error

    def _array(self, table: Any, member: str) -> Array:
        column = self._inside(table, member).combine_chunks()
        kind = column.type
        if self._arrow.types.is_dictionary(kind):
            column = column.dictionary_decode()
        if self._arrow.types.is_fixed_size_list(kind):
            flat = self._plain(column.flatten(), member)
            return flat.reshape(len(column), kind.list_size)
        return self._plain(column, member)

    def _inside(self, table: Any, member: str) -> Any:
        name, *fields = _split_name(self._file.schema_arrow, member)
        column = table.column(name)
        if fields:
            column = importlib.import_module("pyarrow.compute").struct_field(column, fields)
        return column

    def _plain(self, column: Any, member: str) -> Array:
        if column.null_count and not self._arrow.types.is_floating(column.type):
            why = f"{column.null_count} of its values are missing"
            raise faults.no_column(self._path, member, why)
        values: Array = column.to_numpy(zero_copy_only=False)
        if member in self._widths:
            return values.astype(f"<U{self._widths[member]}")
        if values.dtype.hasobject:
            raise faults.no_column(self._path, member, f"it holds {column.type}")
        return np.ascontiguousarray(values)

    def _is_text(self, member: str) -> bool:
        types = self._arrow.types
        kind = _kind(self._arrow, self._file.schema_arrow, self._path, member)
        if types.is_dictionary(kind):
            kind = kind.value_type
        return bool(types.is_string(kind) or types.is_large_string(kind))

    def _text_width(self, member: str) -> int:
        """Return the longest text's length in a parquet column, for a dtype that fits all."""
        width = 1
        for number in range(self._file.num_row_groups):
            texts = self._inside(self._read(number, [member]), member).to_pylist()
            width = max([width, *(len(text) for text in texts if text is not None)])
        return width

    def _column(self, member: str) -> Column:
        if not self._ends or not self._ends[-1]:
            way = _split_name(self._file.schema_arrow, member)
            empty = self._file.schema_arrow.empty_table().select(way[:1])
            sample = self._array(empty, member)
        else:
            sample = self._group(0)[self._members.index(member)]
        return Column(member, sample.dtype, tuple(sample.shape[1:]))
