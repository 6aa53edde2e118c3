"""Describe how two files that a proof compares differ: the first array and element, or byte."""

from __future__ import annotations

import filecmp
from pathlib import Path

import numpy as np

from jobrun.core.errors import JobrunError
from jobrun.formats.headers import members
from jobrun.formats.load_save import read_member
from jobrun.values import compare
from jobrun.values.blob_kinds import Value


def describe_file_difference(expected: Path, actual: Path, *, by_bytes: bool = False) -> str:
    """Compare a file of a proof with what it should be; describe how they differ, '' if not at all.

    Arrays in npy, npz, CSV, HDF5 and Parquet are compared by dtype, shape and bits, whatever else
    is in the file; any other file by its bytes.

    Args:
        expected: The file as it should be.
        actual: The file as it is.
        by_bytes: Files of the same arrays differ, too, if any other byte of them does.
    """
    if by_bytes and filecmp.cmp(expected, actual, shallow=False):
        return ""
    try:
        ours, theirs = members(str(expected)), members(str(actual))
        if missing := sorted({*ours} - {*theirs}):
            return f"it has no '{missing[0]}'"
        if more := sorted({*theirs} - {*ours}):
            return f"it has '{more[0]}', and should not"
        for member in ours or ("",):
            words = _member_difference(str(expected), str(actual), member)
            if words:
                return words
    except JobrunError:
        # The format is unknown, or the file holds something else than arrays.
        return _bytes_difference(expected.read_bytes(), actual.read_bytes())
    return _bytes_difference(expected.read_bytes(), actual.read_bytes()) if by_bytes else ""


def _member_difference(expected: str, actual: str, member: str) -> str:
    # The order of the axes in memory is no part of the value.
    values = (np.asarray(read_member(path, member), order="C") for path in (expected, actual))
    differs = compare.find_difference(*values)
    if differs is None:
        return ""
    element, words = first_element(differs)
    where = member + (f"[{', '.join(map(str, element))}]" if element else "")
    return f"{where}: {words}" if where else words


def _bytes_difference(expected: bytes, actual: bytes) -> str:
    if expected == actual:
        return ""
    pairs = enumerate(zip(expected, actual, strict=False))
    at = next(
        (at for at, (byte, actual_byte) in pairs if byte != actual_byte),
        min(len(expected), len(actual)),
    )
    sizes = (
        ""
        if len(expected) == len(actual)
        else (f"; it has {len(actual)} bytes, not {len(expected)}")
    )
    return f"its bytes differ from byte {at} on{sizes}"


def first_element(differs: compare.Difference) -> tuple[tuple[int, ...], str]:
    """Judge two arrays of a proof: find and describe the first element that differs by bits."""
    if differs.what != "bits":
        return (), f"it {differs.words}"
    first, second = np.asarray(differs.expected), np.asarray(differs.found)
    if first.ndim == 0:
        return (), f"it is {_shown(differs.found)}, not {_shown(differs.expected)}"
    width = first.dtype.itemsize
    bits = [
        np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(-1, width)
        for array in (first, second)
    ]
    at = int(np.flatnonzero((bits[0] != bits[1]).any(axis=1))[0])
    element = tuple(int(index) for index in np.unravel_index(at, first.shape))
    return element, f"it is {second[element]}, not {first[element]}"


def _shown(value: Value) -> str:
    # Numpy's own form of a scalar names its type, which is the same in both.
    return str(value) if isinstance(value, np.generic) else repr(value)
