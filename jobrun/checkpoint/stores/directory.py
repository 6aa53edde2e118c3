"""Store checkpoints in a directory: ``epoch-000012/`` each, committed by one rename.

An epoch appears whole: it is staged under a name that readers ignore, made durable from the
inside out (files, manifest, staging directory), renamed, and the rename made durable. It
disappears whole, the same way backwards. A kill at any point leaves an epoch that exists
or one that does not, and perhaps leftovers, which ``sweep`` removes.

An epoch of one small file takes five syncs, the journal's included; they set the floor: made bare,
without jobrun, they cost 1.6 times ``write, fsync, rename, fsync`` of the same bytes. A sixth, of
the removal of an older epoch, is spared: the next commit syncs the same directory. And behind that
the directory and the files of the removed epoch become those of the next one, for to delete them
and to make new ones costs as much as two syncs.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from jobrun.checkpoint.hdf5 import user_block as userblock
from jobrun.checkpoint.read.safe_file import read_regular_file
from jobrun.checkpoint.store_protocol import Damage, EpochHold, Manifest, StoredFile
from jobrun.checkpoint.stores import manifest as manifests
from jobrun.checkpoint.stores.manifest import find_damage
from jobrun.checkpoint.stores.object_references import SUFFIX, delete_objects
from jobrun.checkpoint.stores.read_locks import exclude_readers, hold_epoch
from jobrun.checkpoint.write.reusable_file import open_over_removed
from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.core.failpoints import reach
from jobrun.core.files.digest import digest_bytes
from jobrun.core.files.disk import (
    disk_faults,
    list_directory,
    make_directory,
    open_regular,
    sync_data,
    sync_directory,
    write_all,
)
from jobrun.core.files.file_lock import close_locked
from jobrun.core.system_calls import rename_noreplace, start_writing
from jobrun.core.text.patterns import lazy_pattern

# One epoch has one name: epoch-0000007 beside epoch-000007 is a copy made by hand.
_EPOCH = lazy_pattern(r"epoch-([0-9]{6}|[1-9][0-9]{6,17})")
_LEFTOVER = lazy_pattern(r"\.(tmp|del)-epoch-[0-9]{6,18}-[0-9]+-[0-9a-f]{8}")
_REMOVED = ".del-"
# Others may read, whatever the umask says; only the owner may write.
_DIRECTORY_MODE = 0o755
# The removal of an epoch smaller than this is not worth a sync.
_LEAST_SYNCED_BYTES = 1 << 20
# Name endings of the files that another epoch may overwrite.
_REUSABLE = (".h5", manifests.NAME)


class DirectoryStore:
    """See ``CheckpointStore``. ``root`` is made when the first epoch is staged."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)
        # As text for the calls of each epoch: a Path is converted at each use.
        self._path = str(self._root)
        self._known = _identity(self._path)
        # Directories of removed epochs: those whose new names the next sync makes durable, those
        # that may be deleted, and one whose files the next epoch may use.
        self._renamed: list[str] = []
        self._doomed: list[str] = []
        self._spare: str | None = None
        # Files of a removed epoch in the newest staging directory: of no use until overwritten.
        self._reused: frozenset[str] = frozenset()
        # Bytes in the newest epoch's files; the next one is expected to need as many.
        self._newest_bytes = 0

    def stage(self, epoch: int) -> str:
        """Create a staging directory for an epoch in the store's directory."""
        path = f"{self._path}/{leftover_name('tmp', epoch)}"
        self.check()
        with disk_faults("E313", f"make {path}"):
            if self._known is None:
                make_directory(self._root, _DIRECTORY_MODE)
                self._known = _identity(self._path)
            if not self._reuse(path):
                os.mkdir(path, _DIRECTORY_MODE)  # noqa: PTH102 - for each epoch
        reach("checkpoint.staged")
        return path

    def check(self) -> None:
        """Require that the store's directory was not replaced since its first use (E390)."""
        identity = _identity(self._path)
        if self._known is None:
            self._known = identity
        if identity != self._known:
            raise EnvironmentFaultError.of(
                "E390",
                f"the directory of checkpoints {self._root} was removed or replaced during the run",
                "put it back with the epochs that are in it, then resume",
            )

    def commit(self, staged: str, manifest: Manifest) -> str:
        """Commit a staging directory by renaming it to the epoch's directory, durably.

        ::

            compare the files with the manifest        # each was synced by its writer
            write the manifest                         # last: without it there is no epoch
            sync the staging directory, the manifest   # its names, its bytes
            rename it, replacing nothing               # now the epoch exists
            sync the parent directory                  # now it stays
        """
        reach("checkpoint.commit-begun")
        target = self.path(manifest.epoch)
        try:
            with disk_faults("E313", f"commit epoch {manifest.epoch} to {target}"):
                size_bytes = self._require_files(staged, manifest.files)
                _write_manifest(staged, manifests.encode(manifest))
                reach("checkpoint.stage-synced")
                _rename_staged(staged, target)
        except BaseException:
            self.discard(staged)
            raise
        reach("checkpoint.renamed")
        try:
            self._sync_names()
        except OSError as error:
            raise _unknown_durability_error(manifest.epoch, target, error) from error
        reach("checkpoint.committed")
        self._newest_bytes = size_bytes
        return target

    def discard(self, staged: str) -> None:
        """Delete a staging directory if this directory store has made it; ignore any other."""
        path = Path(staged)
        if path.parent == self._root and _LEFTOVER.fullmatch(path.name):
            import shutil  # noqa: PLC0415 - only after a failed save

            shutil.rmtree(path, ignore_errors=True)

    def epochs(self) -> tuple[int, ...]:
        """Return the numbers of the epochs in the store's directory; ignore other entries."""
        with disk_faults("E313", f"list {self._path}"):
            return tuple(sorted(self._listed()))

    def path(self, epoch: int) -> str:
        """Return the path of an epoch's directory in the store's directory."""
        return f"{self._path}/{epoch_name(epoch)}"

    def manifest(self, epoch: int) -> Manifest:
        """Read the manifest of an epoch in this directory store; refuse a missing one (E310)."""
        path = self.path(epoch)
        if not _is_directory(path):
            there = ", ".join(map(str, self.epochs())) or "none"
            raise CheckpointError.of(
                "E310", f"there is no epoch {epoch} in {self._root}", f"epochs there: {there}"
            )
        file = f"{path}/{manifests.NAME}"
        data = read_regular_file(file, most_bytes=manifests.MOST_BYTES)
        manifest = manifests.decode(data, file)
        if manifest.epoch != epoch:
            raise CheckpointError.of(
                "E304",
                f"{file} belongs to epoch {manifest.epoch}; wanted was epoch {epoch}",
                "put the right directory back, or use another epoch",
            )
        return manifest

    def verify(self, epoch: int) -> Damage | None:
        """Verify an epoch's directory in this store, manifest and files; return any damage."""
        try:
            manifest = self.manifest(epoch)
            for file in manifest.files:
                reason = find_damage(self.path(epoch), file, whole=True)
                if reason:
                    return Damage(epoch, f"node {file.node}: {reason}")
        except CheckpointError as error:
            return Damage(epoch, "; ".join(fault.message for fault in error.faults))
        return None

    def set_aside(self, epochs: tuple[int, ...], where: str) -> None:
        """Move epochs from the directory store into the directory ``where``, made if missing.

        The newest is moved first: if that is cut short, those that are left are the oldest.
        Where ``where`` is on another file system, they stay on this one, in a directory
        of that name in the store.
        """
        if not epochs:
            return
        with disk_faults("E313", f"move epochs from {self._root} to {where}"):
            directory = self._make_aside_directory(where)
            for epoch in sorted(epochs, reverse=True):
                rename_noreplace(self.path(epoch), str(directory / epoch_name(epoch)))
                reach("checkpoint.set-aside-renamed")
            sync_directory(directory)
            sync_directory(self._root)
        reach("checkpoint.set-aside")

    def hold(self, epoch: int) -> EpochHold | None:
        """Take a read lock on an epoch of this directory store; return None if it is gone."""
        return hold_epoch(self.path(epoch))

    def remove(self, epochs: tuple[int, ...], *, keep_for_reuse: bool = False) -> tuple[int, ...]:
        """Delete epochs of this directory store, each by a rename first; ignore missing ones.

        ::

            rename each                       # now the epochs do not exist
            sync the parent directory         # before any file goes: else a power cut could
            delete their files                # bring a name back over a rest

        With ``keep_for_reuse``, the files of one become those of the next epoch; and small epochs
        wait for the sync of the next commit, and are used or deleted behind it.
        """
        held: list[int] = []
        with disk_faults("E313", f"delete epochs in {self._path}"):
            for epoch in sorted(epochs):
                path = self.path(epoch)
                with exclude_readers(path) as is_free:
                    if not is_free:
                        held.append(epoch)
                        continue
                    self._rename_removed(path, epoch)
            is_small = self._newest_bytes < _LEAST_SYNCED_BYTES
            if self._renamed and not (keep_for_reuse and is_small):
                self._sync_names()
            if keep_for_reuse and self._doomed and self._spare is None:
                self._spare = self._doomed.pop()
            self._delete_doomed()
        return tuple(held)

    def close(self) -> None:
        """Delete the directories of removed epochs that the store kept for reuse."""
        with disk_faults("E313", f"delete epochs in {self._root}"):
            if self._renamed:
                self._sync_names()
            if self._spare is not None:
                self._doomed.append(self._spare)
                self._spare = None
            self._delete_doomed()

    def sweep(self) -> tuple[str, ...]:
        """Remove leftovers of interrupted saves from the store's directory; no save may run."""
        with disk_faults("E313", f"remove leftovers in {self._root}"):
            leftovers = [
                path for path in list_directory(self._root) if _LEFTOVER.fullmatch(path.name)
            ]
            if any(path.name.startswith(_REMOVED) for path in leftovers):
                # The process that renamed them may have been killed before the rename was durable.
                sync_directory(self._root)
            for path in leftovers:
                _remove_tree(str(path))
        return tuple(path.name for path in leftovers)

    def _rename_removed(self, path: str, epoch: int) -> None:
        victim = f"{self._path}/{leftover_name('del', epoch)}"
        try:
            rename_noreplace(path, victim)
        except FileNotFoundError:
            return
        self._renamed.append(victim)
        reach("checkpoint.removal-renamed")

    def _sync_names(self) -> None:
        """Sync this store's directory, so that renamed epochs are durable and can be deleted."""
        # Taken off the list first: after a failed sync their state is unknown until the next sweep.
        renamed, self._renamed = self._renamed, []
        sync_directory(self._path)
        self._doomed += renamed

    def _delete_doomed(self) -> None:
        if not self._doomed:
            return
        reach("checkpoint.removal-synced")
        doomed, self._doomed = self._doomed, []
        for victim in doomed:
            try:
                _remove_tree(victim)
            except FileNotFoundError:
                continue
        reach("checkpoint.removed")

    def _reuse(self, staged: str) -> bool:
        """Reuse a removed epoch's directory as staging directory; return False if there is none.

        Nodes write over its files, and the commit over its manifest.
        """
        self._reused = frozenset()
        spare, self._spare = self._spare, None
        if spare is None or not _is_directory(spare):
            return False
        names = os.listdir(spare)  # noqa: PTH208 - for each epoch
        if not all(name.endswith(_REUSABLE) for name in names):
            # It has other files, such as references to objects, which are deleted with it.
            _remove_tree(spare)
            return False
        # This makes the name of the staging directory new, too.
        os.rename(spare, staged)  # noqa: PTH104 - for each epoch
        self._reused = frozenset(names)
        return True

    def _require_files(self, staged: str, files: tuple[StoredFile, ...]) -> int:
        """Require that a staging directory holds what nodes have written; return its bytes.

        Files of a removed epoch that no node has overwritten are deleted.

        Raises:
            EnvironmentFaultError: E317, it holds something else.
        """
        names = set(os.listdir(staged)) - {manifests.NAME}  # noqa: PTH208 - for each epoch
        # A reference to an object may replace a file.
        expected = {file.name: file for file in files if f"{file.name}{SUFFIX}" not in names}
        names -= {f"{file.name}{SUFFIX}" for file in files}
        for name in (names & self._reused) - expected.keys():
            os.unlink(f"{staged}/{name}")  # noqa: PTH108 - for each epoch
            names.remove(name)
        if names != expected.keys():
            raise _changed_error(staged, f"it holds {sorted(names)}, expected {sorted(expected)}")
        for file in expected.values():
            _require_written(staged, file, is_reused=file.name in self._reused)
        return sum([file.size_bytes for file in expected.values()])

    def _listed(self) -> Iterable[int]:
        epochs: list[int] = []
        try:
            entries = os.scandir(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return epochs
        with entries:
            for entry in entries:
                match = _EPOCH.fullmatch(entry.name)
                if match and entry.is_dir(follow_symlinks=False):
                    epochs.append(int(match[1]))
        return epochs

    def _make_aside_directory(self, where: str) -> Path:
        directory = Path(where)
        make_directory(directory, _DIRECTORY_MODE)
        if directory.stat().st_dev != self._root.stat().st_dev:
            directory = self._root / directory.name
            directory.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
        sync_directory(directory.parent)
        return directory


def epoch_name(epoch: int) -> str:
    """Return the name of an epoch's directory, such as ``epoch-000012``."""
    return f"epoch-{epoch:06d}"


def _identity(path: str) -> tuple[int, int] | None:
    """Return the device and inode of the store's directory; None if it is missing."""
    try:
        facts = os.stat(path)  # noqa: PTH116 - for each epoch
    except OSError:
        return None
    return (facts.st_dev, facts.st_ino) if stat.S_ISDIR(facts.st_mode) else None


def leftover_name(kind: str, epoch: int) -> str:
    """Return an unused name in a directory store, which ``DirectoryStore.sweep`` will remove."""
    return f".{kind}-{epoch_name(epoch)}-{os.getpid()}-{os.urandom(4).hex()}"


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _require_written(staged: str, file: StoredFile, *, is_reused: bool) -> None:
    """Require that a file in a staging directory is the one that its node has written.

    If a removed epoch's file was there under its name, and perhaps as long, the user block must be
    that of the new one: it is written last, and contains the epoch and a digest of the digests of
    all other bytes.
    """
    try:
        descriptor = open_regular(f"{staged}/{file.name}")
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise _changed_error(staged, f"{file.name} is a link, or no regular file") from error
        raise
    try:
        length = os.fstat(descriptor).st_size
        if length != file.size_bytes:
            difference = f"{file.name} has {length} bytes, expected {file.size_bytes}"
            raise _changed_error(staged, difference)
        if not is_reused:
            return
        if digest_bytes(os.pread(descriptor, userblock.SIZE, 0)) != file.digest:
            difference = f"{file.name} is not the file that node {file.node} has written"
            raise _changed_error(staged, difference)
    finally:
        os.close(descriptor)


def _write_manifest(staged: str, data: bytes) -> None:
    """Write a manifest into the staging directory of the directory store; sync both to disk."""
    descriptor, _ = open_over_removed(f"{staged}/{manifests.NAME}")
    try:
        write_all(descriptor, data)
        os.ftruncate(descriptor, len(data))
        # Starts writeback now, so that it overlaps with the sync of the directory.
        start_writing(descriptor)
        reach("checkpoint.manifest-written")
        sync_directory(staged)
        sync_data(descriptor)
    finally:
        close_locked(descriptor)


def _changed_error(staged: str, difference: str) -> EnvironmentFaultError:
    return EnvironmentFaultError.of(
        "E317",
        f"what was saved is not what is in {staged}: {difference}",
        "see to it that nothing else writes there, then resume",
    )


def _rename_staged(staged: str, target: str) -> None:
    try:
        rename_noreplace(staged, target)
    except FileExistsError as error:
        raise EnvironmentFaultError.of(
            "E314",
            f"{target} is there already, and a checkpoint never replaces another",
            "see which run made it; move it away, or use another checkpoint directory",
        ) from error


def _unknown_durability_error(epoch: int, target: str, error: OSError) -> EnvironmentFaultError:
    return EnvironmentFaultError.of(
        "E316",
        f"epoch {epoch} was written to {target}, but it is not known whether it would "
        f"survive a power cut: {error.strerror or error}",
        "check the disk, then resume: the epoch is verified before it is used",
    )


def _remove_tree(path: str) -> None:
    if not _is_directory(path):
        os.unlink(path)  # noqa: PTH108 - for each epoch, as below
        return
    with os.scandir(path) as entries:
        files = sorted([(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries])
    if f"/{_REMOVED}" in path and SUFFIX in {name[-len(SUFFIX) :] for name, _ in files}:
        # Only of a committed epoch: a staging directory may name objects that an epoch uses.
        delete_objects(Path(path))
    for count, (name, is_directory) in enumerate(files):
        if is_directory:
            import shutil  # noqa: PLC0415 - only of epochs with folders

            shutil.rmtree(f"{path}/{name}")
        else:
            os.unlink(f"{path}/{name}")  # noqa: PTH108
        if count == 0:
            reach("checkpoint.removal-begun")
    os.rmdir(path)  # noqa: PTH106
