"""Read rows of HDF5 datasets, contiguous or chunked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import h5py
import numpy as np

from jobrun.formats import errors as faults
from jobrun.formats import hdf5
from jobrun.formats.rows.arrays import ArrayRows, Extent
from jobrun.formats.rows.rows_protocol import (
    Array,
    Column,
    Piece,
    Rows,
    common_length,
    restore_order,
    sort_rows,
)

# libhdf5 keeps chunks that it has unpacked; more of them help rows in any order.
_CACHE_BYTES = 64 << 20


def open_file(path: str, members: tuple[str, ...]) -> Rows:
    """Open datasets of an HDF5 file to read rows, as ``open_rows`` does for this format."""
    with hdf5.open_hdf5(path) as file:
        extents = [_extent(hdf5.row_dataset(file, path, member), member) for member in members]
    whole = [one for one in extents if one is not None]
    if len(whole) == len(members):
        return ArrayRows(path, tuple(whole))
    return _Chunked(path, members)


def _extent(dataset: h5py.Dataset, member: str) -> Extent | None:
    """Return where in its file a contiguous HDF5 dataset's rows lie, or None."""
    offset = dataset.id.get_offset()
    plain = dataset.id.get_type().equal(h5py.h5t.py_create(dataset.dtype))
    if offset is None or not plain or hdf5.is_text(dataset):
        return None
    return Extent(member, dataset.dtype, tuple(dataset.shape), offset)


class _Chunked:
    """Rows of HDF5 datasets that libhdf5 has to put together from chunks."""

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
        """Dtype and shape of a row of each HDF5 dataset."""
        return self._columns

    def __len__(self) -> int:
        return self._length

    def take(self, start: int, stop: int) -> Piece:
        """Read consecutive rows of chunked HDF5 datasets."""
        return self._read(lambda dataset: dataset[start:stop])

    def pick(self, rows: Array) -> Piece:
        """Read rows of HDF5 datasets in any order, by an ascending selection without repeats."""
        ordered, place = sort_rows(rows)
        unique, back = np.unique(ordered, return_inverse=True)
        return restore_order(self._read(lambda dataset: dataset[unique][back]), place)

    def close(self) -> None:
        """Close the HDF5 file whose rows were read."""
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
    """Return the dtype of HDF5 rows as a reader gives them: the dataset's, but ``<U`` for text."""
    return np.dtype(f"<U{dataset.dtype.itemsize}" if hdf5.is_text(dataset) else dataset.dtype)


def _plain(found: Array, column: Column) -> Array:
    if found.dtype == column.dtype:
        return found
    return np.char.decode(found, "utf-8").astype(column.dtype)
