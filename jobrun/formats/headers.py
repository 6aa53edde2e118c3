"""Read members, dtypes and shapes from the headers of data files, without data or numpy.

HDF5 has no header to speak of, so for such files h5py (and with it numpy) is imported.
"""

from __future__ import annotations

import importlib
import math
import os
import stat
import zipfile
from pathlib import Path
from typing import Any

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.file_formats import FileFormat, format_of, suffix_of
from jobrun.formats import errors as faults
from jobrun.formats.csv_header import (
    DELIMITERS,
    choose_columns,
    column_names,
    csv_columns,
    first_fields,
)
from jobrun.formats.nested_fields import (
    Form,
    MemberInfo,
    field_form,
    field_names,
    item_bytes,
    locate_field,
    name_splits,
)
from jobrun.formats.npy_header import npz_members, open_zip, read_npy_header

HDF5 = frozenset({".h5", ".hdf5"})


def require_file(path: str) -> None:
    """Require that a data file exists and is a regular file, before its header is read.

    Raises:
        EnvironmentFaultError: There is none, or it cannot be looked at.
    """
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - the path is a text all the way
    except FileNotFoundError as error:
        raise faults.missing_file(path) from error
    except OSError as error:
        raise faults.unreadable(path, error.strerror or error) from error
    # A pipe would never answer; a folder is a slip of the pen.
    if not stat.S_ISREG(mode):
        raise faults.unreadable(path, "it is not a regular file")


def members(path: str) -> tuple[str, ...]:
    """Return the names of a data file's members from its header; () for a single array.

    Raises:
        EnvironmentFaultError: The file is missing, damaged, or of an unknown format.
    """
    require_file(path)
    match suffix_of(path):
        case ".npy":
            return ()
        case ".npz":
            with open_zip(path) as archive:
                return tuple(npz_members(archive))
        case suffix if suffix in DELIMITERS:
            return csv_columns(path) or ()
        case suffix if suffix in HDF5:
            found: tuple[str, ...] = _hdf5().members(path)
            return found
        case suffix if known := format_of(suffix):
            columns: tuple[str, ...] = rows_module(known).members(path)
            return columns
        case _:
            raise faults.no_format(path)


def describe(path: str, member: str = "") -> MemberInfo:
    """Read dtype and shape of a member, or of a field inside one, from a data file's header.

    Args:
        path: The file.
        member: Its member; may be empty where there is one only, and for a whole table. A field
            inside a member of records is named after it, with slashes between.

    Raises:
        EnvironmentFaultError: File or member are missing, damaged, hold Python objects, or
            are of an unknown format.
    """
    require_file(path)
    try:
        return describe_member(path, member)
    except EnvironmentFaultError as error:
        base, fields = split_field_name(path, member, error)
        form = _form_of(path, base)
        found = None if form is None else field_form(form, fields)
        if found is None:
            raise
        return MemberInfo(*found)


def split_field_name(
    path: str, member: str, error: EnvironmentFaultError
) -> tuple[str, tuple[str, ...]]:
    """Find by a data file's header which member, and which fields in it, a name means.

    Args:
        path: The file.
        member: The name.
        error: What was raised for it; raised again when it means nothing else, or was another.

    Raises:
        EnvironmentFaultError: It means nothing else, either.
    """
    kind = suffix_of(path)
    if error.faults[0].code != "E281" or not member or kind not in {".npy", ".npz", *HDF5}:
        raise error
    alone = kind == ".npy"
    found = locate_field(member, lambda base: _form_of(path, base), alone=alone)
    if found is not None:
        return found
    for base, _ in name_splits(member, alone=alone):
        form = _form_of(path, base)
        names = () if form is None else field_names(base, form)
        if names:
            raise faults.missing_member(path, member, names) from error
    raise error


def _form_of(path: str, member: str) -> Form | None:
    try:
        info = describe_member(path, member)
    except EnvironmentFaultError:
        return None
    return info.dtype, info.shape


def describe_member(path: str, member: str) -> MemberInfo:
    """Read dtype and shape of a member from a data file's header, fields inside one excluded."""
    match suffix_of(path):
        case ".npy":
            return _describe_npy(path, member)
        case ".npz":
            return _describe_npz(path, member)
        case suffix if suffix in DELIMITERS:
            return _describe_table(path, member)
        case suffix if suffix in HDF5:
            info: MemberInfo = _hdf5().describe(path, member)
            return info
        case suffix if known := format_of(suffix):
            column: MemberInfo = rows_module(known).describe(path, member)
            return column
        case _:
            raise faults.no_format(path)


def choose_member(path: str, member: str, known: tuple[str, ...]) -> str:
    """Return the wanted member among those in a data file's header, or the only one.

    Raises:
        EnvironmentFaultError: There is no such member, or several, or none.
    """
    if member in known:
        return member
    if member:
        raise faults.missing_member(path, member, known)
    if len(known) != 1:
        raise faults.unnamed_member(path, known)
    return known[0]


def _describe_npy(path: str, member: str) -> MemberInfo:
    if member:
        raise faults.no_members(path, member)
    try:
        with Path(path).open("rb") as file:
            header = read_npy_header(file, path)
            size_bytes = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise faults.unreadable(path, error.strerror or error) from error
    if header.objects:
        raise faults.holds_objects(path)
    item_size = item_bytes(header.info.dtype)
    if item_size is not None:
        expected = header.size + item_size * math.prod(header.info.shape)
        if size_bytes < expected:
            raise faults.cut_short(path, size_bytes, expected)
    return header.info


def _describe_npz(path: str, member: str) -> MemberInfo:
    with open_zip(path) as archive:
        known = npz_members(archive)
        name = choose_member(path, member, tuple(known))
        try:
            with archive.open(known[name]) as file:
                header = read_npy_header(file, f"{path}::{name}")
        except (zipfile.BadZipFile, OSError, ValueError, EOFError, RuntimeError) as error:
            raise faults.unreadable(f"{path}::{name}", error) from error
    if header.objects:
        raise faults.holds_objects(path, name)
    return header.info


def _describe_table(path: str, member: str) -> MemberInfo:
    if member:
        choose_columns(path, member, column_names(path))
    else:
        first_fields(path)
    return MemberInfo("", ())


def _hdf5() -> Any:
    return importlib.import_module("jobrun.formats.hdf5")


def rows_module(file_format: FileFormat) -> Any:
    """Import the module that reads headers (and rows) of a file format, at its first use.

    One that ``headers`` has no rule of its own for has ``members`` and ``describe`` there.
    """
    # h5py and pyarrow take long to import.
    name = "arrays" if file_format in ("npy", "npz") else file_format
    return importlib.import_module(f"jobrun.formats.rows.{name}")
