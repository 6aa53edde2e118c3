"""Rows of data files, read piece by piece: what a reader needs. Not whole members (``data``).

The rows of a file are the first axis of its members, all of one length. A piece is read into
memory of its own, so a file may be larger than memory:

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

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from jobrun.core.errors import EnvironmentFaultError
from jobrun.formats import faults
from jobrun.formats.headers import describe_member, inside, require_file

Array = np.ndarray[Any, Any]
Piece = tuple[Array, ...]
Format = Literal["npy", "npz", "hdf5", "csv", "parquet"]

# Imported when such a file is first read: h5py and pyarrow take long.
_MODULES: dict[Format, str] = {
    "npy": "row_arrays", "npz": "row_arrays", "hdf5": "row_hdf5", "csv": "row_tables",
    "parquet": "row_parquet",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """One member of a source of rows: the dtype and shape of a row."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        """The memory of one row."""
        return self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))


class Rows(Protocol):
    """Rows of several columns. One thread at a time."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns, in the order in which they were asked for."""

    def __len__(self) -> int:
        """How many rows there are."""

    def take(self, start: int, stop: int) -> Piece:
        """Rows ``start`` to ``stop``, each column stacked along the first axis.

        The memory is the caller's own.

        Raises:
            EnvironmentFaultError: The file cannot be read, or not any more.
        """

    def pick(self, rows: Array) -> Piece:
        """The rows of these numbers (int64, shape (n,)), in their order; as ``take``."""

    def close(self) -> None:
        """Let go of the file."""


def open_rows(kind: Format, path: str, members: Sequence[str]) -> Rows:
    """The rows of a file.

    Args:
        kind: The format, whatever the file's name says.
        path: The file.
        members: One for each column; the empty name for the only member of a file.

    Raises:
        EnvironmentFaultError: File or member are missing, damaged or cut short, hold Python
            objects, have no rows, or members differ in length.
    """
    require_file(path)
    module = importlib.import_module(f"jobrun.formats.{_MODULES[kind]}")
    rows: Rows
    try:
        rows = module.open_file(path, tuple(members))
    except EnvironmentFaultError as error:
        return _open_fields(module, path, members, error)
    return rows


def _open_fields(
    module: Any, path: str, members: Sequence[str], error: EnvironmentFaultError
) -> Rows:
    """Some members are fields inside others; the error again when they are not."""
    parts = []
    bases: dict[str, int] = {}
    for member in members:
        base, fields = whole(path, member, error)
        parts.append((bases.setdefault(base, len(bases)), fields))
    if list(bases) == list(members):
        raise error
    rows: Rows = module.open_file(path, tuple(bases))
    try:
        wrapped: Rows = importlib.import_module("jobrun.formats.row_fields").FieldRows(
            rows, parts, members
        )
    except BaseException:
        rows.close()
        raise
    return wrapped


def whole(path: str, member: str, error: EnvironmentFaultError) -> tuple[str, tuple[str, ...]]:
    """The member that a name means, and the fields inside it; the error when it means none."""
    if error.faults[0].code != "E281":
        raise error
    try:
        describe_member(path, member)
    except EnvironmentFaultError as missing:
        return inside(path, member, missing)
    return member, ()


def common_length(path: str, lengths: Sequence[tuple[str, int]]) -> int:
    """The one length of all members.

    Raises:
        EnvironmentFaultError: E288, they differ.
    """
    first, length = lengths[0]
    for name, other in lengths[1:]:
        if other != length:
            raise faults.ragged(path, (first, length), (name, other))
    return length


def in_file_order(rows: Array) -> tuple[Array, Array]:
    """The rows sorted, and where among them each is: reading goes through the file once."""
    order = np.argsort(rows, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return rows[order], place


def put_back(piece: Piece, place: Array) -> Piece:
    """A piece that was read in the file's order, in the order that was asked for."""
    return tuple(column.take(place, axis=0) for column in piece)
