"""The errors of data files, each with the file, the member and the mend. Raises nothing itself."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from jobrun.core.errors import EnvironmentFaultError, TaskFailedError
from jobrun.core.names import did_you_mean


def missing_file(path: str) -> EnvironmentFaultError:
    """No file of that name; the nearest one in its folder is offered."""
    folder = Path(path).parent
    if not folder.is_dir():
        return EnvironmentFaultError.of(
            "E280", f"there is no file {path}", f"there is no folder {folder}"
        )
    near = did_you_mean(Path(path).name, [item.name for item in folder.iterdir()])
    return EnvironmentFaultError.of("E280", f"there is no file {path}", near)


def missing_member(path: str, member: str, known: Iterable[str]) -> EnvironmentFaultError:
    """The file has no member of that name."""
    return EnvironmentFaultError.of(
        "E281", f"{path} has no member '{member}'", did_you_mean(member, known)
    )


def unnamed_member(path: str, known: Iterable[str]) -> EnvironmentFaultError:
    """The file has several members, or none, and the spec does not say which."""
    names = sorted(known)
    if not names:
        return EnvironmentFaultError.of("E281", f"{path} has no members", "see how it was made")
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return EnvironmentFaultError.of(
        "E281", f"{path} has several members", f"write '{path}::{names[0]}'; there are {shown}"
    )


def no_members(path: str, member: str) -> EnvironmentFaultError:
    """The format has no members, and one is asked for."""
    return EnvironmentFaultError.of(
        "E281", f"{path} holds one array and has no member '{member}'", f"write '{path}' alone"
    )


def unreadable(path: str, why: object) -> EnvironmentFaultError:
    """The file is cut short, damaged, or not what its name says."""
    return EnvironmentFaultError.of(
        "E282", f"cannot read {path}: {why}", "see whether it is whole and what its name says"
    )


def cut_short(path: str, size_bytes: int, expected_bytes: int) -> EnvironmentFaultError:
    """The file ends before its data do."""
    return unreadable(path, f"it is cut short: {size_bytes} bytes, expected {expected_bytes}")


def no_format(path: str) -> EnvironmentFaultError:
    """No reader or writer goes by the end of that name."""
    suffix = Path(path).suffix
    kind = f"'{suffix}' files" if suffix else "a name without an ending"
    return EnvironmentFaultError.of(
        "E283",
        f"no data format is known for {kind}: {path}",
        "use .npy, .npz, .csv, .tsv, .h5 or .hdf5; .parquet is read, and never written",
    )


def holds_objects(path: str, member: str = "") -> EnvironmentFaultError:
    """The file holds Python objects, which are not read: reading them can run any code."""
    what = f"{path}::{member}" if member else path
    return EnvironmentFaultError.of(
        "E284",
        f"{what} holds Python objects",
        "save it again with one numeric dtype, or one array per member",
    )


def hostile(path: str, member: str, how: str) -> EnvironmentFaultError:
    """The file makes use of what could read other files, or endless memory."""
    return EnvironmentFaultError.of(
        "E287", f"refused to read {path}::{member}: {how}", "copy the data into a plain dataset"
    )


def ragged(path: str, one: tuple[str, int], other: tuple[str, int]) -> EnvironmentFaultError:
    """Two members, each with its length, that should be columns of one table."""
    return EnvironmentFaultError.of(
        "E288",
        f"the members of {path} differ in length: '{one[0]}' has {one[1]} rows, '{other[0]}' "
        f"{other[1]}",
        "read them with readers of their own, or make them one length",
    )


def no_rows(path: str, member: str) -> EnvironmentFaultError:
    """A single number where rows are wanted."""
    what = f"{path}::{member}" if member else path
    return EnvironmentFaultError.of(
        "E288", f"{what} is a single value and has no rows", "load it in init instead"
    )


def too_large(path: str, member: str, size: int, most: int) -> EnvironmentFaultError:
    """What can only be read whole, and would take too much memory."""
    return EnvironmentFaultError.of(
        "E289",
        f"{path}::{member} is compressed, so it can only be read whole: {size} bytes, and {most} "
        "are the most",
        "save it with numpy.savez instead of savez_compressed, or as an .npy or .h5 file",
    )


def needs_extra(path: str, package: str) -> EnvironmentFaultError:
    """A format that an optional package reads."""
    return EnvironmentFaultError.of(
        "E293",
        f"reading {path} needs the package '{package}'",
        "install it: pip install 'jobrun[parquet]'",
    )


def no_column(path: str, name: str, why: str) -> EnvironmentFaultError:
    """A column that is no array of numbers or text."""
    return EnvironmentFaultError.of(
        "E288", f"cannot read the rows of {path}::{name}: {why}",
        "convert the column to numbers or text, or select other fields",
    )  # fmt: skip


def unwritable(path: str, member: str, why: str, mend: str) -> TaskFailedError:
    """The format cannot hold the value."""
    what = f"{path}::{member}" if member else path
    return TaskFailedError.of("E286", f"cannot save to {what}: {why}", mend)
