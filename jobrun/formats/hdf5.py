"""Read and write HDF5 data files: datasets as arrays, or row by row, contiguous or chunked.

Who made a file may have made it lead elsewhere: soft and external links, external
storage, virtual datasets. None of these is followed; the path of a member is walked link
by link, and only hard links are walked.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5l, h5t

from jobrun.core.errors import JobrunError
from jobrun.formats import errors as faults
from jobrun.formats.headers import MemberInfo, choose_member
from jobrun.formats.rows import (
    Array,
    ArrayRows,
    Column,
    Extent,
    Piece,
    Rows,
    common_length,
    restore_order,
    sort_rows,
)

# What h5py raises for a file that is damaged.
ERRORS = (OSError, RuntimeError, ValueError, KeyError, TypeError, OverflowError)
# deflate shrinks zeros by a factor of about 1000. A dataset that claims a higher ratio, or data
# that the file does not have, would exhaust the memory.
_MOST_RATIO = 1100
_ALWAYS_BYTES = 1 << 26
_MOST_LISTED = 1000
# libhdf5 caches decompressed chunks. A larger cache helps when rows are read in random order.
_CACHE_BYTES = 64 << 20


def members(path: str) -> tuple[str, ...]:
    """List the paths of an HDF5 file's datasets, reached by hard links only, at most 1000.

    Raises:
        EnvironmentFaultError: The file is damaged, or no HDF5.
    """
    with open_hdf5(path) as file:
        return tuple(_datasets(file))


def describe(path: str, member: str) -> MemberInfo:
    """Return dtype and shape of an HDF5 file's dataset, the only one if ``member`` is empty.

    Raises:
        EnvironmentFaultError: It is not there, leads elsewhere, or the file is damaged.
    """
    with open_hdf5(path) as file:
        dataset = _dataset(file, path, member)
        dtype = dataset.dtype
        if is_text(dataset):
            return MemberInfo("", ())
        text = dtype.str if dtype.names is None else repr(dtype.descr)
        return MemberInfo(text, tuple(dataset.shape))


def read(path: str, member: str) -> Array:
    """Read an HDF5 dataset as an array; text becomes ``<U``.

    Raises:
        EnvironmentFaultError: It is not there, leads elsewhere, holds what is no plain data,
            promises more than the file has, or the file is damaged.
    """
    with open_hdf5(path) as file:
        dataset = _dataset(file, path, member)
        name = str(dataset.name)
        if is_text(dataset):
            return np.asarray(dataset.asstr()[()], np.str_)
        if dataset.dtype.hasobject:
            raise faults.hostile(path, name, "its items are references or of variable length")
        size = math.prod(dataset.shape) * dataset.dtype.itemsize
        if size > _ALWAYS_BYTES + _MOST_RATIO * dataset.id.get_storage_size():
            raise faults.hostile(path, name, f"it asks for {size} bytes, which it does not have")
        array = np.empty(dataset.shape, dataset.dtype)
        if array.size:
            dataset.read_direct(array)
        return array


def row_dataset(file: h5py.File, path: str, member: str) -> h5py.Dataset:
    """Look up a dataset in an HDF5 file; refuse one whose items have no fixed length.

    Raises:
        EnvironmentFaultError: It is not there, leads elsewhere, or holds other things.
    """
    dataset = _dataset(file, path, member)
    if dataset.dtype.hasobject:
        raise faults.no_column(path, str(dataset.name), "its items have no fixed length")
    return dataset


def open_file(path: str, members: tuple[str, ...]) -> Rows:
    """Open datasets of an HDF5 file to read their rows."""
    with open_hdf5(path) as file:
        extents = [_extent(row_dataset(file, path, member), member) for member in members]
    whole = [extent for extent in extents if extent is not None]
    if len(whole) == len(members):
        return ArrayRows(path, tuple(whole))
    return _Chunked(path, members)


def render_hdf5(arrays: Mapping[str, Array], path: str) -> memoryview:
    """Render arrays as the bytes of an HDF5 data file, a dataset each; a ``/`` makes a group.

    Made in memory: libhdf5 may end the process when it meets a full disk.

    Raises:
        TaskFailedError: HDF5 cannot hold an array.
    """
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", libver=("v108", "v110")) as file:
        for name, array in arrays.items():
            try:
                file.create_dataset(name, data=_storable(array), track_times=False)
            except ERRORS as error:
                raise faults.unwritable(
                    path,
                    name,
                    f"HDF5 cannot hold {array.dtype} of shape {array.shape} there: {error}",
                    "give it another dtype or name, or save it to an .npy file",
                ) from error
    return buffer.getbuffer()


@contextmanager
def open_hdf5(path: str) -> Iterator[h5py.File]:
    """Open an HDF5 data file for reading.

    Raises:
        EnvironmentFaultError: It is none, or what happens inside shows that it is damaged.
    """
    try:
        with h5py.File(path, "r", locking="best-effort") as file:
            yield file
    except JobrunError:
        raise
    except ERRORS as error:
        raise faults.unreadable(path, error) from error


def _dataset(file: h5py.File, path: str, member: str) -> h5py.Dataset:
    name = (
        member.strip("/") if member else choose_member(path, "", tuple(_datasets(file))).strip("/")
    )
    node: Any = file
    for part in name.split("/"):
        if not isinstance(node, h5py.Group) or part not in node.keys():  # noqa: SIM118
            raise faults.missing_member(path, member, tuple(_datasets(file)))
        if _link_type(node, part) != h5l.TYPE_HARD:
            raise faults.hostile(path, name, f"'{part}' is a link to elsewhere")
        node = node[part]
    if not isinstance(node, h5py.Dataset):
        raise faults.missing_member(path, member, tuple(_datasets(file)))
    plist = node.id.get_create_plist()
    if plist.get_layout() == h5d.VIRTUAL or plist.get_external_count():
        raise faults.hostile(path, name, "its data are in other files")
    return node


def _datasets(file: h5py.File) -> Iterator[str]:
    """Yield the paths of an HDF5 file's datasets, breadth first; each group is walked once."""
    groups, seen, listed = [file["/"]], {h5py.h5o.get_info(file.id).addr}, 0
    while groups:
        group = groups.pop(0)
        for name in group.keys():  # noqa: SIM118 - iterating the group is the same, said less clearly
            if _link_type(group, name) != h5l.TYPE_HARD:
                continue
            item = group[name]
            address = h5py.h5o.get_info(item.id).addr
            if isinstance(item, h5py.Group) and address not in seen:
                seen.add(address)
                groups.append(item)
            elif isinstance(item, h5py.Dataset):
                yield str(item.name)
                listed += 1
            if listed >= _MOST_LISTED or len(seen) > _MOST_LISTED:
                return


def _link_type(group: h5py.Group, name: str) -> int:
    return int(group.id.links.get_info(name.encode()).type)


def is_text(dataset: h5py.Dataset) -> bool:
    """Return whether an HDF5 dataset holds text: of variable length, or in UTF-8."""
    kind = dataset.id.get_type()
    if not isinstance(kind, h5t.TypeStringID):
        return False
    return bool(kind.is_variable_str()) or kind.get_cset() == h5t.CSET_UTF8


def _storable(array: Array) -> Array:
    if array.dtype.kind != "U":
        return array
    # UTF-8 needs four bytes a character at most.
    dtype = h5py.string_dtype("utf-8", max(1, array.dtype.itemsize))
    stored = np.zeros(array.shape, dtype)
    if array.size:
        stored[...] = np.char.encode(array, "utf-8")
    return stored


def _extent(dataset: h5py.Dataset, member: str) -> Extent | None:
    """Return where in its file a contiguous HDF5 dataset lies; None for other datasets."""
    offset = dataset.id.get_offset()
    plain = dataset.id.get_type().equal(h5py.h5t.py_create(dataset.dtype))
    if offset is None or not plain or is_text(dataset):
        return None
    return Extent(member, dataset.dtype, tuple(dataset.shape), offset)


class _Chunked:
    """Rows of HDF5 datasets that libhdf5 has to put together from chunks."""

    def __init__(self, path: str, members: tuple[str, ...]) -> None:
        self._path = path
        try:
            self._file = h5py.File(path, "r", locking="best-effort", rdcc_nbytes=_CACHE_BYTES)
        except ERRORS as error:
            raise faults.unreadable(path, error) from error
        try:
            self._datasets = [row_dataset(self._file, path, member) for member in members]
            lengths = [
                (member, _length(path, member, dataset))
                for member, dataset in zip(members, self._datasets, strict=True)
            ]
            self._length = common_length(path, lengths)
        except BaseException:
            self._file.close()
            raise
        self._columns = tuple(
            Column(name, _dtype(dataset), tuple(dataset.shape[1:]))
            for name, dataset in zip(members, self._datasets, strict=True)
        )

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the name, dtype and row shape of each dataset read from an HDF5 data file."""
        return self._columns

    def __len__(self) -> int:
        return self._length

    def take(self, start: int, stop: int) -> Piece:
        """Read consecutive rows of chunked HDF5 datasets."""
        return self._read(lambda dataset: dataset[start:stop])

    def pick(self, rows: Array) -> Piece:
        """Read rows of HDF5 datasets by row numbers, in the order given."""
        ordered, positions = sort_rows(rows)
        unique, back = np.unique(ordered, return_inverse=True)
        return restore_order(self._read(lambda dataset: dataset[unique][back]), positions)

    def close(self) -> None:
        """Close the HDF5 file whose rows were read."""
        self._file.close()

    def _read(self, read: Callable[[Any], Array]) -> Piece:
        try:
            return tuple(
                _plain(np.asarray(read(dataset)), column)
                for dataset, column in zip(self._datasets, self._columns, strict=True)
            )
        except ERRORS as error:
            raise faults.unreadable(self._path, error) from error


def _length(path: str, member: str, dataset: h5py.Dataset) -> int:
    if not dataset.shape:
        raise faults.no_rows(path, member)
    return int(dataset.shape[0])


def _dtype(dataset: h5py.Dataset) -> np.dtype[Any]:
    """Return the dtype of the rows read from an HDF5 dataset: its own, but ``<U`` for text."""
    return np.dtype(f"<U{dataset.dtype.itemsize}" if is_text(dataset) else dataset.dtype)


def _plain(rows: Array, column: Column) -> Array:
    if rows.dtype == column.dtype:
        return rows
    return np.char.decode(rows, "utf-8").astype(column.dtype)
