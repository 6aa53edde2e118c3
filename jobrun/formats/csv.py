"""Read and write csv and tsv tables by columns; values are kept, dtypes are not.

Fields are quoted as RFC 4180 has it; the first line names the columns unless all of it is
numbers. A column of integers is int64; of numbers (an empty field is NaN) float64; else text.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from jobrun.core.file_formats import suffix_of
from jobrun.formats import errors as faults
from jobrun.formats.csv_header import DELIMITERS, choose_columns, column_names, csv_columns

Array = np.ndarray[Any, Any]


def read_table(path: str, member: str) -> Array:
    """Read one column (shape (rows,)) of a csv table, or several (shape (rows, columns)).

    Args:
        path: The file.
        member: A column's name, several with commas between, or empty for all. Where the
            first line is data, names are places: ``0``, ``1``, …

    Raises:
        EnvironmentFaultError: A column is not there, the lines have different lengths, or
            columns of a matrix are not all numbers.
    """
    names = column_names(path)
    places = choose_columns(path, member, names) if member else tuple(range(len(names)))
    rows = _rows(path, len(names))
    columns = [convert_column([row[place] for _, row in rows]) for place in places]
    if member and len(places) == 1:
        return columns[0]
    for place, column in zip(places, columns, strict=True):
        if column.dtype.kind == "U":
            raise _not_numbers(path, names[place], [(line, row[place]) for line, row in rows])
    return np.stack(columns, axis=1) if columns else np.zeros((len(rows), 0))


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


def convert_column(fields: list[str]) -> Array:
    """Convert the fields of a csv column to int64 or float64 if all are numbers, else text."""
    if not any("_" in field for field in fields):
        for convert in (_integers, _floats):
            try:
                return convert(fields)
            except (ValueError, OverflowError):
                continue
    return np.array(fields, np.str_)


def _integers(fields: list[str]) -> Array:
    if not fields:
        raise ValueError
    return np.array([int(field) for field in fields], np.int64)


def _floats(fields: list[str]) -> Array:
    return np.array([float(field) if field.strip() else np.nan for field in fields], np.float64)


def _not_numbers(path: str, name: str, fields: list[tuple[int, str]]) -> Exception:
    for line, field in fields:
        if convert_column([field]).dtype.kind == "U":
            return faults.unreadable(
                path, f"line {line}, column '{name}': '{field[:40]}' is not a number"
            )
    return faults.unreadable(path, f"column '{name}' is not all numbers")


def _block(path: str, name: str, array: Array) -> Array:
    if array.dtype.kind not in "biufU" or (array.ndim > 2 if not name else array.ndim > 1):
        raise faults.unwritable(
            path,
            name,
            f"a table cannot hold {array.dtype} of shape {array.shape}",
            "save it to an .npy or .h5 file",
        )
    return array.reshape(len(array), -1) if array.ndim else array.reshape(1, 1)
