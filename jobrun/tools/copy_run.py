"""Copy one epoch of a run to a new run directory that ``resume`` can continue.

The copy is put together in a directory that only it uses, and appears under its name by one
rename, whole. The original is only read.
"""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import closing
from pathlib import Path
from typing import IO, Any

from jobrun.checkpoint.stores.directory import epoch_name
from jobrun.checkpoint.stores.epoch_copy import copy_file, publish_copy
from jobrun.core.errors import CheckpointError, UsageError
from jobrun.core.files.disk import (
    disk_faults,
    make_directory,
    read_regular,
    rename_noreplace,
    replace_file,
    sync_directory,
    write_file,
)
from jobrun.core.files.json_lines import read_lines
from jobrun.core.lazy_dataclass import replace
from jobrun.runner.rundir.journal import Journal
from jobrun.runner.rundir.logs import epoch_of_line
from jobrun.runner.rundir.run_directories import METRICS_NAME, USAGE_NAME, Run
from jobrun.runner.rundir.run_json import write_record
from jobrun.tools.checkpoint_maintenance import Checkpoints
from jobrun.tools.export import require_free_path

_PARTS = ("spec", "checkpoints", "logs", "artifacts", "superseded")
_DIRECTORY_MODE = 0o755


def copy_epoch(found: Checkpoints, epoch: int, target: Path) -> int:
    """Copy one epoch of a run, with the run's record, to a new run directory.

    Args:
        found: The run's checkpoints.
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
        mend = "choose another epoch; jobrun ckpt verify lists the good ones"
        raise CheckpointError.of("E407", message, mend)
    with disk_faults("E354", f"make {target}"):
        make_directory(target.absolute().parent)
        # Not in the directory of the copy's own epochs: nothing of others is near it.
        staged = target.absolute().parent / f".{target.name[:100]}.{secrets.token_hex(4)}"
        # A copy is not open to more users than the run, which may hold secrets.
        staged.mkdir(mode=_DIRECTORY_MODE & found.run.path.stat().st_mode)
    try:
        size = _fill(found, epoch, staged, target.absolute())
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


def _fill(found: Checkpoints, epoch: int, staged: Path, target: Path) -> int:
    with disk_faults("E354", f"make {target}"):
        for part in _PARTS:
            (staged / part).mkdir(mode=_DIRECTORY_MODE)
    size = _copy_state(found, epoch, staged / "checkpoints")
    run = found.run
    with disk_faults("E354", f"copy {run.path} to {target}"):
        for path in sorted((run.path / "spec").iterdir()):
            write_file(staged / "spec" / path.name, read_regular(path), private=True)
        for name in (METRICS_NAME, USAGE_NAME):
            _copy_lines(run.path, staged, name, epoch)
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
    publish_copy(source, str(staged), str(place / epoch_name(epoch)))
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
