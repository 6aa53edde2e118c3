"""Read and write csv and tsv tables, by columns or row by row; values are kept, dtypes are not.

Fields are quoted as RFC 4180 has it; the first line names the columns unless all of it is
numbers. A column of integers is int64; of numbers (an empty field is NaN) float64; else text.
Rows of a table above 64 MiB are read by an index that is made in one pass over the file; that pass
also decides the dtype of each column, which therefore is the same in every piece: text is as wide
as the widest field.
"""

from __future__ import annotations

import csv
import io
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Literal

import numpy as np
from msgspec import Struct

from jobrun.core.file_formats import suffix_of
from jobrun.formats import errors as faults
from jobrun.formats.csv_header import DELIMITERS, choose_columns, column_names, csv_columns
from jobrun.formats.csv_parser import convert_fields, parse_columns
from jobrun.formats.rows import (
    Array,
    ArrayRows,
    Column,
    Piece,
    Rows,
    restore_order,
    sort_rows,
)

Kind = Literal["integer", "float", "text"]
# When the index has this many places, every second one is dropped: 32 MiB at most.
MOST_PLACES = 1 << 22
_ROWS_AT_ONCE = 1 << 12
# Tables that are read into memory as a whole: a number of two characters takes eight bytes.
_MOST_FILE_BYTES, _MOST_BYTES = 1 << 26, 1 << 28
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_table(path: str, member: str) -> Array:
    """Read one column of a csv table as a vector, or several columns as a matrix.

    Args:
        path: The file.
        member: A column's name, several with commas between, or empty for all. Where the
            first line is data, names are places: ``0``, ``1``, …

    Raises:
        EnvironmentFaultError: A column is not there, the lines have different lengths, or
            columns of a matrix are not all numbers.
    """
    names = column_names(path)
    numbers = choose_columns(path, member, names) if member else tuple(range(len(names)))
    columns = _read_columns(path, len(names), numbers)
    if member and len(numbers) == 1:
        return columns[0].astype(np.str_) if columns[0].dtype.hasobject else columns[0]
    for number, column in zip(numbers, columns, strict=True):
        if column.dtype.hasobject:
            raise _not_numbers(path, names, number)
    return np.stack(columns, axis=1)


def write_table(file: IO[bytes], path: str, columns: Mapping[str, Array]) -> None:
    """Write named columns as a csv table, or one unnamed matrix without a header line.

    Numbers are written so that reading them gives the same value. One matrix without a
    name gets no line of names.

    Raises:
        TaskFailedError: An array has more axes than a table, or no text for its items, or
            columns have different lengths.
    """
    blocks = {name: _block(path, name, array) for name, array in columns.items()}
    if len({len(block) for block in blocks.values()}) > 1:
        raise faults.unwritable(
            path, "", "its columns have different lengths", "save them to files of their own"
        )
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, delimiter=DELIMITERS[suffix_of(path)], lineterminator="\n")
    if set(blocks) != {""}:
        writer.writerow(list(blocks))
    # ``str`` of a numpy number is the shortest text that gives the same number again.
    for parts in zip(*blocks.values(), strict=True):
        writer.writerow([str(item) for part in parts for item in part])
    text.detach()


def open_file(path: str, members: tuple[str, ...]) -> Rows:
    """Open a csv or tsv table for reading its rows; a small one is read into memory."""
    columns = _load_columns(path, members)
    return TableRows(path, members) if columns is None else ArrayRows(path, columns, members)


def _load_columns(path: str, members: tuple[str, ...]) -> tuple[Array, ...] | None:
    """Load members of a csv table, or return None where they do not fit into 256 MiB of memory.

    None, too, where ``TableRows`` knows better: for a table without rows, or text in a matrix.
    """
    if Path(path).stat().st_size > _MOST_FILE_BYTES:
        return None
    names = column_names(path)
    choices = [
        choose_columns(path, member, names) if member else range(len(names)) for member in members
    ]
    wanted = sorted({number for numbers in choices for number in numbers})
    parsed = dict(zip(wanted, _read_columns(path, len(names), wanted), strict=True))
    loaded = []
    for member, numbers in zip(members, choices, strict=True):
        columns = [parsed[number] for number in numbers]
        if not len(columns[0]):
            return None
        if not member or len(numbers) > 1:
            if any(column.dtype.hasobject for column in columns):
                return None
            loaded.append(np.stack(columns, axis=1))
            continue
        (column,) = columns
        if column.dtype.hasobject:
            width = np.dtype(f"<U{max(1, *map(len, column))}")
            if width.itemsize * len(column) > _MOST_BYTES:
                return None
            column = column.astype(width)
        loaded.append(column)
    return tuple(loaded)


class TableRows:
    """Rows of a csv table; a member is a column, several with commas between, or all if empty."""

    def __init__(self, path: str, members: tuple[str, ...]) -> None:
        self._path = path
        self._delimiter = DELIMITERS.get(suffix_of(path), ",")
        names = column_names(path)
        every = tuple(range(len(names)))
        self._places = [
            choose_columns(path, member, names) if member else every for member in members
        ]
        self._single = [
            bool(member) and len(numbers) == 1
            for member, numbers in zip(members, self._places, strict=True)
        ]
        self._width = len(names)
        self._index = array("q")
        self._stride = 1
        self._length = 0
        self._known = [_Known() for _ in names]
        self._scan(has_names=csv_columns(path) is not None)
        self._columns = tuple(
            self._column(member, numbers, single=single)
            for member, numbers, single in zip(members, self._places, self._single, strict=True)
        )
        self._file: IO[bytes] = Path(path).open("rb")  # noqa: SIM115 - closed by close
        # Sequential reads continue where the last piece ended.
        self._ahead: Iterator[list[str]] = iter(())
        self._next = -1

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the name, dtype and row shape of each column read from the csv table."""
        return self._columns

    def __len__(self) -> int:
        return self._length

    def take(self, start: int, stop: int) -> Piece:
        """Read a range of consecutive rows of a csv table."""
        if start != self._next:
            self._ahead = self._rows_from(start)
        self._next = stop
        rows = list(islice(self._ahead, stop - start))
        if len(rows) < stop - start:
            raise self._changed()
        return self._piece(rows)

    def pick(self, rows: Array) -> Piece:
        """Read rows of a csv table by row numbers, in the order given."""
        ordered, positions = sort_rows(rows)
        rows_of_fields: list[list[str]] = []
        # ``at`` is the next row of ``ahead``. The first request is always out of its reach.
        at, ahead = -self._stride, iter(())  # type: tuple[int, Iterator[list[str]]]
        for row in ordered.tolist():
            if rows_of_fields and row == at - 1:
                rows_of_fields.append(rows_of_fields[-1])
                continue
            if not at <= row < at + self._stride:
                at, ahead = row, self._rows_from(row)
            skipped = row - at
            at = row + 1
            fields = next(islice(ahead, skipped, None), None)
            if fields is None:
                raise self._changed()
            rows_of_fields.append(fields)
        self._next = -1
        return restore_order(self._piece(rows_of_fields), positions)

    def close(self) -> None:
        """Close the csv file whose rows were read."""
        self._file.close()

    def _column(self, member: str, numbers: tuple[int, ...], *, single: bool) -> Column:
        if single:
            return Column(member, self._known[numbers[0]].dtype, ())
        kinds = [self._known[number] for number in numbers]
        for number, known in zip(numbers, kinds, strict=True):
            if known.kind == "text":
                name = column_names(self._path)[number]
                raise faults.no_column(self._path, name, "it is text, in a matrix of numbers")
        floats = any(known.kind == "float" for known in kinds)
        return Column(member, np.dtype(np.float64 if floats else np.int64), (len(numbers),))

    def _scan(self, *, has_names: bool) -> None:
        """Scan a whole csv table once: index its lines, and find out each column's dtype."""
        try:
            with Path(self._path).open("rb") as file:
                rows: list[list[str]] = []
                for number, (line, offset, fields) in enumerate(self._parsed(file)):
                    if number == 0 and has_names:
                        continue
                    if len(fields) != self._width:
                        why = f"line {line} has {len(fields)} fields, expected {self._width}"
                        raise faults.unreadable(self._path, why)
                    self._note(offset)
                    rows.append(fields)
                    if len(rows) == _ROWS_AT_ONCE:
                        self._learn(rows)
                        rows.clear()
                self._learn(rows)
        except (OSError, ValueError, csv.Error) as error:
            raise faults.unreadable(self._path, error) from error

    def _parsed(self, file: IO[bytes]) -> Iterator[tuple[int, int, list[str]]]:
        """Iterate over a csv file's rows to index them: line number, offset, fields of each."""
        offset, waiting = 0, b""
        for number, line in enumerate(file, 1):
            waiting += line
            # A line break inside quotes belongs to the field.
            if waiting.count(b'"') % 2:
                continue
            fields = self._fields(waiting)
            if fields:
                yield number, offset, fields
            offset += len(waiting)
            waiting = b""
        if waiting:
            raise faults.unreadable(self._path, "a quoted field does not end")

    def _fields(self, line: bytes) -> list[str]:
        text = line.removeprefix(_BYTE_ORDER_MARK).decode()
        if '"' not in text:
            text = text.rstrip("\r\n")
            return text.split(self._delimiter) if text else []
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter, strict=True)
        return next(reader, [])

    def _note(self, offset: int) -> None:
        if self._length % self._stride == 0:
            self._index.append(offset)
            if len(self._index) > MOST_PLACES:
                self._index = self._index[::2]
                self._stride *= 2
        self._length += 1

    def _learn(self, rows: list[list[str]]) -> None:
        if rows:
            wanted = sorted({number for numbers in self._places for number in numbers})
            for number in wanted:
                self._known[number].see([row[number] for row in rows])

    def _rows_from(self, row: int) -> Iterator[list[str]]:
        if row >= self._length:
            return iter(())
        self._file.seek(self._index[row // self._stride])
        ahead = (fields for _, _, fields in self._parsed(self._file))
        for _ in range(row % self._stride):
            next(ahead, None)
        return ahead

    def _piece(self, rows: list[list[str]]) -> Piece:
        try:
            return tuple(
                self._values(rows, column, places)
                for column, places in zip(self._columns, self._places, strict=True)
            )
        except (ValueError, IndexError, OverflowError) as error:
            raise self._changed() from error

    @staticmethod
    def _values(rows: list[list[str]], column: Column, numbers: tuple[int, ...]) -> Array:
        values = np.empty((len(rows), *column.shape), column.dtype)
        flat = values.reshape(len(rows), len(numbers))
        for at, number in enumerate(numbers):
            fields = [row[number] for row in rows]
            if column.dtype.kind == "f":
                flat[:, at] = [float(field) if field.strip() else np.nan for field in fields]
            elif column.dtype.kind == "i":
                flat[:, at] = [int(field) for field in fields]
            else:
                flat[:, at] = fields
        return values

    def _changed(self) -> Exception:
        return faults.unreadable(self._path, "it has changed since it was opened")


def _read_columns(path: str, width: int, numbers: Sequence[int]) -> list[Array]:
    """Read columns of a whole csv table, as ``convert_fields`` returns them."""
    delimiter = DELIMITERS[suffix_of(path)]
    try:
        text = Path(path).read_bytes()
        has_names = csv_columns(path) is not None
        columns = parse_columns(
            text, _first_row(text) if has_names else 0, delimiter, width, numbers
        )
    except (OSError, ValueError) as error:
        raise faults.unreadable(path, error) from error
    if columns is not None:
        return columns
    rows = _rows(path, width)
    return [convert_fields([row[number] for _, row in rows]) for number in numbers]


def _first_row(text: bytes) -> int:
    """Return the offset behind the first line with content, which holds no quoted line break."""
    start = len(_BYTE_ORDER_MARK) if text.startswith(_BYTE_ORDER_MARK) else 0
    while text[start : start + 1] in {b"\r", b"\n"}:
        start += 1
    return text.find(b"\n", start) + 1 or len(text)


def _rows(path: str, width: int) -> list[tuple[int, list[str]]]:
    """Return a csv file's lines of data, each with its line number and its fields."""
    named = csv_columns(path) is not None
    rows: list[tuple[int, list[str]]] = []
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=DELIMITERS[suffix_of(path)], strict=True)
            rows.extend((reader.line_num, row) for row in reader if row)
    except (OSError, ValueError, csv.Error) as error:
        raise faults.unreadable(path, error) from error
    for line, row in rows:
        if len(row) != width:
            raise faults.unreadable(path, f"line {line} has {len(row)} fields, expected {width}")
    return rows[1:] if named else rows


def _not_numbers(path: str, names: tuple[str, ...], number: int) -> Exception:
    for line, row in _rows(path, len(names)):
        if convert_fields([row[number]]).dtype.hasobject:
            return faults.unreadable(
                path, f"line {line}, column '{names[number]}': '{row[number][:40]}' is not a number"
            )
    return faults.unreadable(path, f"column '{names[number]}' is not all numbers")


def _block(path: str, name: str, array: Array) -> Array:
    if array.dtype.kind not in "biufU" or (array.ndim > 2 if not name else array.ndim > 1):
        raise faults.unwritable(
            path,
            name,
            f"a table cannot hold {array.dtype} of shape {array.shape}",
            "save it to an .npy or .h5 file",
        )
    return array if array.ndim == 2 else array.reshape(-1, 1)


class _Known(Struct):
    """What has been seen of one csv column so far."""

    kind: Kind = "integer"
    width: int = 1

    def see(self, fields: list[str]) -> None:
        """Update the dtype inferred for a csv column by its fields in further rows."""
        self.width = max(self.width, *map(len, fields))
        kind = convert_fields(fields).dtype.kind if self.kind != "text" else "O"
        if kind == "O":
            self.kind = "text"
        elif kind == "f":
            self.kind = "float"

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Return the dtype that can hold a csv column's fields of every row indexed so far."""
        if self.kind == "text":
            return np.dtype(f"<U{self.width}")
        return np.dtype(np.int64 if self.kind == "integer" else np.float64)
