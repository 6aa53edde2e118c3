"""Read the headers of npy files and of an npz file's members: dtype, shape; without numpy."""

from __future__ import annotations

import ast
import struct
import zipfile
from typing import IO, Any

from msgspec import Struct

from jobrun.formats import errors as faults

NPY_MAGIC = b"\x93NUMPY"
# numpy writes at most 64 KiB; ``ast`` would take very long for very long texts.
_MOST_HEADER_BYTES = 1 << 16


class NpyHeader(Struct, frozen=True):
    """The header of an npy file, or of a member of an npz file.

    Attributes:
        dtype: As in ``headers.MemberInfo``.
        shape: Lengths of the axes.
        size: How many bytes the header has; the data follow.
        objects: Python objects follow rather than numbers.
    """

    dtype: str
    shape: tuple[int, ...]
    size: int
    objects: bool


def read_npy_header(file: IO[bytes], source: str) -> NpyHeader:
    """Read the header of an npy stream: dtype, shape, and whether Python objects follow.

    Raises:
        EnvironmentFaultError: It is not one.
    """
    start = file.read(8)
    if len(start) < 8 or not start.startswith(NPY_MAGIC):
        raise faults.unreadable(source, "it does not start as an npy file does")
    width, length_format = (2, "<H") if start[6] == 1 else (4, "<I")
    raw = file.read(width)
    length = struct.unpack(length_format, raw)[0] if len(raw) == width else 0
    text = file.read(length) if length <= _MOST_HEADER_BYTES else b""
    if not length or len(text) != length:
        raise faults.unreadable(source, "its npy header is cut short")
    try:
        fields: Any = ast.literal_eval(text.decode("utf-8" if start[6] >= 3 else "latin1"))
        dtype, shape = _descr_text(fields["descr"]), tuple(fields["shape"])
        objects = _has_objects(fields["descr"])
    except (ValueError, SyntaxError, TypeError, LookupError, RecursionError, MemoryError) as error:
        raise faults.unreadable(source, "its npy header is damaged") from error
    if not all(type(length) is int and length >= 0 for length in shape):
        raise faults.unreadable(source, "its npy header is damaged")
    return NpyHeader(dtype, shape, 8 + width + length, objects)


def open_zip(path: str) -> zipfile.ZipFile:
    """Open an npz file as a zip archive, to read the npy headers of its members.

    Raises:
        EnvironmentFaultError: It is not a zip file, or cut short.
    """
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise faults.unreadable(path, error) from error


def npz_members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Map each array's name in an npz file to its zip entry, which begins with an npy header."""
    return {
        info.filename.removesuffix(".npy"): info
        for info in archive.infolist()
        if info.filename.endswith(".npy")
    }


def descr(header: NpyHeader) -> Any:
    """Return an npy header's dtype as a ``descr``, for ``numpy.lib.format.descr_to_dtype``."""
    text = header.dtype
    return ast.literal_eval(text) if text.startswith(("[", "(")) else text


def _descr_text(descr: Any) -> str:
    return descr if isinstance(descr, str) else repr(descr)


def _has_objects(descr: Any) -> bool:
    if isinstance(descr, str):
        return "O" in descr
    if isinstance(descr, tuple):
        return _has_objects(descr[0])
    return any(_has_objects(field[1]) for field in descr)
