"""Recognise the stored form of a program's ``state_dir``, and compare two without their times.

It is a tar archive (pax) in an array of bytes that begins with ``MARK``. When a file was written is
restored, but is no result: it is another time in each run.
"""

from __future__ import annotations

import io
import re
import tarfile

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

COMMENT = "jobrun state_dir 2"
MARK = tarfile.TarInfo.create_pax_global_header({"comment": COMMENT})
# The first record of an entry's header, behind one that says that names are bytes.
TIME_RECORD = re.compile(rb"(?:21 hdrcharset=BINARY\n)?\d+ mtime=(-?\d+\.\d{9})\n")


def is_archive(value: object) -> bool:
    """Return whether a value is the stored form of a ``state_dir``."""
    return (
        type(value) is np.ndarray
        and value.dtype == np.uint8
        and value.ndim == 1
        and value[: len(MARK)].tobytes() == MARK
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


def packed_files(archive: Bytes) -> dict[str, bytes | str]:
    """Return the files in the stored form of a ``state_dir`` by their paths, without their times.

    Of a link its target; of a directory the text ``folder``.
    """
    files: dict[str, bytes | str] = {}
    if archive.size:
        with tarfile.open(fileobj=io.BytesIO(archive.tobytes())) as entries:
            for entry in entries:
                data = entries.extractfile(entry) if entry.isreg() else None
                files[entry.name] = data.read() if data else entry.linkname or "folder"
    return files
