"""Recognise the stored form of a program's ``state_dir``, and compare two without their times.

It is a tar archive (pax) in an array of bytes that begins with ``archive_mark()``. When a file was
written is restored, but is no result: it is another time in each run.
"""

from __future__ import annotations

import io
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jobrun.core.interpreter import lazy_module

if TYPE_CHECKING:
    import tarfile
else:
    # Most jobs have no ``state_dir``.
    tarfile = lazy_module("tarfile")

Bytes = npt.NDArray[np.uint8]

COMMENT = "jobrun state_dir 2"
# What each header of a tar archive has at this place.
_MAGIC, _MAGIC_AT = b"ustar", 257
# The first record of an entry's header, behind one that says that names are bytes.
TIME_RECORD = re.compile(rb"(?:21 hdrcharset=BINARY\n)?\d+ mtime=(-?\d+\.\d{9})\n")


@cache
def archive_mark() -> bytes:
    """Return the bytes with which the stored form of a ``state_dir`` begins."""
    mark: bytes = tarfile.TarInfo.create_pax_global_header({"comment": COMMENT})
    return mark


def is_archive(value: object) -> bool:
    """Return whether a value is the stored form of a ``state_dir``."""
    return (
        type(value) is np.ndarray
        and value.dtype == np.uint8
        and value.ndim == 1
        and value[_MAGIC_AT : _MAGIC_AT + len(_MAGIC)].tobytes() == _MAGIC
        and value[: len(archive_mark())].tobytes() == archive_mark()
    )


def without_times(archive: Bytes) -> Bytes:
    """Return a copy of the stored form of a ``state_dir`` in which all files are of one time.

    Two that hold the same are equal then, bit for bit.
    """
    copy = np.array(archive)
    with tarfile.open(fileobj=io.BytesIO(archive.tobytes())) as entries:
        while (entry := entries.next()) is not None:
            begin = entry.offset + tarfile.BLOCKSIZE
            record = TIME_RECORD.match(copy[begin : entry.offset_data].tobytes())
            if record is not None:
                copy[begin + record.start(1) : begin + record.end(1)] = ord("0")
    return copy


def packed_files(archive: Bytes) -> dict[str, Bytes | str]:
    """Return the files in the stored form of a ``state_dir`` by their paths, without their times.

    Of a file its data, as a view of the archive: a hole may be larger than the memory. Where it has
    holes, how long it is and where its data are is a text of its own. Of a link its target; of a
    directory the text ``folder``.
    """
    files: dict[str, Bytes | str] = {}
    if archive.size:
        with tarfile.open(fileobj=io.BytesIO(archive.tobytes())) as entries:
            for entry in entries:
                # Where a file with holes has data; type checkers take it for something else.
                segments: Any = entry.sparse
                count = entry.size if segments is None else sum(one for _, one in segments)
                if not entry.isreg():
                    files[entry.name] = entry.linkname or "folder"
                    continue
                files[entry.name] = archive[entry.offset_data :][:count]
                if segments is not None:
                    files[f"{entry.name} (holes)"] = f"{entry.size} bytes, data at {segments}"
    return files
