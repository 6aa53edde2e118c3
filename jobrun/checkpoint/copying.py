"""Copying an epoch to another directory: file by file, verified, and then at once. Not where to.

The copy appears as the original did: staged beside its place under a name that readers
ignore, its files made durable, the manifest written last, one rename. It never replaces a
different one, and what an interrupted copy left is used again where its bytes are right.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace
from pathlib import Path

from jobrun.checkpoint import manifest as manifests
from jobrun.checkpoint.directory import DirectoryStore, write_manifest
from jobrun.checkpoint.plainfile import read_plain
from jobrun.checkpoint.presence import damage_of
from jobrun.checkpoint.rename import rename_new
from jobrun.checkpoint.store import Manifest, StoredFile
from jobrun.checkpoint.verifying import verified_pieces
from jobrun.core.crashpoints import reach
from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.formats.files import disk_faults, sync_directory, write_all

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY_MODE = 0o755


def copy_file(source: str, staged: str, expected: StoredFile) -> StoredFile:
    """Copy a node's file into a staging directory, durably; what is there already is kept.

    Args:
        source: The file of a committed epoch.
        staged: The directory; made, with those above it, if it is not there.
        expected: What the manifest says of the file.

    Returns:
        The facts about the copy, with the seconds that it took.

    Raises:
        CheckpointError: The source is not what the manifest says; nothing was copied.
        EnvironmentFaultError: The disk says no.
    """
    started = time.perf_counter()
    with disk_faults("E318", f"copy {source} to {staged}"):
        _make_directory(Path(staged))
        place = Path(staged, expected.name)
        if damage_of(staged, expected, whole=True):
            place.unlink(missing_ok=True)
            reach("upload.begun")
            try:
                _copy(source, place, expected)
            except BaseException:
                with contextlib.suppress(OSError):
                    place.unlink()
                raise
        reach("upload.file-synced")
    return replace(expected, seconds=time.perf_counter() - started)


def publish(directory: str, staged: str, target: str) -> None:
    """Make the staged copy of an epoch exist at ``target``.

    ::

        compare each copied file with the manifest of the original, byte for byte
        write the manifest, sync it            # last: without it there is no epoch
        sync the staging directory; rename it, replacing nothing; sync the parent

    Args:
        directory: That of the original.
        staged: Where ``copy_file`` has put its files; beside ``target``.
        target: The name the copy gets. If an equal one is there, nothing is left to do.

    Raises:
        CheckpointError: The manifest of the original is damaged.
        EnvironmentFaultError: A different one is there, what was copied is not what is
            there, or the disk says no.
    """
    original = str(Path(directory, manifests.NAME))
    data = read_plain(original, most_bytes=manifests.MOST_BYTES)
    manifest = manifests.decode(data, original)
    with disk_faults("E318", f"copy epoch {manifest.epoch} to {target}"):
        if not is_same(target, manifest):
            _make_directory(Path(staged))
            _expect_whole(staged, manifest)
            place = Path(staged, manifests.NAME)
            place.unlink(missing_ok=True)
            write_manifest(place, data)
            reach("upload.manifest-written")
            sync_directory(staged)
            try:
                rename_new(staged, target)
            except FileExistsError:
                if not is_same(target, manifest):
                    raise
        reach("upload.renamed")
        sync_directory(Path(target).parent)
    # Also the rest of an upload of another epoch that was cut short.
    DirectoryStore(str(Path(target).parent)).sweep()
    reach("upload.published")


def is_same(target: str, manifest: Manifest) -> bool:
    """Whether the copy of an epoch is at ``target``; False when nothing is there.

    Its manifest has to name the same files of the same run, and these have to be there in
    their lengths. Their bytes were compared before the copy got its name.

    Raises:
        EnvironmentFaultError: Something else is there.
    """
    if not os.path.lexists(target):
        return False
    path = str(Path(target, manifests.NAME))
    try:
        found = manifests.decode(read_plain(path, most_bytes=manifests.MOST_BYTES), path)
    except CheckpointError as error:
        raise _different(target, error.faults[0].message) from error
    if identity(found) != identity(manifest):
        raise _different(target, f"it is epoch {found.epoch} of run {found.run_id}, or was "
                                 "computed again since")  # fmt: skip
    for file in manifest.files:
        reason = damage_of(target, file, whole=False)
        if reason:
            raise _different(target, reason)
    return True


def identity(manifest: Manifest) -> tuple[object, ...]:
    """What two manifests of the same checkpoint have in common."""
    return (manifest.epoch, manifest.run_id, manifest.generation, manifest.files)


def _different(target: str, how: str) -> EnvironmentFaultError:
    return EnvironmentFaultError.of(
        "E319",
        f"{target} is there already and is not this checkpoint: {how}",
        "move it away, or upload to another directory, then resume",
    )


def _expect_whole(staged: str, manifest: Manifest) -> None:
    for file in manifest.files:
        reason = damage_of(staged, file, whole=True)
        if reason:
            raise EnvironmentFaultError.of(
                "E320",
                f"the copy in {staged} is not what was copied: {reason}",
                "check the disk, and that nothing else writes there, then resume",
            )


def _copy(source: str, place: Path, expected: StoredFile) -> None:
    with disk_faults("E318", f"write {place}"):
        writing = os.open(place, _FLAGS, 0o644)
        try:
            for piece in verified_pieces(source, expected.digest):
                write_all(writing, piece)
                reach("upload.file-part-written")
            os.fsync(writing)
        finally:
            os.close(writing)


def _make_directory(path: Path) -> None:
    """Make a directory and those above it; each new name is durable."""
    if path.is_dir():
        return
    _make_directory(path.parent)
    path.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
    sync_directory(path.parent)
