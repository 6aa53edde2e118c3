"""Read and write data files for ``load`` and ``save`` steps, in the format of their suffix.

==================  ============================================  =========================
file                member                                        written as
==================  ============================================  =========================
``.npy``            none: the file is one array                   the array
``.npz``            the array's name; may be empty if only one    all members at once
``.csv``, ``.tsv``  a column, several with commas, or none: all   columns, or one matrix
``.h5``, ``.hdf5``  the dataset's path; may be empty if only one  all members at once
``.parquet``        a column (with ``jobrun[parquet]``)           not written
==================  ============================================  =========================

What is read is an array, also where the file has a single number: then of shape ().
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from jobrun.core.errors import EnvironmentFaultError, TaskFailedError
from jobrun.core.file_formats import FileFormat, find_misfit, format_of, suffix_of
from jobrun.core.files.disk import disk_faults, replace_file
from jobrun.formats import csv as tables
from jobrun.formats import errors as faults
from jobrun.formats import npy as arrays
from jobrun.formats.csv_header import DELIMITERS
from jobrun.formats.headers import HDF5, require_file, split_field_name
from jobrun.formats.rows import extract_field, open_rows
from jobrun.values.blob_kinds import Value
from jobrun.values.container_flattening import describe_tree, is_tree
from jobrun.values.kinds.counter import Counter

Array = np.ndarray[Any, Any]


def read_member(path: str, member: str = "") -> Array:
    """Load one member of a data file, in the format that its suffix says, into a new array.

    Raises:
        EnvironmentFaultError: File or member are missing, damaged, cut short, hold Python
            objects, or are of an unknown format.
    """
    require_file(path)
    try:
        return _read_member(path, member)
    except EnvironmentFaultError as error:
        base, fields = split_field_name(path, member, error)
    return extract_field(_read_member(path, base), fields)


def _read_member(path: str, member: str) -> Array:
    match suffix_of(path):
        case ".npy":
            if member:
                raise faults.no_members(path, member)
            return arrays.read_npy(path)
        case ".npz":
            return arrays.read_npz(path, member)
        case suffix if suffix in DELIMITERS:
            return tables.read_table(path, member)
        case suffix if suffix in HDF5:
            # h5py takes long to import, and most jobs read no HDF5.
            from jobrun.formats import hdf5  # noqa: PLC0415

            return hdf5.read(path, member)
        case suffix if known := format_of(suffix):
            return _whole_column(known, path, member)
        case _:
            raise faults.no_format(path)


def write_members(path: str, values: Mapping[str, Value]) -> None:
    """Save named arrays as members of a new data file, in the format that its suffix says.

    It appears whole, and is durable when this returns; its folder is made if need be.

    Args:
        path: The file.
        values: Per member's name; the empty name for the only array of a file.

    Raises:
        TaskFailedError: The format cannot hold a value, or has no members.
        EnvironmentFaultError: The format is unknown, or the system refuses.
    """
    suffix = suffix_of(path)
    for name in values:
        if (misfit := find_misfit(path, name, writes=True)) is not None:
            kind = TaskFailedError if misfit.code == "E286" else EnvironmentFaultError
            raise kind.of(*misfit)
    held = {name: _array(path, name, value) for name, value in values.items()}
    needed = sum(array.nbytes for array in held.values())
    folder = Path(path).parent
    with disk_faults("E285", f"write {path}", directory=str(folder), needed_bytes=needed):
        folder.mkdir(parents=True, exist_ok=True)
        # Replacing a file by a rename needs no permission to write it: check that here.
        if Path(path).exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        replace_file(path, partial(_write, path, suffix, held))


def _whole_column(file_format: FileFormat, path: str, member: str) -> Array:
    with contextlib.closing(open_rows(file_format, path, (member,))) as rows:
        return rows.take(0, len(rows))[0]


def _write(path: str, suffix: str, held: Mapping[str, Array], file: IO[bytes]) -> None:
    if suffix in DELIMITERS:
        tables.write_table(file, path, held)
    elif suffix == ".npy":
        arrays.write_npy(file, held[""])
    elif suffix == ".npz":
        arrays.write_npz(file, held)
    else:
        from jobrun.formats import hdf5  # noqa: PLC0415

        file.write(hdf5.render_hdf5(held, path))


def _array(path: str, member: str, value: Value) -> Array:
    if is_tree(value):
        raise faults.unwritable(
            path,
            member,
            f"it is {describe_tree(value)}, and a data file holds arrays",
            "make an array of it: array(x)",
        )
    array = np.asarray(value.value if isinstance(value, Counter) else value)
    if array.dtype.hasobject:
        raise faults.unwritable(
            path, member, "it is no array of numbers or text", "save what has one dtype"
        )
    return array
