"""A run that is brought to an object store, and made again of what is there."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from jobrun.checkpoint.stores.bucket import Bucket
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.stores.object_store import ObjectStore
from jobrun.core.errors import CheckpointError, EnvironmentFaultError, UsageError
from jobrun.core.text.object_url import parse_object_url
from jobrun.runner.rundir.journal import read_journal
from jobrun.runner.rundir.object_store_run import (
    download_temporarily,
    epochs_below,
    fetch_run,
    local_copy,
    remote_run,
    split_target,
    upload_record,
    verify_remote,
)
from jobrun.runner.rundir.run_directories import Run, open_run
from jobrun.runner.rundir.run_json import RunRecord, write_record
from jobrun.testing.stores import RUN_ID, write_epoch

RECORD = RunRecord(RUN_ID, "job", "2026-11-21T09:42:00.000000+00:00", accepted=("seed",))


@pytest.fixture
def url(tmp_path):
    return parse_object_url(f"memory://{tmp_path.name}/up/job/brisk-heron")


@pytest.fixture
def run(tmp_path, url):
    """One with epochs 0 to 2, all of which are in the store."""
    path = tmp_path / "runs" / "job" / "brisk-heron"
    (path / "spec").mkdir(parents=True)
    (path / "spec" / "resolved.yaml").write_text("jobrun: 1\n")
    write_record(path, RECORD)
    store = DirectoryStore(str(path / "checkpoints"))
    uploaded = Run(path, RECORD)
    upload_record(uploaded, url)
    for epoch in range(3):
        manifest = write_epoch(store, epoch)
        ObjectStore(url).upload(store.path(epoch), manifest)
    return uploaded


def damage(url, epoch):
    (name,) = [n for n in Bucket(url).list() if n.startswith(f"epoch-{epoch:06d}/n.")]
    data = bytearray(Bucket(url).read(name, 1 << 20))
    data[len(data) // 2] ^= 1
    Bucket(url).put(name, [bytes(data)], len(data))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://b/j/r", ("s3://b/j/r", None)),
        ("s3://b/j/r/", ("s3://b/j/r", None)),
        ("s3://b/j/r@12", ("s3://b/j/r", 12)),
        ("s3://b/j/r@latest", ("s3://b/j/r", None)),
        ("s3://b/j/r/epoch-000012", ("s3://b/j/r", 12)),
        ("s3://b/j/r/g2/epoch-000012/", ("s3://b/j/r", 12)),
        ("abfss://c@account/j/r", ("abfss://c@account/j/r", None)),
    ],
)
def test_a_target_is_a_run_and_perhaps_an_epoch(text, expected):
    assert split_target(text) == expected


def test_an_epoch_is_a_number():
    with pytest.raises(UsageError, match="E408"):
        split_target("s3://b/j/r@last")


def test_newest_epoch_becomes_a_resumable_local_copy(tmp_path, run, url):
    copy = local_copy(remote_run(str(url)), tmp_path / "elsewhere")

    assert copy.path == tmp_path / "elsewhere" / "job" / "brisk-heron"
    assert copy.record == replace(
        RECORD, status="stopped", epoch=2, reason="brought here from an object store"
    )
    assert (copy.path / "spec" / "resolved.yaml").read_text() == "jobrun: 1\n"
    store = DirectoryStore(str(copy.path / "checkpoints"))
    assert store.epochs() == (2,)
    assert store.verify(2) is None
    assert read_journal(copy.path, RUN_ID).epochs == (2,)


def test_existing_local_copy_is_reused(tmp_path, run, url):
    assert local_copy(remote_run(str(url)), tmp_path / "runs") == open_run(run.path)


def test_an_epoch_that_only_the_store_has_is_not_looked_for_here(tmp_path, run, url):
    local_copy(remote_run(str(url)), tmp_path / "elsewhere")

    with pytest.raises(UsageError, match=r"E335.*has epochs 2, but not 1, which is at") as caught:
        local_copy(remote_run(str(url)), tmp_path / "elsewhere", 1)

    assert caught.value.faults[0].mend == "name another --run-dir, to which epoch 1 is downloaded"
    assert local_copy(remote_run(str(url)), tmp_path / "elsewhere", 2).record.epoch == 2


def test_another_run_of_that_name_is_not_touched(tmp_path, run, url):
    other = tmp_path / "elsewhere" / "job" / "brisk-heron"
    other.mkdir(parents=True)
    write_record(other, replace(RECORD, run_id="another"))

    with pytest.raises(UsageError, match="E335"):
        local_copy(remote_run(str(url)), tmp_path / "elsewhere")


def test_damaged_epoch_is_skipped_unless_requested(tmp_path, run, url):
    damage(url, 2)

    fetched = fetch_run(remote_run(str(url)), tmp_path / "a")

    assert fetched.record.epoch == 1
    with pytest.raises(CheckpointError, match="E333"):
        fetch_run(remote_run(str(url)), tmp_path / "b", 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "runs"]


def test_missing_epoch_error_lists_existing_epochs(tmp_path, run, url):
    with pytest.raises(CheckpointError, match=r"E335.*no epoch 9") as caught:
        fetch_run(remote_run(str(url)), tmp_path / "a", 9)

    assert caught.value.faults[0].mend == "epochs there: 0, 1, 2"


def test_superseded_epochs_in_the_store_do_not_count(run, url):
    store = DirectoryStore(str(run.path / "again"))
    manifest = write_epoch(store, 1)
    ObjectStore(url / "g1").upload(store.path(1), manifest)

    stores = epochs_below(url)

    assert {epoch: str(epoch_store.url) for epoch, epoch_store in stores.items()} == {
        0: str(url),
        1: str(url / "g1"),
    }


def test_all_epochs_or_one_are_verified(run, url):
    damage(url, 1)
    reported = []

    name, damages = verify_remote(str(url), lambda *arguments: reported.append(arguments))

    assert name == "brisk-heron"
    assert [reason is None for reason in damages.values()] == [True, False, True]
    assert reported == list(damages.items())
    assert list(verify_remote(f"{url}@2", lambda *arguments: None)[1]) == [2]


def test_temporary_copy_has_exactly_one_epoch(run, url):
    copy, epoch = download_temporarily(remote_run(str(url)))

    assert epoch == 2
    assert DirectoryStore(str(copy.path / "checkpoints")).epochs() == (2,)


def test_directory_of_another_run_is_not_used(run, url):
    write_record(run.path, replace(RECORD, run_id="another"))

    with pytest.raises(EnvironmentFaultError, match="E332"):
        upload_record(replace(run, record=replace(RECORD, run_id="another")), url)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.update(format=2),
        lambda content: content["files"].update({"../../.bashrc": "x"}),
        lambda content: content["run"].update(job="../x"),
        lambda content: content["run"].pop("run_id"),
        lambda content: content.pop("files"),
    ],
)
def test_invalid_record_is_refused(run, url, change):
    content = json.loads(Bucket(url).read("run.json", 1 << 20))
    change(content)
    data = json.dumps(content).encode()
    Bucket(url).put("run.json", [data], len(data))

    with pytest.raises(CheckpointError, match="E335"):
        remote_run(str(url))


def test_url_without_a_run_explains_how_to_name_one(url):
    with pytest.raises(CheckpointError, match="no record of a run") as caught:
        remote_run(str(url))

    assert "JOB/RUN" in caught.value.faults[0].mend


def test_a_text_that_names_no_place_is_a_usage_error():
    with pytest.raises(UsageError, match="names no bucket"):
        remote_run("s3://")
