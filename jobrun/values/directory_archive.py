"""Recognise the stored form of a program's ``state_dir``, and compare two without their times.

It is a tar archive (pax) in an array of bytes that begins with ``MARK``. When a file was written is
restored, but is no result: it is another time in each run.
"""

from __future__ import annotations

import io
import re
import tarfile
from typing import Any

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
