"""Build the errors of data files, each with the file, the member and the fix."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from jobrun.core import file_formats
from jobrun.core.errors import EnvironmentFaultError, TaskFailedError
from jobrun.core.text.names import did_you_mean
from jobrun.core.text.patterns import lazy_pattern

_SCHEME = lazy_pattern(r"(?:^|/)([a-z][a-z0-9+.-]+):/")
UNEVEN_MEND = (
    "read them with readers of their own, or make them one length; where one holds lengths of "
    "parts of the other, name both in one field: {values: …, lengths: …}"
)


def copying_mend(path: str) -> str:
    """Return advice to copy what a URL names in place of a data file; empty for a path.

    Args:
        path: As it was written, or below the folder of the spec, where ``//`` became ``/``.
    """
    if (scheme := _SCHEME.search(path)) is None:
        return ""
    return f"{scheme[1]}:// is a URL, no path: copy it to a file first, such as by a 'run' step"


def missing_file(path: str) -> EnvironmentFaultError:
    """Build the error for a data file that does not exist; suggest the nearest name."""
    if mend := copying_mend(path):
        return EnvironmentFaultError.of("E280", f"there is no file {path}", mend)
    folder = Path(path).parent
    if not folder.is_dir():
        return EnvironmentFaultError.of(
            "E280", f"there is no file {path}", f"there is no folder {folder}"
        )
    near = did_you_mean(Path(path).name, [item.name for item in folder.iterdir()])
    return EnvironmentFaultError.of("E280", f"there is no file {path}", near)


def missing_member(path: str, member: str, known: Iterable[str]) -> EnvironmentFaultError:
    """Build the error for a member that the data file does not have."""
    return EnvironmentFaultError.of(
        "E281", f"{path} has no member '{member}'", did_you_mean(member, known)
    )


def unnamed_member(path: str, known: Iterable[str]) -> EnvironmentFaultError:
    """Build error E281: a data file has no members, or has several and the spec names none."""
    names = sorted(known)
    if not names:
        return EnvironmentFaultError.of("E281", f"{path} has no members", "see how it was made")
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return EnvironmentFaultError.of(
        "E281", f"{path} has several members", f"write '{path}::{names[0]}'; there are {shown}"
    )


def no_members(path: str, member: str) -> EnvironmentFaultError:
    """Build the error for a spec that names a member of a data file that is one array."""
    return EnvironmentFaultError.of(*file_formats.no_members(path, member))


def unreadable(path: str, why: object) -> EnvironmentFaultError:
    """Build the error for a data file that is damaged, or not of the format of its suffix."""
    return EnvironmentFaultError.of(
        "E282", f"cannot read {path}: {why}", "see whether it is whole and what its name says"
    )


def cut_short(path: str, size_bytes: int, expected_bytes: int) -> EnvironmentFaultError:
    """Build the error for a data file that is cut short, so that data are missing."""
    return unreadable(path, f"it is cut short: {size_bytes} bytes, expected {expected_bytes}")


def no_format(path: str) -> EnvironmentFaultError:
    """Build the error for a data file whose name ends with no known format's suffix."""
    return EnvironmentFaultError.of(*file_formats.unknown_format(path))


def holds_objects(path: str, member: str = "") -> EnvironmentFaultError:
    """Build the error for a data file with pickled objects, whose loading could run any code."""
    source = f"{path}::{member}" if member else path
    return EnvironmentFaultError.of(
        "E284",
        f"{source} holds Python objects",
        "save it again with one numeric dtype, or one array per member",
    )


def hostile(path: str, member: str, reason: str) -> EnvironmentFaultError:
    """Build error E287: reading this data file could open other files or exhaust the memory."""
    return EnvironmentFaultError.of(
        "E287", f"refused to read {path}::{member}: {reason}", "copy the data into a plain dataset"
    )


def uneven(path: str, first: tuple[str, int], second: tuple[str, int]) -> EnvironmentFaultError:
    """Build error E288: two members of a data file, read together, differ in length."""
    return EnvironmentFaultError.of(
        "E288",
        f"the members of {path} differ in length: '{first[0]}' has {first[1]} rows, '{second[0]}' "
        f"{second[1]}",
        UNEVEN_MEND,
    )


def lengths(path: str, name: str, why: str, mend: str) -> EnvironmentFaultError:
    """Build error E514: lengths in a data file do not fit the values of a ragged field."""
    return EnvironmentFaultError.of("E514", f"'{name}' of {path} {why}", mend)


def flat_values(path: str, values: str, name: str) -> EnvironmentFaultError:
    """Build error E515: a spec reads ragged values of a data file but not their row lengths."""
    return EnvironmentFaultError.of(
        "E515",
        f"'{values}' of {path} would be read row by row, but '{name}' adds up to as many values: "
        "by their names and numbers, each record is several of the values, or none",
        f"write fields: {{{values}: {{values: {values}, lengths: {name}}}}}; if each of the values "
        f"is a record, give '{name}' another name in the file, or zip two readers",
    )


def no_rows(path: str, member: str) -> EnvironmentFaultError:
    """Build error E288: an array in a data file is a single value and has no rows."""
    source = f"{path}::{member}" if member else path
    return EnvironmentFaultError.of(
        "E288", f"{source} is a single value and has no rows", "load it in init instead"
    )


def too_large(path: str, member: str, size: int, most: int) -> EnvironmentFaultError:
    """Build the error for a member of a data file that would need too much memory."""
    return EnvironmentFaultError.of(
        "E289",
        f"{path}::{member} is compressed, so it can only be read whole: {size} bytes, and {most} "
        "are the most",
        "save it with numpy.savez instead of savez_compressed, or as an .npy or .h5 file",
    )


def needs_extra(path: str, package: str) -> EnvironmentFaultError:
    """Build the error for a data format that needs an optional package."""
    return EnvironmentFaultError.of(
        "E293",
        f"reading {path} needs the package '{package}'",
        "install it: pip install 'jobrun[parquet]'",
    )


def no_column(path: str, name: str, why: str) -> EnvironmentFaultError:
    """Build error E288: the rows of a table's column are neither numbers nor text."""
    return EnvironmentFaultError.of(
        "E288",
        f"cannot read the rows of {path}::{name}: {why}",
        "convert the column to numbers or text, or select other fields",
    )


def unwritable(path: str, member: str, why: str, mend: str) -> TaskFailedError:
    """Build the error for a value that the format of a data file cannot hold."""
    target = f"{path}::{member}" if member else path
    return TaskFailedError.of("E286", f"cannot save to {target}: {why}", mend)
