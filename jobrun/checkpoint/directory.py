"""Checkpoints in a directory: ``epoch-000012/`` each, made by one rename. The usual store.

An epoch appears whole: it is staged under a name that readers ignore, made durable from the
inside out (files, manifest, staging directory), renamed, and the rename made durable. It
disappears whole, the same way backwards. A kill at any point leaves an epoch that exists
or one that does not, and perhaps leftovers, which ``sweep`` removes.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from jobrun.checkpoint import manifest as manifests
from jobrun.checkpoint.elsewhere import SUFFIX, delete_objects
from jobrun.checkpoint.plainfile import read_plain
from jobrun.checkpoint.presence import damage_of
from jobrun.checkpoint.recycling import SPARE
from jobrun.checkpoint.rename import rename_new
from jobrun.checkpoint.store import Damage, Manifest, StoredFile
from jobrun.core.crashpoints import reach
from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.formats.files import disk_faults, make_directory, sync_directory, write_all

_EPOCH = re.compile(r"epoch-([0-9]{6,18})")
_LEFTOVER = re.compile(r"\.(tmp|del)-epoch-[0-9]{6,18}-[0-9]+-[0-9a-f]{8}")
# Others may read, whatever the umask says; nobody else may write.
_DIRECTORY_MODE = 0o755
_LEAST_SPARE_BYTES = 1 << 20


class DirectoryStore:
    """See ``CheckpointStore``. ``root`` is made when the first epoch is staged."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)
        # The directory of an epoch that was removed, whose files the next one may use.
        self._spare: Path | None = None

    def stage(self, epoch: int) -> str:
        """See ``CheckpointStore.stage``."""
        path = self._root / leftover_name("tmp", epoch)
        with disk_faults("E313", f"make {path}"):
            if not self._root.is_dir():
                make_directory(self._root, _DIRECTORY_MODE)
            path.mkdir(mode=_DIRECTORY_MODE)
            self._offer_spare(path)
        reach("checkpoint.staged")
        return str(path)

    def commit(self, staged: str, manifest: Manifest) -> str:
        """See ``CheckpointStore.commit``.

        ::

            compare the files with the manifest        # each was synced by its writer
            write the manifest, sync it                # last: without it there is no epoch
            sync the staging directory                 # its names
            rename it, replacing nothing               # now the epoch exists
            sync the parent directory                  # now it stays
        """
        reach("checkpoint.commit-begun")
        target = self.path(manifest.epoch)
        try:
            with disk_faults("E313", f"commit epoch {manifest.epoch} to {target}"):
                _drop_spares(Path(staged))
                _expect_files(staged, manifest.files)
                write_manifest(Path(staged, manifests.NAME), manifests.encode(manifest))
                reach("checkpoint.manifest-written")
                sync_directory(staged)
                reach("checkpoint.stage-synced")
                _rename_staged(staged, target)
        except BaseException:
            self.discard(staged)
            raise
        reach("checkpoint.renamed")
        with _durability_unknown(manifest.epoch, target):
            sync_directory(self._root)
        reach("checkpoint.committed")
        return target

    def discard(self, staged: str) -> None:
        """See ``CheckpointStore.discard``. Only what ``stage`` has made here is removed."""
        path = Path(staged)
        if path.parent == self._root and _LEFTOVER.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)

    def epochs(self) -> tuple[int, ...]:
        """See ``CheckpointStore.epochs``. What has another name is not an epoch: ignored."""
        return tuple(sorted(epoch for epoch, _ in self._entries()))

    def path(self, epoch: int) -> str:
        """See ``CheckpointStore.path``."""
        return str(self._root / epoch_name(epoch))

    def manifest(self, epoch: int) -> Manifest:
        """See ``CheckpointStore.manifest``."""
        path = Path(self.path(epoch))
        if not _is_directory(path):
            there = ", ".join(map(str, self.epochs())) or "none"
            raise CheckpointError.of(
                "E310", f"there is no epoch {epoch} in {self._root}", f"epochs there: {there}"
            )
        file = str(path / manifests.NAME)
        data = read_plain(file, most_bytes=manifests.MOST_BYTES)
        manifest = manifests.decode(data, file)
        if manifest.epoch != epoch:
            raise CheckpointError.of(
                "E304",
                f"{file} belongs to epoch {manifest.epoch}; wanted was epoch {epoch}",
                "put the right directory back, or use another epoch",
            )
        return manifest

    def verify(self, epoch: int) -> Damage | None:
        """See ``CheckpointStore.verify``."""
        try:
            manifest = self.manifest(epoch)
            for file in manifest.files:
                reason = damage_of(self.path(epoch), file, whole=True)
                if reason:
                    return Damage(epoch, f"node {file.node}: {reason}")
        except CheckpointError as error:
            return Damage(epoch, "; ".join(fault.message for fault in error.faults))
        return None

    def set_aside(self, epochs: tuple[int, ...], where: str) -> None:
        """See ``CheckpointStore.set_aside``. ``where`` is made if it is not there.

        The newest is moved first: if that is cut short, those that are left are the oldest.
        Where ``where`` is on another file system, they stay on this one, in a directory
        of that name in the store.
        """
        if not epochs:
            return
        with disk_faults("E313", f"move epochs from {self._root} to {where}"):
            place = self._make_place(where)
            for epoch in sorted(epochs, reverse=True):
                rename_new(self.path(epoch), str(place / epoch_name(epoch)))
                reach("checkpoint.set-aside-renamed")
            sync_directory(place)
            sync_directory(self._root)
        reach("checkpoint.set-aside")

    def remove(self, epochs: tuple[int, ...], *, keep_spare: bool = False) -> None:
        """See ``CheckpointStore.remove``. Epochs that are gone already are no fault."""
        doomed: list[Path] = []
        with disk_faults("E313", f"delete epochs in {self._root}"):
            for epoch in sorted(epochs):
                victim = self._root / leftover_name("del", epoch)
                with contextlib.suppress(FileNotFoundError):
                    rename_new(self.path(epoch), str(victim))
                    doomed.append(victim)
                    reach("checkpoint.removal-renamed")
            if not doomed:
                return
            # Before any file goes: else a power cut could bring the name back over a rest.
            sync_directory(self._root)
            reach("checkpoint.removal-synced")
            if keep_spare and self._spare is None and _is_worth_keeping(doomed[-1]):
                self._spare = doomed.pop()
            for victim in doomed:
                _remove_tree(victim)
        reach("checkpoint.removed")

    def close(self) -> None:
        """See ``CheckpointStore.close``."""
        spare, self._spare = self._spare, None
        if spare is not None:
            with disk_faults("E313", f"delete {spare}"), contextlib.suppress(FileNotFoundError):
                _remove_tree(spare)

    def sweep(self) -> tuple[str, ...]:
        """See ``CheckpointStore.sweep``. Only while no one else saves here."""
        if not self._root.is_dir():
            return ()
        with disk_faults("E313", f"remove leftovers in {self._root}"):
            leftovers = sorted(
                path for path in self._root.iterdir() if _LEFTOVER.fullmatch(path.name)
            )
            for path in leftovers:
                _remove_tree(path)
        return tuple(path.name for path in leftovers)

    def _offer_spare(self, staged: Path) -> None:
        """Put spare files beside the names that the new ones get; the rest goes."""
        spare, self._spare = self._spare, None
        if spare is None or not spare.is_dir():
            return
        for file in sorted(spare.glob("*.h5")):
            file.rename(staged / (file.name + SPARE))
        _remove_tree(spare)

    def _entries(self) -> Iterator[tuple[int, Path]]:
        if not self._root.is_dir():
            return
        with disk_faults("E313", f"list {self._root}"):
            entries = list(self._root.iterdir())
        for path in entries:
            match = _EPOCH.fullmatch(path.name)
            # One epoch has one name: epoch-0000007 beside epoch-000007 is someone's copy.
            if match and path.name == epoch_name(int(match[1])) and _is_directory(path):
                yield int(match[1]), path

    def _make_place(self, where: str) -> Path:
        place = Path(where)
        make_directory(place, _DIRECTORY_MODE)
        if place.stat().st_dev != self._root.stat().st_dev:
            place = self._root / place.name
            place.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
        sync_directory(place.parent)
        return place


def epoch_name(epoch: int) -> str:
    """The name of an epoch's directory."""
    return f"epoch-{epoch:06d}"


def _is_worth_keeping(directory: Path) -> bool:
    """Small files are made anew as fast."""
    sizes = (path.lstat().st_size for path in directory.iterdir())
    return sum(sizes) >= _LEAST_SPARE_BYTES


def _drop_spares(staged: Path) -> None:
    """Delete spare files that no node wanted."""
    for path in staged.glob("*" + SPARE):
        path.unlink()


def leftover_name(kind: str, epoch: int) -> str:
    """A new name that no reader takes for an epoch, and that ``DirectoryStore.sweep`` removes."""
    return f".{kind}-{epoch_name(epoch)}-{os.getpid()}-{secrets.token_hex(4)}"


def _is_directory(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _expect_files(staged: str, files: tuple[StoredFile, ...]) -> None:
    found = {path.name: path.lstat() for path in Path(staged).iterdir()}
    # In place of a file it may stand where it is.
    expected = {
        file.name: file.size_bytes for file in files if not found.pop(f"{file.name}{SUFFIX}", None)
    }
    if set(found) != set(expected):
        raise _not_as_written(staged, f"it holds {sorted(found)}, expected {sorted(expected)}")
    for name, facts in found.items():
        if not stat.S_ISREG(facts.st_mode) or facts.st_size != expected[name]:
            raise _not_as_written(
                staged, f"{name} has {facts.st_size} bytes, expected {expected[name]}"
            )


def _not_as_written(staged: str, how: str) -> EnvironmentFaultError:
    return EnvironmentFaultError.of(
        "E317",
        f"what was saved is not what is in {staged}: {how}",
        "see to it that nothing else writes there, then resume",
    )


def write_manifest(path: Path, data: bytes) -> None:
    """Write the text of a manifest as a new file, durably.

    Raises:
        OSError: The disk says no, or the file is there.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename_staged(staged: str, target: str) -> None:
    try:
        rename_new(staged, target)
    except FileExistsError as error:
        raise EnvironmentFaultError.of(
            "E314",
            f"{target} is there already, and a checkpoint never replaces another",
            "see which run made it; move it away, or use another checkpoint directory",
        ) from error


@contextlib.contextmanager
def _durability_unknown(epoch: int, target: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EnvironmentFaultError.of(
            "E316",
            f"epoch {epoch} was written to {target}, but it is not known whether it would "
            f"survive a power cut: {error.strerror or error}",
            "check the disk, then resume: the epoch is verified before it is used",
        ) from error


def _remove_tree(path: Path) -> None:
    if not _is_directory(path):
        path.unlink()
        return
    if path.name.startswith(".del-"):
        # Of an epoch that did exist. What was staged only may name what an epoch has.
        delete_objects(path)
    for count, file in enumerate(sorted(path.iterdir())):
        if _is_directory(file):
            shutil.rmtree(file)
        else:
            file.unlink()
        if count == 0:
            reach("checkpoint.removal-begun")
    path.rmdir()
