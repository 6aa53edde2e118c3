"""Read the headers of data files (npy, npz, csv, HDF5): members, dtypes, shapes; without numpy.

HDF5 has no header to speak of, so for such files h5py (and with it numpy) is imported.
"""

from __future__ import annotations

import ast
import importlib
import math
import os
import stat
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

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
from jobrun.formats.npy_header import npz_members, open_zip, read_npy_header

HDF5 = frozenset({".h5", ".hdf5"})

# A dtype (``numpy.dtype.str``, or the text of its ``descr``) and a shape.
TypedShape = tuple[str, tuple[int, ...]]


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
    # Opening a pipe would block forever, and a folder is most likely a typing error.
    if not stat.S_ISREG(mode):
        raise faults.unreadable(path, "it is not a regular file")


def members(path: str) -> tuple[str, ...]:
    """Return the member names in a data file's header; none if the file is a single array.

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
        case suffix if known := format_of(suffix):
            names: tuple[str, ...] = format_module(known).members(path)
            return names
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
        typed_shape = _typed_shape_of(path, base)
        field_type = None if typed_shape is None else field_dtype(typed_shape, fields)
        if field_type is None:
            raise
        return MemberInfo(*field_type)


def resolve_member(
    path: str, member: str, error: EnvironmentFaultError
) -> tuple[str, tuple[str, ...]]:
    """Split a column's name into a member and nested fields, by a data file's header."""
    if error.faults[0].code != "E281":
        raise error
    try:
        describe_member(path, member)
    except EnvironmentFaultError as missing:
        return split_field_name(path, member, missing)
    return member, ()


def split_field_name(
    path: str, member: str, error: EnvironmentFaultError
) -> tuple[str, tuple[str, ...]]:
    """Split ``member/field`` by the members in a data file's header, or raise ``error``.

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
    location = locate_field(member, lambda base: _typed_shape_of(path, base), alone=alone)
    if location is not None:
        return location
    for base, _ in name_splits(member, alone=alone):
        typed_shape = _typed_shape_of(path, base)
        names = () if typed_shape is None else field_names(base, typed_shape)
        if names:
            raise faults.missing_member(path, member, names) from error
    raise error


def _typed_shape_of(path: str, member: str) -> TypedShape | None:
    try:
        info = describe_member(path, member)
    except EnvironmentFaultError:
        return None
    return info.dtype, info.shape


def describe_member(path: str, member: str) -> MemberInfo:
    """Read dtype and shape of a whole member, not of a field in it, from a data file's header."""
    match suffix_of(path):
        case ".npy":
            return _describe_npy(path, member)
        case ".npz":
            return _describe_npz(path, member)
        case suffix if suffix in DELIMITERS:
            return _describe_table(path, member)
        case suffix if known := format_of(suffix):
            info: MemberInfo = format_module(known).describe(path, member)
            return info
        case _:
            raise faults.no_format(path)


def choose_member(path: str, member: str, known: tuple[str, ...]) -> str:
    """Return the named member of a data file's header, or its only member if none is named.

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
    item_size = item_bytes(header.dtype)
    if item_size is not None:
        expected = header.size + item_size * math.prod(header.shape)
        if size_bytes < expected:
            raise faults.cut_short(path, size_bytes, expected)
    return MemberInfo(header.dtype, header.shape)


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
    return MemberInfo(header.dtype, header.shape)


def _describe_table(path: str, member: str) -> MemberInfo:
    if member:
        choose_columns(path, member, column_names(path))
    else:
        first_fields(path)
    return MemberInfo("", ())


def format_module(file_format: FileFormat) -> Any:
    """Import the module that reads the headers and rows of a data format, such as ``hdf5``.

    One that ``headers`` has no rule of its own for has ``members`` and ``describe`` there.
    """
    # h5py and pyarrow take long to import.
    name = "npy" if file_format == "npz" else file_format
    return importlib.import_module(f"jobrun.formats.{name}")


def name_splits(member: str, *, alone: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each way to split a name at ``/`` into a member in a header and fields of its dtype.

    Args:
        member: The name.
        alone: The file is one array, whose member has no name.
    """
    parts = member.split("/")
    for at in range(len(parts) - 1, 0, -1):
        yield "/".join(parts[:at]), tuple(parts[at:])
    if alone:
        yield "", tuple(parts)


def field_dtype(typed_shape: TypedShape, fields: tuple[str, ...]) -> TypedShape | None:
    """Return a nested field's dtype and shape by the structured dtype in a header, or None."""
    descr, shape = _descr(typed_shape[0]), typed_shape[1]
    for name in fields:
        entry = next((candidate for candidate in _fields(descr) if candidate[0] == name), None)
        if entry is None:
            return None
        _, descr, more = entry
        shape = (*shape, *more)
    return descr if isinstance(descr, str) else repr(descr), shape


def field_names(member: str, typed_shape: TypedShape) -> tuple[str, ...]:
    """List the names of the innermost fields of the structured dtype in a data file's header."""
    return tuple(f"{member}/{name}" if member else name for name in _leaves(_descr(typed_shape[0])))


def locate_field(
    member: str, typed_shape_of: Callable[[str], TypedShape | None], *, alone: bool
) -> tuple[str, tuple[str, ...]] | None:
    """Find which array in a data file's header, and which of its fields, a name means, or None.

    Args:
        member: The name.
        typed_shape_of: The form of a member; None when there is none of that name.
        alone: The file is one array.
    """
    for base, fields in name_splits(member, alone=alone):
        typed_shape = typed_shape_of(base)
        if typed_shape is not None:
            return (base, fields) if field_dtype(typed_shape, fields) is not None else None
    return None


def item_bytes(dtype: str) -> int | None:
    """Return the size in bytes of the dtype that a header gives as text; None if unknown."""
    return _item_bytes(_descr(dtype))


def _item_bytes(descr: Any) -> int | None:
    if isinstance(descr, str):
        digits = descr[2:].partition("[")[0]
        width = 4 if descr[1:2] == "U" else 1
        return int(digits) * width if digits.isdigit() else None
    total = 0
    for field in descr:
        size = _item_bytes(field[1])
        if size is None:
            return None
        total += size * math.prod(field[2] if len(field) > 2 else ())
    return total


def _leaves(descr: Any) -> Iterator[str]:
    for name, inner, _ in _fields(descr):
        further = [f"{name}/{leaf}" for leaf in _leaves(inner)]
        yield from further or [name]


def _fields(descr: Any) -> Iterator[tuple[str, Any, tuple[int, ...]]]:
    """Yield the name, dtype and shape of each field of a structured dtype in a file's header."""
    if isinstance(descr, str):
        return
    for field in descr:
        name = field[0] if isinstance(field[0], str) else field[0][1]
        if name:
            yield name, field[1], tuple(field[2]) if len(field) > 2 else ()


def _descr(text: str) -> Any:
    return ast.literal_eval(text) if text.startswith("[") else text


class MemberInfo(Struct, frozen=True):
    """What is known of a member before it is read.

    Attributes:
        dtype: As numpy's ``dtype.str`` has it, such as ``<f8``; for a record the text of its
            ``descr``. Empty when only the data tell (csv); then ``shape`` is () as well.
        shape: Lengths of the axes.
    """

    dtype: str
    shape: tuple[int, ...]
