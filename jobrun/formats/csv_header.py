"""Read the header line of csv and tsv files: delimiters, names and positions of columns."""

from __future__ import annotations

import csv
from pathlib import Path

from jobrun.core.file_formats import suffix_of
from jobrun.formats import errors as faults

_FIRST_LINE_BYTES = 1 << 20
DELIMITERS = {".csv": ",", ".tsv": "\t"}


def csv_columns(path: str) -> tuple[str, ...] | None:
    """Return the column names in a csv header line, or None if the first line is data.

    It is data when each of its fields is a number or empty.

    Raises:
        EnvironmentFaultError: The file is empty, or not text.
    """
    first = first_fields(path)
    if all(_is_number(field) or not field.strip() for field in first):
        return None
    return tuple(field.strip() for field in first)


def first_fields(path: str) -> list[str]:
    """Return the fields of a csv file's first line that is not empty: maybe its header line.

    Raises:
        EnvironmentFaultError: The file is empty, or not text.
    """
    delimiter = DELIMITERS[suffix_of(path)]
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            lines = file.readlines(_FIRST_LINE_BYTES)
        fields = next(filter(None, csv.reader(lines, delimiter=delimiter)), None)
    except (OSError, ValueError, csv.Error) as error:
        raise faults.unreadable(path, error) from error
    if fields is None:
        raise faults.unreadable(path, "it is empty")
    if any("\0" in field for field in fields):
        raise faults.unreadable(path, "it is not text")
    return fields


def choose_columns(path: str, member: str, names: tuple[str, ...]) -> tuple[int, ...]:
    """Return the positions in a csv header line of the columns that a member's name lists.

    Raises:
        EnvironmentFaultError: There is no such column.
    """
    wanted = [member] if member in names else [part.strip() for part in member.split(",")]
    for name in wanted:
        if name not in names:
            raise faults.missing_member(path, name, names)
    return tuple(names.index(name) for name in wanted)


def column_names(path: str) -> tuple[str, ...]:
    """Return the column names in a csv header line, or the columns' positions without one."""
    return csv_columns(path) or tuple(str(place) for place in range(len(first_fields(path))))


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    # Python takes 1_000 for a number; a table does not.
    return "_" not in field
