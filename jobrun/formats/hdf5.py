"""Read and write HDF5 data files: their datasets as arrays.

Whoever made a file may have made it lead elsewhere: soft and external links, external
storage, virtual datasets. None of these is followed; the path of a member is walked link
by link, and only hard links are walked.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5l, h5t

from jobrun.core.errors import JobrunError
from jobrun.formats import errors as faults
from jobrun.formats.headers import MemberInfo, choose_member

Array = np.ndarray[Any, Any]
# What h5py raises for a file that is damaged.
ERRORS = (OSError, RuntimeError, ValueError, KeyError, TypeError, OverflowError)
# deflate makes a thousandth of zeros; what promises more, or promises data it has not, is
# a trap for memory.
_MOST_RATIO = 1100
_ALWAYS_BYTES = 1 << 26
_MOST_LISTED = 1000


def members(path: str) -> tuple[str, ...]:
    """List the paths of an HDF5 file's datasets, reached by hard links only, at most 1000.

    Raises:
        EnvironmentFaultError: The file is damaged, or no HDF5.
    """
    with open_hdf5(path) as file:
        return tuple(_datasets(file))


def describe(path: str, member: str) -> MemberInfo:
    """Return dtype and shape of a dataset in an HDF5 file; with one dataset its name may be empty.

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
    place: Any = file
    for part in name.split("/"):
        if not isinstance(place, h5py.Group) or part not in place.keys():  # noqa: SIM118
            raise faults.missing_member(path, member, tuple(_datasets(file)))
        if _link_type(place, part) != h5l.TYPE_HARD:
            raise faults.hostile(path, name, f"'{part}' is a link to elsewhere")
        place = place[part]
    if not isinstance(place, h5py.Dataset):
        raise faults.missing_member(path, member, tuple(_datasets(file)))
    plist = place.id.get_create_plist()
    if plist.get_layout() == h5d.VIRTUAL or plist.get_external_count():
        raise faults.hostile(path, name, "its data are in other files")
    return place


def _datasets(file: h5py.File) -> Iterator[str]:
    """Yield the paths of an HDF5 file's datasets, breadth first; each group is walked once."""
    groups, seen, found = [file["/"]], {h5py.h5o.get_info(file.id).addr}, 0
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
                found += 1
            if found >= _MOST_LISTED or len(seen) > _MOST_LISTED:
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
