"""List the formats of data files (npy, csv, …) with the file name endings of each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from jobrun.core.codes import Code

FileFormat = Literal["npy", "npz", "hdf5", "csv", "parquet"]
FILE_FORMATS: tuple[FileFormat, ...] = get_args(FileFormat)

_ENDINGS: Mapping[str, tuple[str, ...]] = {"hdf5": (".h5", ".hdf5"), "csv": (".csv", ".tsv")}


def endings_of(file_format: str) -> tuple[str, ...]:
    """List the file name endings that a file format such as csv has, the usual one first.

    >>> endings_of("csv")
    ('.csv', '.tsv')
    """
    return _ENDINGS.get(file_format, (f".{file_format}",))


def format_of(ending: str) -> FileFormat | None:
    """Return the file format (npy, csv, …) that a file name ending such as ``.tsv`` means, or None.

    >>> format_of(".tsv")
    'csv'
    """
    return next(
        (file_format for file_format in FILE_FORMATS if ending in endings_of(file_format)), None
    )


def suffix_of(path: str) -> str:
    """Return the file name ending of a path in lower case, by which its file format is found."""
    return Path(path).suffix.lower()


class Misfit(NamedTuple):
    """Why a file cannot be read or written under its name, as parts of a fault."""

    code: Code
    message: str
    mend: str


def find_misfit(path: str, member: str, *, writes: bool) -> Misfit | None:
    """Return why the name of a data file does not fit the member in it, or None.

    Args:
        path: The file, or the end of its path.
        member: The part after ``::``, or empty.
        writes: The file is saved, not loaded.
    """
    file_format = format_of(suffix_of(path))
    if file_format is None or (writes and file_format == "parquet"):
        return unknown_format(path)
    if file_format == "npy" and member:
        if not writes:
            return no_members(path, member)
        why = "an .npy file holds one array without a name"
        return Misfit("E286", f"cannot save to {path}::{member}: {why}", "use an .npz file")
    if file_format in ("npz", "hdf5") and writes and not member:
        why = "each array in such a file has a name"
        return Misfit("E286", f"cannot save to {path}: {why}", f"write '{path}::name'")
    return None


def unknown_format(path: str) -> Misfit:
    """Return that no data file can have a name with this ending."""
    ending = Path(path).suffix
    kind = f"'{ending}' files" if ending else "a name without an ending"
    mend = "use .npy, .npz, .csv, .tsv, .h5 or .hdf5; .parquet is read, and never written"
    return Misfit("E283", f"no data format is known for {kind}: {path}", mend)


def no_members(path: str, member: str) -> Misfit:
    """Return that a data file is one array, although the spec names a member of it."""
    message = f"{path} holds one array and has no member '{member}'"
    return Misfit("E281", message, f"write '{path}' alone")
