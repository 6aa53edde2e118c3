"""Protocols that are wrong on purpose, each by one thing left out or put elsewhere.

Each function changes the modules of the process that calls it, which is one made for that. The
explorer must find what is wrong with each.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path, PosixPath
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from jobrun.checkpoint.store_protocol import Manifest
from jobrun.checkpoint.stores import directory
from jobrun.checkpoint.stores import epoch_copy as copying
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.write import writer
from jobrun.core.files import disk as files
from jobrun.core.files import json_files
from jobrun.runner import checkpoint_stores as places
from jobrun.runner import run_metadata_handler as metadata
from jobrun.runner.resume import mid_epoch_recovery as entering
from jobrun.runner.resume import recovery as recover
from jobrun.runner.rundir import run_directories as rundir
from jobrun.runner.saving import commit
from jobrun.runner.saving import mid_epoch_saver as midway
from jobrun.runner.saving import upload_to_directory as upload
from jobrun.runner.saving.commit import Committer
from jobrun.session import node_files

Mutant = Callable[[], None]


def small_files_are_used_again() -> None:
    """No mutant: lets the small files of tests be recycled at once, as large ones are."""
    directory._LEAST_SYNCED_BYTES = 0


def small_files_are_written_past_the_cache() -> None:
    """No mutant: lets small files be written as large ones are, where the file system can."""
    writer._LARGE_BYTES = 0


def all_within_epochs_is_kept() -> None:
    """No mutant: deletes nothing that was saved between two records."""
    midway.remove_mid_epochs = _nothing


def kept_is_another_file_system() -> None:
    """No mutant: what is in ``kept`` seems to be elsewhere, to all that a run asks."""
    whole = directory.rename_noreplace

    def rename(source: str, target: str) -> None:
        if _is_elsewhere(source) != _is_elsewhere(target):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source)
        whole(source, target)

    directory.rename_noreplace = rename
    directory.Path = _Place


def nodes_do_not_sync() -> None:
    """The nodes' processes are told that their files are durable, and they are not."""
    os.environ["FAULTS"] = "fsync:1:lie:0:1:.h5"


def acknowledged_within_before_the_rename() -> None:
    whole = midway.MidEpochSaver._commit

    def early(self: Any, before: Any, point: Any) -> None:
        self._hooks.acknowledge(before.epoch + 1, point.records, self._identity.generation)
        whole(self, before, point)

    midway.MidEpochSaver._commit = early


def within_removed_before_the_next() -> None:
    whole = midway.MidEpochSaver._commit

    def late(self: Any, before: Any, point: Any) -> None:
        midway.remove_mid_epochs(self._root, midway.list_mid_epochs(self._root))
        whole(self, before, point)

    midway.MidEpochSaver._commit = late


def within_removed_before_the_epoch() -> None:
    """As soon as the epoch has run, and is not saved yet."""
    whole = Committer._commit

    def early(self: Committer, request: Any, permit: Any) -> Any:
        root = str(Path(self._store.path(0)).parent)
        midway.remove_mid_epochs(root, midway.list_mid_epochs(root))
        return whole(self, request, permit)

    Committer._commit = early


def within_forgotten() -> None:
    metadata.plan_entry = lambda *arguments, **named: entering.EntryPlan()


def place_elsewhere_not_synced() -> None:
    places.make_directory = _made


def directories_of_the_killed_believed() -> None:
    """Only what this process itself has made is synced."""
    files.sync_names = _nothing


def copies_of_the_killed_believed() -> None:
    upload.sync_names = _nothing


def damaged_elsewhere_deleted() -> None:
    set_aside_deletes()


def copies_not_synced() -> None:
    """Neither the copied files nor the copied manifest."""
    _without_fsync(copying)
    _unsynced(copying, "write_new_file")


def published_copy_not_synced() -> None:
    whole = copying.sync_directory
    copying.sync_directory = lambda path: whole(path) if ".tmp-" in str(path) else None


def data_not_synced() -> None:
    _without_fsync(writer)


def collected_data_not_synced() -> None:
    """The nodes' own files are durable; those that the master has made of them are not."""
    _without_fsync(node_files)


def direct_data_not_synced() -> None:
    """What went past the cache needs it too: the file's length is not in its data."""
    _without_fsync(writer)


def manifest_not_synced() -> None:
    directory.sync_data = _nothing


def stage_not_synced() -> None:
    _sync_only(lambda path: not Path(path).name.startswith(".tmp-"))


def renamed_epoch_not_synced() -> None:
    """Neither is the removal of another, which syncs the same directory."""
    _sync_only(lambda path: Path(path).name != "checkpoints")


def journal_not_synced() -> None:
    _without_fsync(json_files)


def name_of_the_journal_not_synced() -> None:
    json_files.sync_directory = _nothing


def record_not_synced() -> None:
    _unsynced(json_files, "write_file")


def record_written_in_place() -> None:
    def write(path: Path, data: bytes, *, private: bool = False) -> None:
        del private
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        files.sync_directory(path.parent)

    json_files.write_file = write


def acknowledged_before_the_rename() -> None:
    whole = Committer._commit

    def early(self: Committer, request: Any, permit: Any) -> Any:
        run_handler = self._target.handlers[0]
        run_handler.written(request.progress.epoch, self._identity.generation)
        return whole(self, request, permit)

    Committer._commit = early


def manifest_after_the_rename() -> None:
    def late(self: DirectoryStore, staged: str, manifest: Manifest) -> str:
        target = self.path(manifest.epoch)
        self._require_files(staged, manifest.files)
        directory.sync_directory(staged)
        directory._rename_staged(staged, target)
        directory.sync_directory(self._path)
        directory._write_manifest(target, directory.manifests.encode(manifest))
        return target

    DirectoryStore.commit = late


def written_without_a_stage() -> None:
    def stage(self: DirectoryStore, epoch: int) -> str:
        self._root.mkdir(exist_ok=True)
        path = Path(self.path(epoch))
        path.mkdir()
        return str(path)

    DirectoryStore.stage = stage
    directory._rename_staged = _nothing


def retention_before_the_commit() -> None:
    whole = Committer._commit

    def after(self: Committer, request: Any, permit: Any) -> Any:
        epochs = {*self._store.epochs(), request.progress.epoch}
        self._store.remove(commit.epochs_to_delete(self._job.checkpoint, epochs, {}))
        return whole(self, request, permit)

    Committer._commit = after


def retention_of_the_newest() -> None:
    def victims(policy: Any, epochs: Any, best: Any = None, pinned: Any = ()) -> tuple[int, ...]:
        return tuple(sorted(epochs))[-1:] if len(epochs) > 3 else ()

    commit.epochs_to_delete = victims


def removed_without_a_rename() -> None:
    def remove(
        self: DirectoryStore, epochs: tuple[int, ...], *, keep_for_reuse: bool = False
    ) -> None:
        for epoch in epochs:
            shutil.rmtree(self.path(epoch), ignore_errors=True)

    DirectoryStore.remove = remove


def files_used_again_under_their_name() -> None:
    """The removal is not synced before the files get other bytes."""
    small_files_are_used_again()
    whole = DirectoryStore.remove

    def remove(
        self: DirectoryStore, epochs: tuple[int, ...], *, keep_for_reuse: bool = False
    ) -> None:
        original, directory.sync_directory = directory.sync_directory, _nothing
        whole(self, epochs, keep_for_reuse=keep_for_reuse)
        directory.sync_directory = original

    DirectoryStore.remove = remove


def removed_before_that_is_synced() -> None:
    """The files of a small epoch go with its name, and not behind the next commit."""
    whole = DirectoryStore._delete_doomed

    def at_once(self: DirectoryStore) -> None:
        self._doomed += self._renamed
        self._renamed = []
        whole(self)

    DirectoryStore._delete_doomed = at_once


def set_aside_deletes() -> None:
    def set_aside(self: DirectoryStore, epochs: tuple[int, ...], where: str) -> None:
        for epoch in epochs:
            shutil.rmtree(self.path(epoch), ignore_errors=True)

    DirectoryStore.set_aside = set_aside


def set_aside_before_the_journal() -> None:
    whole = recover.apply_recovery

    def carry_out(plan: Any, store: Any, book: Any, run: Path, listen: Any) -> None:
        whole(replace(plan, rewind=False, acknowledge=False), store, book, run, listen)
        whole(replace(plan, skipped=(), superseded=()), store, book, run, listen)

    metadata.apply_recovery = carry_out


def set_aside_by_copies() -> None:
    """Moved as between two file systems, and nothing synced."""

    def set_aside(self: DirectoryStore, epochs: tuple[int, ...], where: str) -> None:
        for epoch in epochs:
            shutil.copytree(self.path(epoch), Path(where, Path(self.path(epoch)).name))
            shutil.rmtree(self.path(epoch))

    DirectoryStore.set_aside = set_aside


def newest_taken_without_a_look() -> None:
    recover._find_damage = _nothing


def started_over_when_the_newest_is_bad() -> None:
    whole = recover.plan_recovery

    def plan(*arguments: Any, **named: Any) -> Any:
        plan_ = whole(*arguments, **named)
        return replace(plan_, epoch=recover.FROM_INIT) if plan_.skipped else plan_

    metadata.plan_recovery = plan


def torn_line_of_the_journal_kept() -> None:
    json_files.os = _Changed(ftruncate=_nothing)


def recovery_believes_what_it_sees() -> None:
    """What a killed process has renamed is acknowledged, or deleted, before that is synced."""
    recover.sync_directory = _nothing


def names_of_new_directories_not_synced() -> None:
    rundir.make_directory = _made


# Each with the scenario that shows what is wrong with it.
MUTANTS: dict[Mutant, str] = {
    data_not_synced: "commit",
    manifest_not_synced: "commit",
    stage_not_synced: "commit",
    renamed_epoch_not_synced: "commit",
    journal_not_synced: "commit",
    name_of_the_journal_not_synced: "commit",
    record_not_synced: "commit",
    record_written_in_place: "commit",
    names_of_new_directories_not_synced: "commit",
    acknowledged_before_the_rename: "commit",
    manifest_after_the_rename: "commit",
    written_without_a_stage: "commit",
    retention_before_the_commit: "commit",
    retention_of_the_newest: "commit",
    removed_without_a_rename: "commit",
    removed_before_that_is_synced: "commit",
    files_used_again_under_their_name: "recycling",
    set_aside_deletes: "newest damaged",
    set_aside_before_the_journal: "newest damaged",
    set_aside_by_copies: "back to epoch 2",
    newest_taken_without_a_look: "newest damaged",
    started_over_when_the_newest_is_bad: "newest damaged",
    torn_line_of_the_journal_kept: "commit",
    recovery_believes_what_it_sees: "killed after a rename",
    acknowledged_within_before_the_rename: "within epochs",
    within_removed_before_the_next: "within epochs",
    within_removed_before_the_epoch: "within epochs",
    within_forgotten: "within epochs",
    place_elsewhere_not_synced: "kept elsewhere",
    damaged_elsewhere_deleted: "newest damaged elsewhere",
    directories_of_the_killed_believed: "killed after a directory elsewhere was made",
    copies_of_the_killed_believed: "killed after a copy's rename",
    copies_not_synced: "copied elsewhere",
    published_copy_not_synced: "copied elsewhere",
    nodes_do_not_sync: "each node a process",
    collected_data_not_synced: "collected from nodes",
    direct_data_not_synced: "written past the cache",
}
# What is wrong with these shows in how a run is recovered, so that must be wrong too.
OF_RECOVERY = frozenset(
    {
        newest_taken_without_a_look,
        started_over_when_the_newest_is_bad,
        torn_line_of_the_journal_kept,
        within_forgotten,
    }
)


def reference(mutant: Mutant) -> str:
    """How to name a mutant to another process."""
    return f"{__name__}:{mutant.__name__}"


class _Place(PosixPath):
    """A path whose file system is another one below ``kept``."""

    def stat(self, *, follow_symlinks: bool = True) -> Any:
        facts = super().stat(follow_symlinks=follow_symlinks)
        return _Facts(facts) if _is_elsewhere(self) else facts


class _Facts:
    def __init__(self, facts: os.stat_result) -> None:
        self._facts = facts
        self.st_dev = facts.st_dev + 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._facts, name)


def _is_elsewhere(path: object) -> bool:
    return "kept" in PosixPath(str(path)).parts


class _Changed(SimpleNamespace):
    """The module ``os``, with some functions of another kind."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


def _nothing(*arguments: Any, **named: Any) -> None:
    """In place of an act."""


def _made(path: Path, mode: int = 0o755, **named: Any) -> None:
    path.mkdir(mode, parents=True, exist_ok=True)


def _without_fsync(module: Any) -> None:
    module.sync_file = _nothing


def _unsynced(module: Any, name: str) -> None:
    """Let a module's function for durable writes sync the names of files, and not their bytes."""
    whole = getattr(module, name)

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.fsync(descriptor)

    def write(*arguments: Any, **named: Any) -> None:
        original, files.os = files.os, _Changed(fsync=fsync)
        try:
            whole(*arguments, **named)
        finally:
            files.os = original

    setattr(module, name, write)


def _sync_only(wanted: Callable[[str | Path], bool]) -> None:
    whole = directory.sync_directory

    def sync(path: str | Path) -> None:
        if wanted(path):
            whole(path)

    directory.sync_directory = sync
