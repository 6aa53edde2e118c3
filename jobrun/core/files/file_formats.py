"""List the formats of data files (npy, csv, …) with the file name endings of each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

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
    return next((one for one in FILE_FORMATS if ending in endings_of(one)), None)


def suffix_of(path: str) -> str:
    """Return the file name ending of a path in lower case, by which its file format is found."""
    return Path(path).suffix.lower()
