"""Checkpoints in an object store: the contract of all stores, and what only this one meets."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from jobrun.checkpoint.stores.bucket import Bucket
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.stores.manifest import encode
from jobrun.checkpoint.stores.object_store import ObjectStore, UploadCancelledError
from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.core.text.object_url import parse_object_url
from jobrun.testing.stores import StoreContract, write_epoch


@pytest.fixture
def url(tmp_path):
    return parse_object_url(f"memory://{tmp_path.name}/runs/job/run")


@pytest.fixture
def bucket(url):
    return Bucket(url)


@pytest.fixture
def saved(tmp_path):
    store = DirectoryStore(str(tmp_path / "checkpoints"))
    write_epoch(store, 3, nodes=("a", "b"))
    return store


class TestObjectStore(StoreContract):
    @pytest.fixture
    def store(self, url):
        return ObjectStore(url)

    def test_epochs_that_are_set_aside_are_kept_elsewhere(self, store, bucket):
        for epoch in range(4):
            write_epoch(store, epoch)

        store.set_aside((2, 3), "/run/superseded/g0")

        assert store.epochs() == (0, 1)
        assert ObjectStore(store.url / "g0").epochs() == (2, 3)
        assert ObjectStore(store.url / "g0").verify(3) is None
        write_epoch(store, 2)
        assert store.verify(2) is None

    def test_a_changed_file_is_damage(self, store, bucket):
        write_epoch(store, 1, nodes=("a", "b"))
        (name,) = [name for name in bucket.list() if "/b." in name]
        data = bytearray(bucket.read(name, 1 << 20))
        data[len(data) // 2] ^= 1
        bucket.put(name, [bytes(data)], len(data))

        damage = store.verify(1)

        assert damage.epoch == 1
        assert "b" in damage.reason

    def test_a_missing_file_is_damage(self, store, bucket):
        write_epoch(store, 1)
        bucket.delete([name for name in bucket.list() if name.endswith(".h5")])

        assert "is not there" in store.verify(1).reason


def upload(url, saved, epoch=3, **more):
    return ObjectStore(url).upload(saved.path(epoch), saved.manifest(epoch), **more)


def test_an_upload_can_be_fetched_again_byte_for_byte(url, saved, tmp_path):
    assert upload(url, saved)

    there = DirectoryStore(str(tmp_path / "fetched"))
    ObjectStore(url).fetch(3, there)

    assert {path.name: path.read_bytes() for path in Path(there.path(3)).iterdir()} == {
        path.name: path.read_bytes() for path in Path(saved.path(3)).iterdir()
    }


def test_an_upload_of_what_is_there_sends_nothing(url, saved, bucket):
    upload(url, saved)
    before = {name: bucket.made_at(name) for name in bucket.list()}

    assert not upload(url, saved)

    assert {name: bucket.made_at(name) for name in bucket.list()} == before


def test_the_manifest_comes_last(url, saved, bucket, monkeypatch):
    seen = []
    monkeypatch.setattr(
        Bucket, "put_new", lambda self, name, data: seen.append((name, sorted(bucket.list())))
    )

    upload(url, saved)

    ((name, there),) = seen
    assert name == "epoch-000003/manifest.json"
    assert len(there) == 2


def test_interrupted_upload_continues_with_existing_objects(url, saved, bucket, monkeypatch):
    sent = []
    put = Bucket.put

    def failing(self, name, pieces, size_bytes):
        if sent:
            raise EnvironmentFaultError.of("E331", "gone", "")
        sent.append(name)
        put(self, name, pieces, size_bytes)

    monkeypatch.setattr(Bucket, "put", failing)
    with pytest.raises(EnvironmentFaultError, match="gone"):
        upload(url, saved)
    assert ObjectStore(url).epochs() == ()

    monkeypatch.setattr(
        Bucket,
        "put",
        lambda self, name, *arguments: sent.append(name) or put(self, name, *arguments),
    )
    upload(url, saved)

    assert [name.partition("/")[2][0] for name in sent] == ["a", "b"]
    assert ObjectStore(url).verify(3) is None


def test_object_damaged_by_an_interrupted_upload_is_sent_again(url, saved, bucket):
    upload(url, saved)
    bucket.delete(["epoch-000003/manifest.json"])
    name = min(bucket.list())
    data = bytearray(bucket.read(name, 1 << 20))
    data[100] ^= 1
    bucket.put(name, [bytes(data)], len(data))

    upload(url, saved)

    assert ObjectStore(url).verify(3) is None


def test_object_that_differs_from_its_source_is_not_published(url, saved, monkeypatch):
    put = Bucket.put

    def wrong(self, name, pieces, size_bytes):
        data = bytearray(b"".join(pieces))
        data[-1] ^= 1
        put(self, name, [bytes(data)], size_bytes)

    monkeypatch.setattr(Bucket, "put", wrong)
    with pytest.raises(EnvironmentFaultError, match="E334"):
        upload(url, saved)

    assert ObjectStore(url).epochs() == ()


def test_a_damaged_original_is_not_sent(url, saved, bucket):
    path = Path(saved.path(3), "b.h5")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)

    with pytest.raises(CheckpointError):
        upload(url, saved)

    assert all("/b." not in name for name in bucket.list())


def test_first_of_two_manifests_stays(url, saved, tmp_path, bucket):
    other = DirectoryStore(str(tmp_path / "other"))
    write_epoch(other, 3, nodes=("a",))
    upload(url, saved)

    with pytest.raises(EnvironmentFaultError, match="E332"):
        upload(url, other)

    assert ObjectStore(url).manifest(3) == saved.manifest(3)
    assert ObjectStore(url).verify(3) is None


def test_losing_the_race_for_the_manifest_is_an_error(url, saved, tmp_path, bucket, monkeypatch):
    other = DirectoryStore(str(tmp_path / "other"))
    write_epoch(other, 3, nodes=("a",))
    put_new = Bucket.put_new

    def overtaken(self, name, data):
        monkeypatch.setattr(Bucket, "put_new", put_new)
        upload(url, other)
        return put_new(self, name, data)

    monkeypatch.setattr(Bucket, "put_new", overtaken)
    with pytest.raises(EnvironmentFaultError, match="E332"):
        upload(url, saved)

    assert ObjectStore(url).manifest(3) == other.manifest(3)


def test_lost_reply_of_the_store_is_tolerated(url, saved, monkeypatch):
    put_new = Bucket.put_new
    monkeypatch.setattr(
        Bucket, "put_new", lambda *arguments: put_new(*arguments) and put_new(*arguments)
    )

    assert upload(url, saved)

    assert ObjectStore(url).verify(3) is None


def test_unwanted_upload_ends(url, saved, bucket):
    answers = iter([True, True])

    with pytest.raises(UploadCancelledError):
        upload(url, saved, is_wanted=lambda: next(answers, False))

    assert ObjectStore(url).epochs() == ()


def test_a_manifest_of_another_epoch_is_refused(url, saved, bucket):
    data = encode(replace(saved.manifest(3), epoch=4))
    bucket.put_new("epoch-000003/manifest.json", data)

    with pytest.raises(CheckpointError, match="E304"):
        ObjectStore(url).manifest(3)


def test_downloaded_files_are_deleted_with_the_store(url, saved):
    upload(url, saved)
    store = ObjectStore(url)
    path = Path(store.path(3))
    assert path.is_dir()

    del store

    assert not path.exists()


def test_files_without_a_manifest_are_swept(url, saved, bucket):
    upload(url, saved)
    bucket.delete(["epoch-000003/manifest.json"])

    assert ObjectStore(url).sweep() == ("epoch-000003",)

    assert bucket.list() == {}
