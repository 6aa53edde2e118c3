"""Read the header line of csv and tsv files: the names of their columns; without numpy."""

from __future__ import annotations

from pathlib import Path

from jobrun.core.file_formats import suffix_of
from jobrun.formats import errors as faults

DELIMITERS = {".csv": ",", ".tsv": "\t"}
_FIRST_LINE_BYTES = 1 << 20


def csv_columns(path: str) -> tuple[str, ...] | None:
    """Return the column names from a csv file's header line; None if it has no header.

    It is data when each of its fields is a number or empty.

    Raises:
        EnvironmentFaultError: The file is empty, or not text.
    """
    first = first_fields(path)
    if all(_is_number(field) or not field.strip() for field in first):
        return None
    return tuple(field.strip() for field in first)


def first_fields(path: str) -> list[str]:
    """Read the fields of a csv file's first line with content, which may be its header line.

    Raises:
        EnvironmentFaultError: The file is empty, or not text.
    """
    import csv  # noqa: PLC0415 - for tables only

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


def column_names(path: str) -> tuple[str, ...]:
    """Return a csv file's column names from its header line, or else the numbers 0, 1, …."""
    return csv_columns(path) or tuple(str(number) for number in range(len(first_fields(path))))


def choose_columns(path: str, member: str, names: tuple[str, ...]) -> tuple[int, ...]:
    """Return the positions in a csv file's header line of the columns that ``member`` names.

    Raises:
        EnvironmentFaultError: There is no such column.
    """
    wanted = [member] if member in names else [part.strip() for part in member.split(",")]
    for name in wanted:
        if name not in names:
            raise faults.missing_member(path, name, names)
    return tuple(names.index(name) for name in wanted)


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    # Python takes 1_000 for a number; a table does not.
    return "_" not in field
