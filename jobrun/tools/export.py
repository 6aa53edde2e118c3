"""Take a checkpoint out of a run: export blobs to files of other formats, or copy one epoch.

Blobs become npz, csv or safetensors; one is in memory at a time. An epoch is copied to a new run
directory that ``resume`` can continue. The original is only read. What is written is put together
aside, appears whole by one rename, and replaces no other file unless asked to.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from jobrun.checkpoint.hdf5.dataset_names import is_structure
from jobrun.checkpoint.hdf5.dtypes import is_custom, parse_dtype
from jobrun.checkpoint.stores.directory import epoch_name
from jobrun.checkpoint.stores.epoch_copy import copy_file, publish_copy
from jobrun.core.errors import CheckpointError, Fault, UsageError
from jobrun.core.files.disk import (
    disk_faults,
    make_directory,
    read_regular,
    replace_file,
    sync_directory,
    write_file,
)
from jobrun.core.files.json_files import read_lines
from jobrun.core.system_calls import rename_noreplace
from jobrun.core.text.names import did_you_mean
from jobrun.formats.csv import write_table
from jobrun.formats.npy import NO_TIME, write_npy
from jobrun.runner.rundir.journal import Journal
from jobrun.runner.rundir.logs import epoch_of_line
from jobrun.runner.rundir.run_directories import METRICS_NAME, USAGE_NAME, Run
from jobrun.runner.rundir.run_json import write_record
from jobrun.tools.checkpoint_maintenance import Checkpoints
from jobrun.tools.lazy_blobs import StoredBlob, StoredEpoch, StoredNode, open_node

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]
Format = Literal["npz", "csv", "safetensors"]

# The format's names of the dtypes of numpy and ml_dtypes.
_SAFETENSORS = {
    "bool": "BOOL", "int8": "I8", "uint8": "U8", "int16": "I16", "uint16": "U16",
    "int32": "I32", "uint32": "U32", "int64": "I64", "uint64": "U64", "float16": "F16",
    "bfloat16": "BF16", "float32": "F32", "float64": "F64", "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}  # fmt: skip
_RESERVED = "__metadata__"
_ALIGNMENT = 8
_FORCE = "name another one, or add --force to replace it"

# Subdirectories of a copied run.
_PARTS = ("spec", "checkpoints", "logs", "artifacts", "superseded")
_DIRECTORY_MODE = 0o755


class Exported(Struct, frozen=True):
    """The result of an export.

    Attributes:
        names: What the blobs are called in the file, in its order.
        left_out: Name and reason of each that the format cannot hold.
    """

    names: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]


class _Item(Struct, frozen=True):
    """A blob to export: its name, its type, and how to get its value."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    read: Callable[[], Array]


def export(
    stored: StoredEpoch,
    file_format: Format,
    path: Path,
    patterns: Sequence[str] = (),
    *,
    force: bool,
) -> Exported:
    """Export blobs of a checkpoint to one npz, csv or safetensors file.

    Args:
        stored: The checkpoint.
        file_format: Of the file.
        path: The file.
        patterns: Names of blobs, such as ``w*`` or ``node.w``; without one, all that the format
            can hold.
        force: An older file may be replaced.

    Raises:
        UsageError: E406, a pattern means nothing; E421, the format cannot hold what was asked
            for; E434, the file is there.
        CheckpointError: The checkpoint is damaged; nothing was written.
        EnvironmentFaultError: Writing or deleting fails.
    """
    if not force:
        require_free_path(path, _FORCE)
    with _opened(stored) as nodes:
        blobs = _chosen(nodes, patterns)
        several = len(nodes) > 1
        items, refused = [], []
        for node, blob in blobs:
            item = _item(node, blob, several=several)
            reason = _refusal(item, file_format)
            if reason:
                refused.append((item.name, reason))
            else:
                items.append(item)
        _expect_holdable(items, refused, file_format, asked=bool(patterns))
        about = {"run_id": stored.run_id, "epoch": str(stored.epoch)}
        ordered = _ordered(items) if file_format == "safetensors" else items
        write_new_file(path, partial(_write, file_format, ordered, about, str(path)), force=force)
    return Exported(tuple(item.name for item in ordered), tuple(refused))


def require_free_path(path: Path, mend: str = "name another one") -> None:
    """Refuse to export to a path at which a file exists already."""
    if path.is_symlink() or path.exists():
        raise UsageError.of("E434", f"{path} already exists", mend)


def write_new_file(path: Path, write: Callable[[IO[bytes]], None], *, force: bool) -> None:
    """Write an exported file atomically and durably.

    Args:
        path: The file.
        write: Gets the open file.
        force: It may take the place of another one.

    Raises:
        UsageError: E434, the file is there.
        EnvironmentFaultError: Writing or deleting fails.
    """
    with disk_faults("E354", f"write {path}"):
        if force:
            replace_file(str(path), write)
            return
        staged = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}")
        try:
            replace_file(str(staged), write)
            with contextlib.suppress(FileExistsError):
                rename_noreplace(str(staged), str(path))
                sync_directory(path.parent)
                return
        finally:
            staged.unlink(missing_ok=True)
    require_free_path(path, _FORCE)


@contextmanager
def _opened(stored: StoredEpoch) -> Iterator[list[StoredNode]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(open_node(*file)) for file in stored.files]


def _chosen(
    nodes: Sequence[StoredNode], patterns: Sequence[str]
) -> list[tuple[StoredNode, StoredBlob]]:
    all_ = [(node, blob) for node in nodes for blob in node.blobs if not is_structure(blob.name)]
    for pattern in patterns:
        if not any(_means(pattern, blob) for _, blob in all_):
            names = [blob.name for _, blob in all_]
            message = f"no blob of the checkpoint is called '{pattern}'"
            raise UsageError.of("E406", message, did_you_mean(pattern, names))
    return [
        (node, blob)
        for node, blob in all_
        if not patterns or any(_means(pattern, blob) for pattern in patterns)
    ]


def _means(pattern: str, blob: StoredBlob) -> bool:
    # A whole object too, whose parts are called after it.
    names = (blob.name, blob.name.partition("/")[0])
    return any(fnmatchcase(n, pattern) or fnmatchcase(f"{blob.node}.{n}", pattern) for n in names)


def _item(node: StoredNode, blob: StoredBlob, *, several: bool) -> _Item:
    name = f"{blob.node}.{blob.name}" if several else blob.name

    def read() -> Array:
        value = node.read(blob.name)
        return np.asarray(getattr(value, "value", value))

    if blob.kind in {"array", "numpy"}:
        return _Item(name, parse_dtype(blob.dtype), blob.shape, read)
    # One number, or a text: its type in numpy is known when it is read.
    array = read()
    return _Item(name, array.dtype, array.shape, read)


def _refusal(item: _Item, file_format: Format) -> str:
    """Explain why a blob cannot be exported to a format; empty if it can."""
    description = f"{item.dtype} of shape {item.shape}"
    match file_format:
        case "npz":
            is_foreign = is_custom(item.dtype) or item.dtype.hasobject
            return f"npz has no {item.dtype}" if is_foreign else ""
        case "csv":
            is_table = item.dtype.kind in "biufU" and len(item.shape) in {1, 2}
            return "" if is_table else f"a table cannot hold {description}"
        case "safetensors":
            known = item.dtype.name in _SAFETENSORS and item.name != _RESERVED
            return "" if known else f"safetensors has no {item.dtype}"


def _expect_holdable(
    items: list[_Item], refused: list[tuple[str, str]], file_format: Format, *, asked: bool
) -> None:
    if refused and (asked or not items):
        mend = "leave it out with --blob, or choose another --format"
        raise UsageError(
            *(Fault("E421", f"blob '{name}': {reason}", mend) for name, reason in refused)
        )
    if not items:
        mend = "see what it holds: jobrun inspect-checkpoint"
        raise UsageError.of("E421", "the checkpoint holds no blob", mend)
    if file_format == "csv" and len(items) > 1:
        names = ", ".join(item.name for item in items[:5]) + (", …" if len(items) > 5 else "")
        raise UsageError.of(
            "E421",
            f"csv holds one blob, but {len(items)} are selected: {names}",
            f"choose one, such as --blob '{items[0].name}', or --format npz",
        )


def _write(
    file_format: Format, items: Sequence[_Item], about: dict[str, str], path: str, file: IO[bytes]
) -> None:
    match file_format:
        case "npz":
            _write_npz(file, items)
        case "csv":
            array = items[0].read()
            columns = {items[0].name: array} if array.ndim == 1 else {"": array}
            write_table(file, f"{path}.csv", columns)
        case "safetensors":
            _write_safetensors(file, items, about)


def _write_npz(file: IO[bytes], items: Sequence[_Item]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for item in items:
            entry = zipfile.ZipInfo(f"{item.name}.npy", NO_TIME)
            entry.external_attr = 0o644 << 16
            with archive.open(entry, "w", force_zip64=True) as stream:
                write_npy(stream, item.read())


def _ordered(items: Sequence[_Item]) -> list[_Item]:
    """Sort blobs to export by descending item size, so that each array is aligned in the file."""
    return sorted(items, key=lambda item: (-item.dtype.itemsize, item.name))


def _write_safetensors(file: IO[bytes], items: Sequence[_Item], about: dict[str, str]) -> None:
    """Export blobs as a safetensors file: length of the header (8 bytes), JSON header, data."""
    header: dict[str, Any] = {_RESERVED: about}
    end = 0
    for item in items:
        begin, end = end, end + item.dtype.itemsize * int(np.prod(item.shape, dtype=object))
        header[item.name] = {
            "dtype": _SAFETENSORS[item.dtype.name],
            "shape": list(item.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    file.write(len(text).to_bytes(8, "little") + text)
    for item in items:
        array = np.ascontiguousarray(item.read())
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        file.write(little.reshape(-1).view(np.uint8).data)


def copy_epoch(checkpoints: Checkpoints, epoch: int, target: Path) -> int:
    """Copy one epoch of a run, with the run's record, to a new run directory.

    Args:
        checkpoints: The run's checkpoints.
        epoch: Which.
        target: The directory to be made; nothing may have its name.

    Returns:
        How many bytes of state were copied.

    Raises:
        UsageError: E434, something has the name; E421, the run keeps its epochs elsewhere.
        CheckpointError: The epoch is damaged; nothing appeared.
        EnvironmentFaultError: Writing failed; nothing appeared.
    """
    require_free_path(target)
    if checkpoints.policy.directory:
        raise UsageError.of(
            "E421",
            f"{checkpoints.run.name} keeps its checkpoints in '{checkpoints.policy.directory}', "
            "outside its directory, and a copy would look for its own there, too",
            "start a run from this epoch: jobrun fork RUN@EPOCH",
        )
    damage = checkpoints.store.verify(epoch)
    if damage is not None:
        message = f"epoch {epoch} of {checkpoints.run.name} is damaged: {damage.reason}"
        mend = "choose another epoch; jobrun ckpt verify lists the good ones"
        raise CheckpointError.of("E407", message, mend)
    with disk_faults("E354", f"make {target}"):
        make_directory(target.absolute().parent)
        # Next to the copy, not in its directory of epochs, which holds its own files only.
        staged = target.absolute().parent / f".{target.name[:100]}.{secrets.token_hex(4)}"
        # A copy is not open to more users than the run, which may hold secrets.
        staged.mkdir(mode=_DIRECTORY_MODE & checkpoints.run.path.stat().st_mode)
    try:
        size = _fill(checkpoints, epoch, staged, target.absolute())
        with disk_faults("E354", f"make {target}"):
            sync_directory(staged)
            try:
                rename_noreplace(str(staged), str(target.absolute()))
            except FileExistsError:
                require_free_path(target)
                raise
            sync_directory(target.absolute().parent)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    return size


def _fill(checkpoints: Checkpoints, epoch: int, staged: Path, target: Path) -> int:
    with disk_faults("E354", f"make {target}"):
        for part in _PARTS:
            (staged / part).mkdir(mode=_DIRECTORY_MODE)
    size = _copy_state(checkpoints, epoch, staged / "checkpoints")
    run = checkpoints.run
    with disk_faults("E354", f"copy {run.path} to {target}"):
        for path in sorted((run.path / "spec").iterdir()):
            write_file(staged / "spec" / path.name, read_regular(path), private=True)
        for name in (METRICS_NAME, USAGE_NAME):
            _copy_lines(run.path, staged, name, epoch)
    generation = checkpoints.store.manifest(epoch).generation
    with closing(Journal.open(staged, run.record.run_id)) as journal:
        journal.acknowledge(epoch, generation)
    record = replace(
        run.record,
        status="stopped",
        epoch=epoch,
        exit_code=None,
        reason=f"copied from {run.name} after epoch {epoch}",
        folder=os.path.relpath(run.folder, target),
        parent=_parent(run, target),
    )
    write_record(staged, record)
    return size


def _copy_state(checkpoints: Checkpoints, epoch: int, folder: Path) -> int:
    source = checkpoints.store.path(epoch)
    files = checkpoints.store.manifest(epoch).files
    staged = folder / f".tmp-{epoch_name(epoch)}"
    for file in files:
        copy_file(str(Path(source, file.name)), str(staged), file)
    publish_copy(source, str(staged), str(folder / epoch_name(epoch)))
    return sum(file.size_bytes for file in files)


def _copy_lines(run: Path, staged: Path, name: str, epoch: int) -> None:
    """Copy the lines of a log into the copied run, as far as its epoch; omit unreadable ones."""

    def write(file: IO[bytes]) -> None:
        for line in read_lines(run / name):
            if epoch_of_line(line) <= epoch:
                file.write(line)

    if os.path.isfile(run / name):  # noqa: PTH113 - a pipe is passed over
        replace_file(str(staged / name), write)


def _parent(run: Run, target: Path) -> dict[str, Any]:
    """Return a copied run's record of its parent, with the path to it relative to the copy."""
    parent = dict(run.record.parent)
    if "checkpoints" in parent:
        there = os.path.normpath(run.path / parent["checkpoints"])
        parent["checkpoints"] = os.path.relpath(there, target)
    return parent
