"""Open the rows of data files of any format, to be read in order or in any order.

The rows of a file are the first axis of its members, all of one length. A piece is read into
memory of its own, so a file may be larger than memory:

=========== ====================================== ==========================================
format      rows in order                          rows in any order
=========== ====================================== ==========================================
npy, npz    read into place, without a mapping     mapped up to 256 MiB, else read row by row
hdf5        as npy where the dataset is one piece; chunk by chunk where it is not
parquet     row group by row group                 the same, some row groups kept
csv, tsv    line by line                           by an index: 8 bytes of memory per line
=========== ====================================== ==========================================

A compressed member of an npz file is read whole, up to 1 GiB; a larger one is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.file_formats import FileFormat
from jobrun.formats.headers import require_file, rows_module
from jobrun.formats.rows.rows_protocol import Rows
from jobrun.formats.rows.structured import open_fields


def open_rows(kind: FileFormat, path: str, members: Sequence[str]) -> Rows:
    """Open a data file of any format to read its rows.

    Args:
        kind: The format, whatever the file's name says.
        path: The file.
        members: One for each column; the empty name for the only member of a file.

    Raises:
        EnvironmentFaultError: File or member are missing, damaged or cut short, hold Python
            objects, have no rows, or members differ in length.
    """
    require_file(path)
    module = rows_module(kind)
    rows: Rows
    try:
        rows = module.open_file(path, tuple(members))
    except EnvironmentFaultError as error:
        return open_fields(module, path, members, error)
    return rows
