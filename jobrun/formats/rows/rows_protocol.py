"""Define the protocol of rows of a data file, and sort row numbers into the order of the file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from jobrun.core.lazy_dataclass import dataclass
from jobrun.formats import errors as faults

Array = np.ndarray[Any, Any]
Piece = tuple[Array, ...]


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
        """How many bytes one row of this ``Column`` takes when ``Rows`` are read into memory."""
        return self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))


class Rows(Protocol):
    """Rows of several columns, of any format. One thread at a time."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that each row has, in the order in which they were requested (protocol)."""

    def __len__(self) -> int:
        """Return the number of rows in the data file (protocol)."""

    def take(self, start: int, stop: int) -> Piece:
        """Read rows ``start`` to ``stop`` of a data file, each column in one array (protocol).

        The memory is the caller's own.

        Raises:
            EnvironmentFaultError: The file cannot be read, or not any more.
        """

    def pick(self, rows: Array) -> Piece:
        """Read rows of a data file by number (int64, shape (n,)), in the order given (protocol)."""

    def close(self) -> None:
        """Close the data file whose rows were read (protocol)."""


def common_length(path: str, lengths: Sequence[tuple[str, int]]) -> int:
    """Return how many rows the arrays read together have; refuse different lengths (E288).

    Raises:
        EnvironmentFaultError: E288, they differ.
    """
    first, length = lengths[0]
    for name, other in lengths[1:]:
        if other != length:
            raise faults.uneven(path, (first, length), (name, other))
    return length


def sort_rows(rows: Array) -> tuple[Array, Array]:
    """Sort requested row numbers into file order for ``Rows``; return also where each belongs."""
    order = np.argsort(rows, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return rows[order], place


def restore_order(piece: Piece, place: Array) -> Piece:
    """Undo ``sort_rows``: put rows read in the file's order into the order asked for."""
    return tuple(column.take(place, axis=0) for column in piece)
