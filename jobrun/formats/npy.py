"""Read and write npy and npz files, whole or row by row, never with pickled objects in them."""

from __future__ import annotations

import ast
import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from jobrun.core.file_formats import suffix_of
from jobrun.formats import errors as faults
from jobrun.formats.headers import choose_member
from jobrun.formats.npy_header import NpyHeader, descr, npz_members, open_zip, read_npy_header
from jobrun.formats.rows import Array, ArrayRows, Extent

_SHORT_HEADER = 1 << 15
# The oldest time stamp of a zip file. It is constant, so that equal values give equal bytes.
NO_TIME = (1980, 1, 1, 0, 0, 0)
MOST_COMPRESSED_BYTES = 1 << 30
_LOCAL_HEADER_BYTES = 30


def read_npy(path: str) -> Array:
    """Read the array of an npy file.

    Raises:
        EnvironmentFaultError: It is damaged, cut short, or holds Python objects.
    """
    try:
        with Path(path).open("rb") as file:
            header = read_npy_header(file, path)
            size = os.fstat(file.fileno()).st_size
            expect_data(path, "", header, size)
            file.seek(0)
            return _read_array(file, path)
    except OSError as error:
        raise faults.unreadable(path, error.strerror or error) from error


def read_npz(path: str, member: str) -> Array:
    """Read one npy array of an npz file.

    Raises:
        EnvironmentFaultError: It is not there, damaged, cut short, or holds Python objects.
    """
    with open_zip(path) as archive:
        known = npz_members(archive)
        name = choose_member(path, member, tuple(known))
        source = f"{path}::{name}"
        try:
            with archive.open(known[name]) as file:
                header = read_npy_header(file, source)
            expect_data(path, name, header, known[name].file_size)
            with archive.open(known[name]) as file:
                return _read_array(file, source)
        # RuntimeError: encrypted, or compressed in a way that zipfile does not know.
        except (zipfile.BadZipFile, OSError, EOFError, RuntimeError) as error:
            raise faults.unreadable(source, error) from error


def write_npy(file: IO[bytes], array: Array) -> None:
    """Write an array as an npy stream to a file."""
    np.lib.format.write_array(file, array, version=_version(array), allow_pickle=False)


def write_npz(file: IO[bytes], arrays: Mapping[str, Array]) -> None:
    """Write arrays in npy format as the members of an uncompressed npz stream.

    Equal arrays give equal bytes.
    """
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", NO_TIME)
            entry.external_attr = 0o644 << 16
            with archive.open(entry, "w", force_zip64=True) as stream:
                write_npy(stream, array)


def open_file(path: str, members: tuple[str, ...]) -> ArrayRows:
    """Open an npy or npz file to read rows of its arrays."""
    with Path(path).open("rb") as file:
        is_zip = file.read(2) == b"PK"
    if suffix_of(path) == ".npy" or not is_zip:
        for member in members:
            if member:
                raise faults.no_members(path, member)
        return ArrayRows(path, tuple(_npy_part(path) for _ in members))
    with open_zip(path) as archive:
        parts = tuple(_npz_part(archive, path, member) for member in members)
    return ArrayRows(path, parts)


def _version(array: Array) -> tuple[int, int]:
    # The oldest version that can hold the dtype. When numpy chooses, it warns of newer versions.
    header = repr(np.lib.format.dtype_to_descr(array.dtype))
    if not header.isascii():
        return (3, 0)
    return (1, 0) if len(header) < _SHORT_HEADER else (2, 0)


def expect_data(path: str, member: str, header: NpyHeader, size: int) -> None:
    """Refuse an npy file that is cut short or holds Python objects, before its array is read.

    Args:
        path: The file.
        member: The member, or empty.
        header: Its header.
        size: How many bytes header and data have.

    Raises:
        EnvironmentFaultError: It is cut short, holds Python objects, or has no known dtype.
    """
    if header.objects:
        raise faults.holds_objects(path, member)
    source = f"{path}::{member}" if member else path
    try:
        dtype = np.lib.format.descr_to_dtype(descr(header))
    except (ValueError, TypeError, SyntaxError) as error:
        raise faults.unreadable(source, "its npy header is damaged") from error
    # Check before allocating: a damaged header may claim terabytes.
    expected = header.size + math.prod(header.shape) * dtype.itemsize
    if size < expected:
        raise faults.unreadable(source, f"it is cut short: {size} bytes, expected {expected}")


def _read_array(file: Any, source: str) -> Array:
    try:
        array: Array = np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, TypeError, KeyError) as error:
        raise faults.unreadable(source, error) from error
    return array


def _npy_part(path: str) -> Extent:
    try:
        with Path(path).open("rb") as file:
            header, fortran = _header(file, path)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise faults.unreadable(path, error.strerror or error) from error
    expect_data(path, "", header, size)
    return _extent("", header, header.size, fortran=fortran)


def _npz_part(archive: zipfile.ZipFile, path: str, member: str) -> Extent | Array:
    known = npz_members(archive)
    name = choose_member(path, member, tuple(known))
    info = known[name]
    source = f"{path}::{name}"
    if info.compress_type != zipfile.ZIP_STORED:
        if info.file_size > MOST_COMPRESSED_BYTES:
            raise faults.too_large(path, name, info.file_size, MOST_COMPRESSED_BYTES)
        return read_npz(path, name)
    try:
        with archive.open(info) as file:
            header, fortran = _header(file, source)
    except (zipfile.BadZipFile, OSError, EOFError, RuntimeError) as error:
        raise faults.unreadable(source, error) from error
    expect_data(path, name, header, info.file_size)
    return _extent(name, header, _data_offset(path, info) + header.size, fortran=fortran)


def _extent(member: str, header: NpyHeader, offset: int, *, fortran: bool) -> Extent:
    dtype = np.lib.format.descr_to_dtype(descr(header))
    return Extent(member, dtype, header.shape, offset, fortran)


def _header(file: Any, source: str) -> tuple[NpyHeader, bool]:
    recorder = _RecordingFile(file)
    header = read_npy_header(recorder, source)  # type: ignore[arg-type]
    fields = ast.literal_eval(recorder.last.decode("latin1"))
    return header, bool(fields.get("fortran_order"))


class _RecordingFile:
    """A file that remembers what was last read: the text of an npy header."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.last = b""

    def read(self, count: int) -> bytes:
        """Read bytes of an npy file, and keep them in ``last`` until the next read."""
        self.last = self._file.read(count)
        return self.last


def _data_offset(path: str, info: zipfile.ZipInfo) -> int:
    """Return the offset in an npz file at which the bytes of an npy member begin."""
    with Path(path).open("rb") as file:
        file.seek(info.header_offset)
        header = file.read(_LOCAL_HEADER_BYTES)
    if len(header) < _LOCAL_HEADER_BYTES or not header.startswith(b"PK\x03\x04"):
        raise faults.unreadable(path, "its local headers are damaged")
    name, extra = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
    return info.header_offset + _LOCAL_HEADER_BYTES + name + extra
