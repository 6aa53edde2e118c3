"""Files of format 1, in memory: verified bytes to coded blobs. Not written any more. No disk.

What was written, and so all that is ever read back:

* ``/blobs/<quoted name>``: one dataset per blob, contiguous, with the attributes ``kind``,
  ``dtype`` (the logical one) and ``role``, which stay the same while the layout does;
* ``/_ck/epoch``, and in the order of the sorted names ``/_ck/names`` (quoted),
  ``/_ck/lengths`` (bytes) and ``/_ck/crc32`` (zlib's).

HDF5 has many ways to make a file mean bytes of another one, or more bytes than it has; a
file that uses anything but the above is refused before any of its data are read.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5g, h5l, h5o, h5s, h5t

from jobrun.blobs.values import Value
from jobrun.checkpoint.codec import Array, Coded, decode
from jobrun.checkpoint.dtypes import DType, parse_dtype, storage_dtype
from jobrun.checkpoint.names import quoted, unquoted

# What h5py raises for a file that is not as libhdf5 or h5py expects it.
HDF5_ERRORS = (OSError, RuntimeError, ValueError, KeyError, TypeError, OverflowError)


class StructureError(ValueError):
    """The HDF5 part of a file is not what jobrun makes; the message says how."""


def read(
    data: bytes, epoch: int, names: Iterable[str] | None = None, *, partial: bool = False
) -> dict[str, Coded]:
    """The blobs with these names (default: all), from a whole, verified file.

    The arrays own their memory. With ``partial``, names that it does not hold are left out.

    Raises:
        StructureError: The file holds what jobrun never makes for this epoch.
        KeyError: It has no blob of a name.
    """
    try:
        with h5py.File(io.BytesIO(data), "r") as file:
            return _read(file, len(data), epoch, names, partial=partial)
    except StructureError:
        raise
    except _MissingError as error:
        raise KeyError(error.name) from None
    except HDF5_ERRORS as error:
        raise StructureError(f"HDF5 cannot read it ({error})") from error


def value_of(name: str, coded: Coded) -> Value:
    """The value of a blob that was read.

    Raises:
        StructureError: Its attributes and its data do not belong together.
    """
    try:
        return decode(coded.kind, coded.dtype, coded.array)
    except ValueError as error:
        raise StructureError(f"blob '{name}': {error}") from error


class _MissingError(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _crc32(array: Array) -> int:
    return zlib.crc32(array.reshape(-1).view(np.uint8).data) if array.size else 0


def _read(
    file: h5py.File, length: int, epoch: int, names: Iterable[str] | None, *, partial: bool
) -> dict[str, Coded]:
    _expect_names(file.id, {b"blobs", b"_ck"})
    facts = _read_table(_group(file.id, b"_ck"), length, epoch)
    group = _group(file.id, b"blobs")
    _expect_names(group, {quoted(name).encode() for name in facts})
    # All of them, wanted or not: a file is as it should be or it is not used.
    opened = {name: _dataset(group, quoted(name).encode(), length) for name in facts}
    found: dict[str, Coded] = {}
    for name in facts if names is None else names:
        if name not in opened:
            if partial:
                continue
            raise _MissingError(name)
        found[name] = _coded(name, opened[name])
        if (found[name].array.nbytes, _crc32(found[name].array)) != facts[name]:
            raise StructureError(f"blob '{name}' is not the one that /_ck tells of")
    return found


def _read_table(group: h5g.GroupID, length: int, epoch: int) -> dict[str, tuple[int, int]]:
    _expect_names(group, {b"epoch", b"names", b"lengths", b"crc32"})
    stored_epoch = int(_column(group, b"epoch", np.dtype(np.int64), length))
    if stored_epoch != epoch:
        raise StructureError(f"/_ck/epoch is {stored_epoch}, and the header says {epoch}")
    names = [unquoted(name.decode()) for name in _names_column(group, length).tolist()]
    lengths = _column(group, b"lengths", np.dtype(np.uint64), length).tolist()
    sums = _column(group, b"crc32", np.dtype(np.uint32), length).tolist()
    if not len(set(names)) == len(names) == len(lengths) == len(sums):
        raise StructureError("the columns of /_ck do not fit together")
    return dict(zip(names, zip(lengths, sums, strict=True), strict=True))


def _coded(name: str, dataset: h5d.DatasetID) -> Coded:
    kind, text = _attribute(dataset, b"kind"), _attribute(dataset, b"dtype")
    try:
        stored = storage_dtype(parse_dtype(text))
    except ValueError as error:
        raise StructureError(f"blob '{name}': {error}") from error
    # The check of ``kind`` is that ``decode`` knows it.
    return Coded(kind, text, _data(dataset, stored, f"blob '{name}'"))  # type: ignore[arg-type]


def _column(group: h5g.GroupID, name: bytes, dtype: DType, length: int) -> Array:
    return _data(_dataset(group, name, length), dtype, f"/_ck/{name.decode()}")


def _names_column(group: h5g.GroupID, length: int) -> Array:
    dataset = _dataset(group, b"names", length)
    width = dataset.get_type().get_size()
    return _data(dataset, h5py.string_dtype("utf-8", width), "/_ck/names")


def _data(dataset: h5d.DatasetID, dtype: DType, what: str) -> Array:
    # Equal, not convertible: a conversion would change bits, and h5py's own guess at the
    # dtype would take a record of two floats for a complex number.
    if not dataset.get_type().equal(h5t.py_create(dtype, logical=True)):
        raise StructureError(f"{what} is not stored as {dtype}")
    array = np.zeros(dataset.shape, dtype)
    if array.size:
        dataset.read(h5s.ALL, h5s.ALL, array, h5t.py_create(dtype))
    return array


def _group(parent: h5g.GroupID, name: bytes) -> h5g.GroupID:
    _expect_hard_link(parent, name, h5o.TYPE_GROUP)
    return h5g.open(parent, name)


def _dataset(group: h5g.GroupID, name: bytes, length: int) -> h5d.DatasetID:
    _expect_hard_link(group, name, h5o.TYPE_DATASET)
    dataset = h5d.open(group, name)
    plist = dataset.get_create_plist()
    if plist.get_layout() not in {h5d.CONTIGUOUS, h5d.COMPACT}:
        raise _odd(name, "is not contiguous")
    if plist.get_external_count() or plist.get_nfilters():
        raise _odd(name, "has its data elsewhere, or filtered")
    _expect_plain_type(name, dataset.get_type())
    count = int(dataset.get_space().get_simple_extent_npoints())
    if count * dataset.get_type().get_size() > length:
        raise _odd(name, "is larger than the file")
    return dataset


def _expect_names(group: h5g.GroupID, wanted: set[bytes]) -> None:
    # The number first: a hostile file may have a million.
    if group.get_num_objs() != len(wanted) or set(group) != wanted:
        raise StructureError("it has other groups or datasets than a checkpoint has")


def _expect_hard_link(group: h5g.GroupID, name: bytes, kind: int) -> None:
    if group.links.get_info(name).type != h5l.TYPE_HARD:
        raise _odd(name, "is a link to elsewhere")
    if h5o.get_info(group, name).type != kind:
        raise _odd(name, "is of the wrong kind")


def _expect_plain_type(name: bytes, kind: Any) -> None:
    if isinstance(kind, h5t.TypeStringID) and kind.is_variable_str():
        raise _odd(name, "has items of variable length")
    if isinstance(kind, h5t.TypeCompoundID):
        for index in range(kind.get_nmembers()):
            _expect_plain_type(name, kind.get_member_type(index))
    elif isinstance(kind, h5t.TypeArrayID | h5t.TypeEnumID):
        _expect_plain_type(name, kind.get_super())
    elif kind.get_class() not in {h5t.INTEGER, h5t.FLOAT, h5t.STRING, h5t.OPAQUE}:
        raise _odd(name, "has a type that a checkpoint never has")


def _attribute(dataset: h5d.DatasetID, name: bytes) -> str:
    if not h5a.exists(dataset, name):
        raise StructureError(f"a dataset has no attribute '{name.decode()}'")
    attribute = h5a.open(dataset, name)
    kind = attribute.get_type()
    if kind.get_class() != h5t.STRING or kind.is_variable_str() or attribute.shape != ():
        raise StructureError(f"attribute '{name.decode()}' is not a text of fixed length")
    text = np.zeros((), np.dtype((np.bytes_, kind.get_size())))
    attribute.read(text)
    return bytes(text[()]).decode("ascii")


def _odd(name: bytes, how: str) -> StructureError:
    return StructureError(f"{name.decode(errors='replace')!r} {how}")
