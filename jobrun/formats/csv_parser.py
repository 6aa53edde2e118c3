"""Parse lines of a csv table into columns, with pyarrow where that gives what Python gives.

A result never depends on whether pyarrow is installed: values, dtypes and bits are those of
Python's ``csv``, ``int`` and ``float``. pyarrow parses only what it understands in the same way: no
quotes, no NUL, line breaks that end with a line feed, no hexadecimal numbers, no ``+5``. What it
takes for neither an integer nor a float, such as a date, is converted by Python from its text.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# pyarrow takes about 0.1 s to import: as long as csv takes for this many bytes.
_SMALL_BYTES = 1 << 20


def parse_columns(
    text: bytes, start: int, delimiter: str, width: int, wanted: Sequence[int]
) -> list[Array] | None:
    """Parse a csv table with pyarrow; return one vector for each wanted column.

    Args:
        text: UTF-8. Empty lines are skipped.
        start: Where the first row begins, in bytes.
        delimiter: One character.
        width: Fields of each line.
        wanted: The columns' numbers.

    Returns:
        As ``convert_fields`` returns them; None where Python has to parse the lines: pyarrow is not
        installed, might find other values, or finds a fault, whose line Python can name.

    Raises:
        UnicodeDecodeError: They are not UTF-8.
    """
    if len(text) < _SMALL_BYTES or not _has_arrow() or not _is_plain(text):
        return None
    arrow = importlib.import_module("pyarrow")
    # Not a copy.
    rows = arrow.py_buffer(text).slice(start)
    try:
        columns = _read(arrow, rows, delimiter, width, dict.fromkeys(wanted))
        unclear = {
            column: arrow.float64() if parsed.type == arrow.int64() else arrow.string()
            for column, parsed in columns.items()
            if not _is_clear(arrow, parsed)
        }
        if unclear:
            columns |= _read(arrow, rows, delimiter, width, unclear)
        return [_as_array(arrow, columns[column]) for column in wanted]
    except arrow.ArrowInvalid:
        return None


def convert_fields(fields: list[str]) -> Array:
    """Convert the fields of a csv column to int64 or float64 if all are numbers, else text.

    Text is an array of objects: one long text would widen all others.
    """
    if not any("_" in field for field in fields):
        for convert in (_integers, _floats):
            try:
                return convert(fields)
            except (ValueError, OverflowError):
                continue
    return np.array(fields, np.object_)


def _integers(fields: list[str]) -> Array:
    if not fields:
        raise ValueError
    return np.array([int(field) for field in fields], np.int64)


def _floats(fields: list[str]) -> Array:
    return np.array([float(field) if field.strip() else np.nan for field in fields], np.float64)


def _is_clear(arrow: Any, parsed: Any) -> bool:
    """Return whether pyarrow's own choice of a dtype is ours; integers with gaps are floats."""
    if parsed.type == arrow.int64():
        return not parsed.null_count
    return bool(parsed.type == arrow.float64())


def _read(
    arrow: Any, rows: Any, delimiter: str, width: int, types: Mapping[int, Any]
) -> dict[int, Any]:
    """Read columns of a type each, or of the one that pyarrow chooses for None."""
    reader = importlib.import_module("pyarrow.csv")
    names = {str(column): kind for column, kind in types.items()}
    table = reader.read_csv(
        arrow.BufferReader(rows),
        reader.ReadOptions(column_names=[str(column) for column in range(width)]),
        reader.ParseOptions(delimiter=delimiter, quote_char=False),
        reader.ConvertOptions(
            column_types={name: kind for name, kind in names.items() if kind is not None},
            include_columns=list(names),
            null_values=[""],
            true_values=[],
            false_values=[],
            strings_can_be_null=False,
        ),
    )
    return {column: table.column(str(column)) for column in types}


def _as_array(arrow: Any, parsed: Any) -> Array:
    if parsed.type == arrow.string():
        return convert_fields(parsed.to_pylist())
    values: Array = parsed.to_numpy()
    if values.dtype.kind == "f" and np.isnan(values).sum() != parsed.null_count:
        raise arrow.ArrowInvalid("a field says nan; which one, Python decides")
    return values if values.flags.writeable else values.copy()


def _is_plain(lines: bytes) -> bool:
    """Return whether pyarrow and Python find the same fields and numbers in these lines.

    Raises:
        ValueError: They are not UTF-8.
    """
    if not lines.isascii():
        lines.decode()
    # One byte is found much faster than two, and most tables of numbers have none of these.
    return not (
        b'"' in lines
        or b"\0" in lines
        or (b"\r" in lines and lines.count(b"\r") != lines.count(b"\r\n"))
        or (b"x" in lines and b"0x" in lines)
        or (b"X" in lines and b"0X" in lines)
        # A sign outside an exponent: pyarrow parses +5 as a float.
        or (b"+" in lines and lines.count(b"+") != lines.count(b"e+") + lines.count(b"E+"))
    )


@cache
def _has_arrow() -> bool:
    return importlib.util.find_spec("pyarrow") is not None
