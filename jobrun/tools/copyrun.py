"""A committed epoch as a run of its own elsewhere: what ``resume`` needs, and nothing later.

The copy is put together in a directory that only it uses, and appears under its name by one
rename, whole. The original is only read.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from jobrun.checkpoint.copying import copy_file, publish
from jobrun.checkpoint.directory import epoch_name
from jobrun.checkpoint.rename import rename_new
from jobrun.core.errors import CheckpointError, UsageError
from jobrun.formats.files import make_directory, sync_directory
from jobrun.runner.durable import disk_faults, read_plain, write_whole
from jobrun.runner.journal import Journal
from jobrun.runner.record import write_record
from jobrun.runner.rundir import METRICS_NAME, Run
from jobrun.tools.checkpoints import Checkpoints
from jobrun.tools.exporting import expect_free

_PARTS = ("spec", "checkpoints", "logs", "artifacts", "superseded")
_DIRECTORY_MODE = 0o755


def copy_epoch(found: Checkpoints, epoch: int, target: Path) -> int:
    """Copy one epoch of a run, with what the run recorded of itself, to a new run directory.

    Args:
        found: The run's checkpoints.
        epoch: Which.
        target: The directory to be made; nothing may have its name.

    Returns:
        How many bytes of state were copied.

    Raises:
        UsageError: E434, something has the name; E421, the run keeps its epochs elsewhere.
        CheckpointError: The epoch is damaged; nothing appeared.
        EnvironmentFaultError: The disk says no; nothing appeared.
    """
    expect_free(target)
    if found.policy.directory:
        raise UsageError.of(
            "E421",
            f"{found.run.name} keeps its checkpoints in '{found.policy.directory}', outside its "
            "directory, and a copy would look for its own there, too",
            "start a run from this epoch: jobrun fork RUN@EPOCH",
        )
    damage = found.store.verify(epoch)
    if damage is not None:
        message = f"epoch {epoch} of {found.run.name} is damaged: {damage.reason}"
        mend = "choose another epoch; jobrun ckpt verify tells which are good"
        raise CheckpointError.of("E407", message, mend)
    with disk_faults(f"make {target}"):
        make_directory(target.absolute().parent)
        # Not in the directory of the copy's own epochs: nothing of others is near it.
        staged = target.absolute().parent / f".{target.name[:100]}.{secrets.token_hex(4)}"
        staged.mkdir(mode=_DIRECTORY_MODE)
    try:
        size = _fill(found, epoch, staged, target.absolute())
        with disk_faults(f"make {target}"):
            sync_directory(staged)
            try:
                rename_new(str(staged), str(target.absolute()))
            except FileExistsError:
                expect_free(target)
                raise
            sync_directory(target.absolute().parent)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    return size


def _fill(found: Checkpoints, epoch: int, staged: Path, target: Path) -> int:
    with disk_faults(f"make {target}"):
        for part in _PARTS:
            (staged / part).mkdir(mode=_DIRECTORY_MODE)
    size = _copy_state(found, epoch, staged / "checkpoints")
    run = found.run
    with disk_faults(f"copy {run.path} to {target}"):
        for path in sorted((run.path / "spec").iterdir()):
            write_whole(staged / "spec" / path.name, read_plain(path))
        write_whole(staged / METRICS_NAME, _metrics(run.path, epoch))
    generation = found.store.manifest(epoch).generation
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


def _copy_state(found: Checkpoints, epoch: int, place: Path) -> int:
    source = found.store.path(epoch)
    files = found.store.manifest(epoch).files
    staged = place / f".tmp-{epoch_name(epoch)}"
    for file in files:
        copy_file(str(Path(source, file.name)), str(staged), file)
    publish(source, str(staged), str(place / epoch_name(epoch)))
    return sum(file.size_bytes for file in files)


def _metrics(run: Path, epoch: int) -> bytes:
    """The lines of the metrics up to an epoch."""
    try:
        lines = read_plain(run / METRICS_NAME).splitlines(keepends=True)
    except FileNotFoundError:
        return b""
    return b"".join(line for line in lines if _epoch_of(line) <= epoch)


def _epoch_of(line: bytes) -> float:
    try:
        return int(json.loads(line)["epoch"])
    except (KeyError, TypeError, ValueError):
        # Torn, or nobody's: what nobody can read is not worth a copy.
        return float("inf")


def _parent(run: Run, target: Path) -> dict[str, Any]:
    """Lineage of a fork: the path to its parent's epochs begins at the copy."""
    parent = dict(run.record.parent)
    if "checkpoints" in parent:
        there = os.path.normpath(run.path / parent["checkpoints"])
        parent["checkpoints"] = os.path.relpath(there, target)
    return parent
