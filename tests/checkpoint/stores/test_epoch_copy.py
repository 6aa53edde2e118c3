from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from jobrun.checkpoint.stores import epoch_copy as copying
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.stores.epoch_copy import copy_file, is_copied, publish_copy
from jobrun.checkpoint.stores.manifest import NAME
from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.testing.stores import write_epoch


@pytest.fixture
def store(tmp_path):
    store = DirectoryStore(str(tmp_path / "checkpoints"))
    write_epoch(store, 3, nodes=("a", "b"))
    return store


@pytest.fixture
def staged(tmp_path):
    return tmp_path / "far" / "away" / ".tmp-epoch-000003-0-0123abcd"


@pytest.fixture
def target(staged):
    return staged.with_name("epoch-000003")


def copy_all(store, staged, epoch=3):
    return [
        copy_file(str(Path(store.path(epoch), file.name)), str(staged), file)
        for file in store.manifest(epoch).files
    ]


def upload(store, staged, target, epoch=3):
    copy_all(store, staged, epoch)
    publish_copy(store.path(epoch), str(staged), str(target))


def content(path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(Path(path).iterdir())}


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_copy_has_the_bytes_of_the_original_and_nothing_else_is_left(store, staged, target):
    upload(store, staged, target)

    assert content(target) == content(store.path(3))
    assert [path.name for path in target.parent.iterdir()] == ["epoch-000003"]
    assert DirectoryStore(str(target.parent)).verify(3) is None


def test_facts_about_the_copies_are_those_of_the_manifest_with_their_seconds(store, staged):
    copies = copy_all(store, staged)

    assert tuple(copies) == store.manifest(3).files
    assert all(copy.seconds > 0 for copy in copies)


def test_a_copy_is_invisible_until_it_is_published(store, staged, target):
    copy_all(store, staged)

    assert DirectoryStore(str(target.parent)).epochs() == ()
    assert not is_copied(str(target), store.manifest(3))


def test_finished_copies_are_kept_and_partial_ones_repeated(store, staged, target):
    copy_all(store, staged)
    inode = (staged / "a.h5").stat().st_ino
    (staged / "b.h5").write_bytes(b"half")
    (staged / NAME).write_bytes(b"half a manifest")

    upload(store, staged, target)

    assert (target / "a.h5").stat().st_ino == inode
    assert content(target) == content(store.path(3))


def test_uploading_again_changes_nothing(store, staged, target):
    upload(store, staged, target)
    before = {path.name: path.stat().st_ino for path in target.iterdir()}

    upload(store, staged, target)

    assert {path.name: path.stat().st_ino for path in target.iterdir()} == before
    assert [path.name for path in target.parent.iterdir()] == ["epoch-000003"]


def test_a_different_checkpoint_is_never_overwritten(store, staged, target, tmp_path):
    other = DirectoryStore(str(tmp_path / "other"))
    write_epoch(other, 3, nodes=("a",))
    upload(other, staged, target)
    before = content(target)

    with pytest.raises(EnvironmentFaultError) as caught:
        upload(store, staged, target)

    assert caught.value.faults[0].code == "E319"
    assert content(target) == before


@pytest.mark.parametrize(
    "change", [{"generation": 1}, {"run_id": "run-2"}, {"files": ()}, {"epoch": 4}]
)
def test_only_the_same_epoch_of_the_same_run_is_the_same(store, staged, target, change):
    upload(store, staged, target)
    manifest = store.manifest(3)
    assert is_copied(str(target), manifest)
    assert is_copied(str(target), replace(manifest, runner={"elapsed_s": 1.0}))

    with pytest.raises(EnvironmentFaultError, match="E319"):
        is_copied(str(target), replace(manifest, **change))


def test_a_staged_file_with_other_bytes_of_the_same_length_is_copied_again(store, staged, target):
    copy_all(store, staged)
    flip(staged / "b.h5")

    upload(store, staged, target)

    assert content(target) == content(store.path(3))


@pytest.mark.parametrize("odd", ["file", "empty", "cut"])
def test_other_file_type_under_the_name_is_different(store, staged, target, odd):
    if odd == "cut":
        upload(store, staged, target)
        (target / "a.h5").write_bytes(b"half")
    else:
        target.parent.mkdir(parents=True)
        target.write_bytes(b"") if odd == "file" else target.mkdir()

    with pytest.raises(EnvironmentFaultError) as caught:
        upload(store, staged, target)

    assert caught.value.faults[0].code == "E319"


def test_a_damaged_original_is_not_copied(store, staged):
    flip(Path(store.path(3), "b.h5"))

    with pytest.raises(CheckpointError) as caught:
        copy_all(store, staged)

    assert caught.value.faults[0].code == "E303"
    assert [path.name for path in staged.iterdir()] == ["a.h5"]


def test_missing_original_is_an_error(store, staged):
    Path(store.path(3), "a.h5").unlink()

    with pytest.raises(CheckpointError) as caught:
        copy_all(store, staged)

    assert caught.value.faults[0].code == "E300"


def test_a_copy_with_other_bytes_is_not_published(store, staged, target):
    copy_all(store, staged)
    flip(staged / "b.h5")

    with pytest.raises(EnvironmentFaultError) as caught:
        publish_copy(store.path(3), str(staged), str(target))

    assert caught.value.faults[0].code == "E320"
    assert not target.exists()


def test_full_disk_is_an_error_and_leaves_no_partial_file(store, staged, monkeypatch):
    def full(descriptor, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(copying, "write_all", full)
    with pytest.raises(EnvironmentFaultError) as caught:
        copy_all(store, staged)

    assert caught.value.faults[0].code == "E318"
    assert "No space left" in caught.value.faults[0].message
    assert list(staged.iterdir()) == []


def test_files_and_then_names_are_made_durable(store, staged, target, monkeypatch):
    synced = []
    sync = os.fsync

    def note(descriptor):
        facts = os.fstat(descriptor)
        synced.append(("names" if stat.S_ISDIR(facts.st_mode) else "file", facts.st_ino))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    upload(store, staged, target)

    inodes = {("file", path.stat().st_ino) for path in target.iterdir()}
    assert inodes <= set(synced)
    assert synced[-2:] == [("names", target.stat().st_ino), ("names", target.parent.stat().st_ino)]


def test_the_rest_of_another_upload_is_swept(store, staged, target):
    leftover = staged.with_name(".tmp-epoch-000002-0-89abcdef")
    leftover.mkdir(parents=True)
    (leftover / "a.h5").write_bytes(b"half")

    upload(store, staged, target)

    assert not leftover.exists()
