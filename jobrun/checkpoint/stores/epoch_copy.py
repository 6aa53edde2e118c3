"""Copy an epoch to another directory, verified file by file, and publish it by one rename.

The copy appears as the original did: staged beside its place under a name that readers
ignore, its files made durable, the manifest written last, one rename. It never replaces a
different one, and what an interrupted copy left is used again where its bytes are right.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from msgspec.structs import replace

from jobrun.checkpoint.read.safe_file import read_regular_file
from jobrun.checkpoint.read.verified_file import read_verified
from jobrun.checkpoint.store_protocol import Manifest, StoredFile
from jobrun.checkpoint.stores import manifest as manifests
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.stores.manifest import find_damage
from jobrun.checkpoint.stores.object_references import local_path
from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.core.failpoints import reach
from jobrun.core.files.disk import (
    create_file,
    disk_faults,
    sync_directory,
    sync_file,
    write_all,
    write_new_file,
)
from jobrun.core.system_calls import rename_noreplace

_DIRECTORY_MODE = 0o755


def copy_file(source: str, staged: str, expected: StoredFile) -> StoredFile:
    """Copy one file of an epoch into the staging directory, unless an earlier try copied it.

    Args:
        source: The file of a committed epoch.
        staged: The directory; made, with those above it, if it is not there.
        expected: What the manifest says of the file.

    Returns:
        The facts about the copy, with the seconds that it took.

    Raises:
        CheckpointError: The source is not what the manifest says; nothing was copied.
        EnvironmentFaultError: The system refuses.
    """
    started = time.perf_counter()
    with disk_faults("E318", f"copy {source} to {staged}"):
        _make_directory(Path(staged))
        target = Path(staged, expected.name)
        if find_damage(staged, expected, whole=True):
            target.unlink(missing_ok=True)
            reach("upload.begun")
            try:
                _copy_verified(source, target, expected)
            except BaseException:
                with contextlib.suppress(OSError):
                    target.unlink()
                raise
        reach("upload.file-synced")
    return replace(expected, seconds=time.perf_counter() - started)


def publish_copy(directory: str, staged: str, target: str) -> None:
    """Verify a staged copy of an epoch, and publish it by renaming it to its target name.

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
            there, or the system refuses.
    """
    original = str(Path(directory, manifests.NAME))
    data = read_regular_file(original, most_bytes=manifests.MOST_BYTES)
    manifest = manifests.decode(data, original)
    with disk_faults("E318", f"copy epoch {manifest.epoch} to {target}"):
        if not is_copied(target, manifest):
            _make_directory(Path(staged))
            _require_whole(staged, manifest)
            path = Path(staged, manifests.NAME)
            path.unlink(missing_ok=True)
            write_new_file(path, data)
            reach("upload.manifest-written")
            sync_directory(staged)
            try:
                rename_noreplace(staged, target)
            except FileExistsError:
                if not is_copied(target, manifest):
                    raise
        reach("upload.renamed")
        sync_directory(Path(target).parent)
    # Also removes leftovers of an interrupted upload of another epoch.
    DirectoryStore(str(Path(target).parent)).sweep()
    reach("upload.published")


def is_copied(target: str, manifest: Manifest) -> bool:
    """Return whether an epoch's copy at ``target`` is complete; False if there is no copy.

    Its manifest has to name the same files of the same run, and these have to be there in
    their lengths. Their bytes were compared before the copy got its name.

    Raises:
        EnvironmentFaultError: Something else is there.
    """
    if not os.path.lexists(target):
        return False
    path = str(Path(target, manifests.NAME))
    try:
        copied = manifests.decode(read_regular_file(path, most_bytes=manifests.MOST_BYTES), path)
    except CheckpointError as error:
        raise _different_error(target, error.faults[0].message) from error
    if manifests.manifest_identity(copied) != manifests.manifest_identity(manifest):
        raise _different_error(
            target,
            f"it is epoch {copied.epoch} of run {copied.run_id}, or was computed again since",
        )
    for file in manifest.files:
        reason = find_damage(target, file, whole=False)
        if reason:
            raise _different_error(target, reason)
    return True


def _different_error(target: str, difference: str) -> EnvironmentFaultError:
    return EnvironmentFaultError.of(
        "E319",
        f"{target} is there already and is not this checkpoint: {difference}",
        "move it away, or upload to another directory, then resume",
    )


def _require_whole(staged: str, manifest: Manifest) -> None:
    for file in manifest.files:
        reason = find_damage(staged, file, whole=True)
        if reason:
            raise EnvironmentFaultError.of(
                "E320",
                f"the copy in {staged} is not what was copied: {reason}",
                "check the disk, and that nothing else writes there, then resume",
            )


def _copy_verified(source: str, target: Path, expected: StoredFile) -> None:
    with disk_faults("E318", f"write {target}"):
        writing = create_file(target)
        try:
            for piece in read_verified(source, expected.digest, at=local_path(source)):
                write_all(writing, piece)
                reach("upload.file-part-written")
            sync_file(writing)
        finally:
            os.close(writing)


def _make_directory(path: Path) -> None:
    """Create the directory of an epoch's copy, with its parents, and sync each parent to disk."""
    if path.is_dir():
        return
    _make_directory(path.parent)
    path.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
    sync_directory(path.parent)
