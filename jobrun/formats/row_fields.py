"""Rows of fields inside records: what ``nested`` locates, read by whatever reads the records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jobrun.formats.rows import Array, Column, Piece, Rows


class FieldRows:
    """Columns out of rows whose columns may be records.

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
        """Rows in order."""
        return self._chosen(self._rows.take(start, stop))

    def pick(self, rows: Array) -> Piece:
        """Rows in any order."""
        return self._chosen(self._rows.pick(rows))

    def close(self) -> None:
        """Close the file."""
        self._rows.close()

    def _chosen(self, piece: Piece) -> Piece:
        return tuple(field_of(piece[number], fields) for number, fields in self._parts)


def field_of(records: Array, fields: Sequence[str]) -> Array:
    """A field inside an array of records, in memory of its own."""
    if not fields:
        return records
    for name in fields:
        records = records[name]
    return np.array(records, order="C")


def _column(name: str, records: Column, fields: Sequence[str]) -> Column:
    sample = field_of(np.empty((0, *records.shape), records.dtype), fields)
    return Column(name, sample.dtype, tuple(sample.shape[1:]))
