"""Render dtypes as HDF5 datatype messages: as bytes, those of numbers without h5py."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_INT8 = np.dtype(np.int8)
# Of IEEE floats by size in bytes: bits of exponent and mantissa, and the bias of the exponent.
_FLOATS = {2: (5, 10, 15), 4: (8, 23, 127), 8: (11, 52, 1023)}


def render_datatype(dtype: np.dtype[Any]) -> bytes:
    """Render the HDF5 datatype message of any dtype, by h5py unless it is that of a number."""
    if is_number_type(dtype):
        return render_number_type(dtype)
    from h5py import h5t  # noqa: PLC0415 - a run of numbers alone starts without

    # Not cached: numpy takes text of the same width for equal, whatever h5py has noted of its
    # encoding. Behind two bytes that say what follows and in which version.
    message: bytes = h5t.py_create(dtype, logical=True).encode()[2:]
    return message


def render_number_type(dtype: np.dtype[Any]) -> bytes:
    """Render the body of an HDF5 datatype message for a bool or number (``is_number_type``).

    The same bytes as h5py's, whose import would be a tenth of a short run: a bool is an
    enumeration, and a complex number a record.
    """
    size = dtype.itemsize
    if dtype.kind == "b":
        names = b"".join(name.ljust(8, b"\0") for name in (b"FALSE", b"TRUE"))
        return struct.pack("<BHxI", 0x18, 2, size) + render_number_type(_INT8) + names + b"\0\1"
    if dtype.kind == "c":
        half = np.dtype(f"{dtype.str[0]}f{size // 2}")
        return render_record_type(np.dtype([("r", half), ("i", half)]))
    is_big_endian = dtype.str.startswith(">")
    if dtype.kind in "iu":
        order = is_big_endian | (dtype.kind == "i") << 3
        return struct.pack("<BBHIHH", 0x10, order, 0, size, 0, 8 * size)
    exponent, mantissa, bias = _FLOATS[size]
    # The first bit of the mantissa is implied.
    order = is_big_endian | 0x20
    head = struct.pack("<BBBxIHH", 0x11, order, 8 * size - 1, size, 0, 8 * size)
    return head + struct.pack("<BBBBI", mantissa, exponent, 0, mantissa, bias)


def is_number_type(dtype: np.dtype[Any]) -> bool:
    """Return whether ``render_number_type`` can render the datatype message for a dtype."""
    size = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    return dtype.kind in "biu" or (dtype.kind in "fc" and size in _FLOATS)


def render_record_type(dtype: np.dtype[Any]) -> bytes:
    """Render the body of an HDF5 datatype message for a record whose fields are numbers."""
    fields = dict(dtype.fields or {})
    parts = [struct.pack("<BHxI", 0x16, len(fields), dtype.itemsize)]
    for name, (kind, offset, *_) in fields.items():
        text = name.encode()
        parts.append(text + bytes(8 - len(text) % 8) + struct.pack("<I28x", offset))
        parts.append(render_number_type(kind))
    return b"".join(parts)


def render_text_type(size: int, *, is_ascii: bool = False) -> bytes:
    """Render the body of an HDF5 datatype message for fixed-length text, padded with NUL."""
    # Class 3 (string), padding 1 (NUL); character set 0 is ASCII, 1 is UTF-8.
    return struct.pack("<BBHI", 0x13, 1 | (not is_ascii) << 4, 0, size)
