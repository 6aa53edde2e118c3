from __future__ import annotations

from pathlib import Path

import pytest

from jobrun.checkpoint.checkpoint_file import inspect_state
from jobrun.checkpoint.read.verified_file import open_state
from jobrun.checkpoint.store_protocol import Manifest
from jobrun.checkpoint.stores import object_references as elsewhere
from jobrun.checkpoint.stores.bucket import Bucket
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.stores.epoch_copy import copy_file
from jobrun.checkpoint.stores.object_references import (
    Reference,
    delete_fetched,
    delete_objects,
    fetch_object,
    local_path,
    read_reference,
    write_reference,
)
from jobrun.checkpoint.stores.object_store import (
    ObjectStore,
    object_name,
    require_uploaded,
    upload_file,
)
from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.core.text.object_url import parse_object_url
from jobrun.testing.stores import RUN_ID
from tests.support.checkpoints import write


@pytest.fixture
def url(tmp_path):
    """In the memory of this process, which is a store as others are."""
    yield parse_object_url(f"memory://{tmp_path.name}/runs/r")
    delete_fetched()


@pytest.fixture
def store(tmp_path):
    return DirectoryStore(str(tmp_path / "checkpoints"))


def referred(store, url, epoch, nodes=("a", "b")) -> Manifest:
    """An epoch whose files are in the object store."""
    staged = Path(store.stage(epoch))
    files = []
    for node in nodes:
        file = write(staged, {"w": epoch}, node=node, epoch=epoch)
        write_reference(staged / file.name, upload_file(url, epoch, file, str(staged / file.name)))
        (staged / file.name).unlink()
        files.append(file)
    manifest = Manifest(epoch, RUN_ID, 0, tuple(files), "")
    store.commit(str(staged), manifest)
    return manifest


def names(url):
    return set(Bucket(url).list())


def test_reference_is_one_readable_line(tmp_path, url):
    reference = Reference(url, "epoch-000004/a.0123456789abcdef.h5")

    write_reference(tmp_path / "a.h5", reference)

    assert (tmp_path / "a.h5.url").read_text() == f"{url} epoch-000004/a.0123456789abcdef.h5\n"
    assert read_reference(str(tmp_path / "a.h5")) == reference
    assert str(reference) == f"{url}/epoch-000004/a.0123456789abcdef.h5"
    assert read_reference(str(tmp_path / "b.h5")) is None
    with pytest.raises(FileExistsError):
        write_reference(tmp_path / "a.h5", reference)


@pytest.mark.parametrize(
    "text", ["", "s3://b", "/etc/passwd epoch-000001/a.h5", "s3://b/r ../../other.h5",
             "s3://b/r epoch-000001/a.txt", "s3://user:word@b/r epoch-000001/a.h5", "\udcff"]
)  # fmt: skip
def test_reference_to_another_file_is_damaged(tmp_path, text):
    (tmp_path / "a.h5.url").write_text(text, errors="surrogateescape")

    with pytest.raises(CheckpointError, match=r"a\.h5\.url"):
        inspect_state(str(tmp_path / "a.h5"))


def test_epoch_in_an_object_store_is_read_like_any_other(store, url):
    manifest = referred(store, url, 4)
    path = Path(store.path(4))

    assert sorted(file.name for file in path.iterdir()) == ["a.h5.url", "b.h5.url", "manifest.json"]
    assert store.verify(4) is None
    assert inspect_state(str(path / "a.h5")).header.node == "a"
    copied = copy_file(str(path / "b.h5"), str(path.parent.parent / "copy"), manifest.files[1])
    assert copied == manifest.files[1]


def test_file_is_downloaded_once_until_forgotten(store, url, monkeypatch):
    referred(store, url, 4)
    path = str(Path(store.path(4), "a.h5"))
    fetched = []

    def counting(reference, target):
        fetched.append(target)
        fetch_object(reference, target)

    monkeypatch.setattr(elsewhere, "fetch_object", counting)
    assert inspect_state(path).header == inspect_state(path).header
    assert len(fetched) == 1
    delete_fetched()
    assert not fetched[0].exists()
    inspect_state(path)
    assert len(fetched) == 2


def test_opening_a_local_file_does_not_ask_the_object_store(store, url, monkeypatch):
    referred(store, url, 4)
    path = Path(store.path(4), "a.h5")
    monkeypatch.setattr(elsewhere, "fetch_object", None)

    with pytest.raises(CheckpointError) as caught, open_state(str(path)):
        pass
    assert caught.value.faults[0].code == "E300"
    path.touch()
    assert local_path(str(path)) == str(path)


def test_an_object_that_is_gone_or_other_is_damage_of_its_epoch(store, url):
    manifest = referred(store, url, 4)
    first, second = (object_name(4, file) for file in manifest.files)
    data = bytearray(Bucket(url).read(first, 1 << 20))
    data[-1] ^= 1
    Bucket(url).put(first, [bytes(data)], len(data))

    assert "node a" in store.verify(4).reason
    delete_fetched()
    Bucket(url).put(first, [bytes(data[:-1]), bytes([data[-1] ^ 1])], len(data))
    assert store.verify(4) is None
    Bucket(url).delete([second])
    delete_fetched()
    assert "it is not there" in store.verify(4).reason


def test_unreachable_store_is_no_damage_of_its_epochs(store, url, monkeypatch):
    referred(store, url, 4)

    def failing(self, name):
        raise EnvironmentFaultError.of("E331", "it does not answer")

    monkeypatch.setattr(Bucket, "size_bytes", failing)
    with pytest.raises(EnvironmentFaultError, match="does not answer"):
        store.verify(4)


def test_an_epoch_that_is_removed_takes_its_objects_along_and_no_others(store, url):
    remaining, doomed = referred(store, url, 4), referred(store, url, 5)
    for epoch in (4, 5):
        Bucket(url).put_new(f"epoch-00000{epoch}/manifest.json", b"{}")

    store.remove((5,))

    assert store.epochs() == (4,)
    assert store.verify(4) is None
    expected = {"epoch-000004/manifest.json", *(object_name(4, file) for file in remaining.files)}
    assert names(url) == expected
    assert doomed.epoch == 5


def test_a_removal_that_was_cut_short_is_finished_by_the_next_sweep(store, url, monkeypatch):
    referred(store, url, 4)

    def failing(self, names):
        raise EnvironmentFaultError.of("E331", "it does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(Bucket, "delete", failing)
        with pytest.raises(EnvironmentFaultError, match="does not answer"):
            store.remove((4,))
    assert store.epochs() == ()
    assert names(url)

    assert len(store.sweep()) == 1
    assert names(url) == set()


def test_removing_a_stage_deletes_no_objects(store, url):
    referred(store, url, 4)
    before = names(url)
    staged = Path(store.stage(4))
    for node in ("a", "b"):
        # The same bytes again, as when an epoch is repeated.
        file = write(staged, {"w": 4}, node=node, epoch=4)
        (staged / file.name).unlink()
        write_reference(staged / file.name, Reference(url, object_name(4, file)))

    store.discard(str(staged))
    (staged_only := Path(store.stage(4))).joinpath("a.h5.url").write_text(
        Path(store.path(4), "a.h5.url").read_text()
    )
    assert store.sweep() == (staged_only.name,)
    assert names(url) == before
    assert store.verify(4) is None


def test_unreadable_reference_deletes_nothing(tmp_path, url):
    Bucket(url).put_new("epoch-000004/a.0.h5", b"")
    (tmp_path / "a.h5.url").write_text("?")

    delete_objects(tmp_path)

    assert names(url) == {"epoch-000004/a.0.h5"}


def test_upload_to_the_store_of_the_files_sends_only_the_manifest(store, url, monkeypatch):
    manifest = referred(store, url, 4)
    there = ObjectStore(url)
    puts = []
    monkeypatch.setattr(Bucket, "put", lambda *arguments: puts.append(arguments))

    assert there.upload(store.path(4), manifest)

    assert puts == []
    assert ObjectStore(url).verify(4) is None


def test_late_upload_of_a_node_replaces_no_committed_file(store, url, tmp_path):
    manifest = referred(store, url, 4)
    file = write(tmp_path, {"w": "of another try"}, node="a", epoch=4)

    late = upload_file(url, 4, file, str(tmp_path / "a.h5"))

    assert late.name != object_name(4, manifest.files[0])
    assert store.verify(4) is None


def test_all_uploaded_files_must_have_their_lengths(tmp_path, url):
    files = [write(tmp_path, node=node) for node in ("a", "b")]
    upload_file(url, 3, files[0], str(tmp_path / "a.h5"))

    with pytest.raises(EnvironmentFaultError, match="is not there any more") as caught:
        require_uploaded(url, 3, files)
    assert caught.value.faults[0].code == "E334"
    Bucket(url).put_new(object_name(3, files[1]), b"short")
    with pytest.raises(EnvironmentFaultError, match="has 5 bytes"):
        require_uploaded(url, 3, files)
    # Other bytes of that name are replaced.
    upload_file(url, 3, files[1], str(tmp_path / "b.h5"))
    require_uploaded(url, 3, files)
