"""Read nested fields of rows of a structured dtype, each as a column of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jobrun.core.errors import EnvironmentFaultError
from jobrun.formats.headers import describe_member, split_field_name
from jobrun.formats.rows.rows_protocol import Array, Column, Piece, Rows


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
        """Read rows of a structured dtype in any order, and cut the wanted nested fields out."""
        return self._chosen(self._rows.pick(rows))

    def close(self) -> None:
        """Close the data file with rows of a structured dtype."""
        self._rows.close()

    def _chosen(self, piece: Piece) -> Piece:
        return tuple(extract_field(piece[number], fields) for number, fields in self._parts)


def extract_field(records: Array, fields: Sequence[str]) -> Array:
    """Copy a nested field out of rows of a structured dtype that were read."""
    if not fields:
        return records
    for name in fields:
        records = records[name]
    return np.array(records, order="C")


def _column(name: str, records: Column, fields: Sequence[str]) -> Column:
    sample = extract_field(np.empty((0, *records.shape), records.dtype), fields)
    return Column(name, sample.dtype, tuple(sample.shape[1:]))


def resolve_member(
    path: str, member: str, error: EnvironmentFaultError
) -> tuple[str, tuple[str, ...]]:
    """Resolve a column's name to a member and nested fields of its structured dtype, or raise."""
    if error.faults[0].code != "E281":
        raise error
    try:
        describe_member(path, member)
    except EnvironmentFaultError as missing:
        return split_field_name(path, member, missing)
    return member, ()
