"""Rows of HDF5 datasets; what may be read of a file at all is ``hdf5``'s matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import h5py
import numpy as np

from jobrun.formats import faults, hdf5
from jobrun.formats.row_arrays import ArrayRows, Extent
from jobrun.formats.rows import (
    Array,
    Column,
    Piece,
    Rows,
    common_length,
    in_file_order,
    put_back,
)

# libhdf5 keeps chunks that it has unpacked; more of them help rows in any order.
_CACHE_BYTES = 64 << 20


def open_file(path: str, members: tuple[str, ...]) -> Rows:
    """The rows of datasets; see ``rows.open_rows``."""
    with hdf5.opened(path) as file:
        extents = [_extent(hdf5.row_dataset(file, path, member), member) for member in members]
    whole = [one for one in extents if one is not None]
    if len(whole) == len(members):
        return ArrayRows(path, tuple(whole))
    return _Chunked(path, members)


def _extent(dataset: h5py.Dataset, member: str) -> Extent | None:
    """Where the dataset lies, if it lies there in one piece, as numpy would have it."""
    offset = dataset.id.get_offset()
    plain = dataset.id.get_type().equal(h5py.h5t.py_create(dataset.dtype))
    if offset is None or not plain or hdf5.is_text(dataset):
        return None
    return Extent(member, dataset.dtype, tuple(dataset.shape), offset)


class _Chunked:
    """Rows of datasets that libhdf5 has to put together."""

    def __init__(self, path: str, members: tuple[str, ...]) -> None:
        self._path = path
        try:
            self._file = h5py.File(path, "r", locking="best-effort", rdcc_nbytes=_CACHE_BYTES)
        except hdf5.ERRORS as error:
            raise faults.unreadable(path, error) from error
        try:
            self._datasets = [hdf5.row_dataset(self._file, path, member) for member in members]
            lengths = [
                (member, _length(path, member, dataset))
                for member, dataset in zip(members, self._datasets, strict=True)
            ]
            self._length = common_length(path, lengths)
        except BaseException:
            self._file.close()
            raise
        self._columns = tuple(
            Column(name, _dtype(one), tuple(one.shape[1:]))
            for name, one in zip(members, self._datasets, strict=True)
        )

    @property
    def columns(self) -> tuple[Column, ...]:
        """Dtype and shape of a row, by column."""
        return self._columns

    def __len__(self) -> int:
        return self._length

    def take(self, start: int, stop: int) -> Piece:
        """Rows in order."""
        return self._read(lambda dataset: dataset[start:stop])

    def pick(self, rows: Array) -> Piece:
        """Rows in any order; libhdf5 wants each once, in its order."""
        ordered, place = in_file_order(rows)
        unique, back = np.unique(ordered, return_inverse=True)
        return put_back(self._read(lambda dataset: dataset[unique][back]), place)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read(self, read: Callable[[Any], Array]) -> Piece:
        try:
            return tuple(
                _plain(np.asarray(read(dataset)), column)
                for dataset, column in zip(self._datasets, self._columns, strict=True)
            )
        except hdf5.ERRORS as error:
            raise faults.unreadable(self._path, error) from error


def _length(path: str, member: str, dataset: h5py.Dataset) -> int:
    if not dataset.shape:
        raise faults.no_rows(path, member)
    return int(dataset.shape[0])


def _dtype(dataset: h5py.Dataset) -> np.dtype[Any]:
    """That of its rows; text in UTF-8 has at most as many characters as bytes."""
    return np.dtype(f"<U{dataset.dtype.itemsize}" if hdf5.is_text(dataset) else dataset.dtype)


def _plain(found: Array, column: Column) -> Array:
    if found.dtype == column.dtype:
        return found
    return np.char.decode(found, "utf-8").astype(column.dtype)
