"""When epochs are brought to an object store, and what a failure means. Waits for conditions."""

from __future__ import annotations

import threading

import pytest
from msgspec.structs import replace

from jobrun.checkpoint.stores.bucket import Bucket
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.stores.object_store import ObjectStore, UploadCancelledError, object_name
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.events import Noted
from jobrun.core.text.object_url import parse_object_url
from jobrun.graph.checkpoint_policy import UploadPolicy
from jobrun.runner.saving.upload_to_object_store import (
    BackgroundUploader,
    ObjectUpload,
    generation_url,
)
from jobrun.session.base import GroupCancelledError
from jobrun.testing.stores import write_epoch
from tests.support.checkpoints import write

LONG_S = 60


class Upload:
    """Stands for ``ObjectUpload``: each upload waits until it may go on, or is given up."""

    def __init__(self, failing=(), waiting=False):
        self.failing = set(failing)
        self.sent = []
        self.begun = threading.Event()
        self.may_go_on = threading.Event()
        self.over = False
        if not waiting:
            self.may_go_on.set()

    def is_over(self):
        return self.over

    def send(self, directory, manifest, is_wanted):
        self.begun.set()
        while not self.may_go_on.wait(0.01):
            if not is_wanted():
                raise UploadCancelledError
        if manifest.epoch in self.failing:
            raise EnvironmentFaultError.of("E331", "it does not answer", "see to it")
        self.sent.append(manifest.epoch)
        return True


class Bench:
    def __init__(self, path, when="committed", required=False, upload=None):
        self.store = DirectoryStore(str(path / "checkpoints"))
        for epoch in range(3):
            write_epoch(self.store, epoch)
        self.upload = upload or Upload()
        self.events, self.reports = [], []
        self.sender = BackgroundUploader(
            self.upload,
            UploadPolicy("s3://b", when, required),
            self.store,
            self.events.append,
            self.reports.append,
        )

    @property
    def warnings(self):
        return [e.text for e in self.events if isinstance(e, Noted) and e.level == "warning"]


def test_run_continues_while_an_epoch_is_uploaded(tmp_path):
    bench = Bench(tmp_path, upload=Upload(waiting=True))

    bench.sender.committed(0)
    bench.sender.committed(1)

    assert bench.upload.begun.wait(LONG_S)
    assert bench.upload.sent == []
    assert bench.sender.held() == {0}
    bench.upload.may_go_on.set()
    bench.sender.finish(2)
    assert bench.upload.sent == [0, 1, 2]
    assert [(report.action, report.epoch) for report in bench.reports] == [
        ("upload", 0),
        ("upload", 1),
        ("upload", 2),
    ]
    bench.sender.close()


def test_an_upload_that_is_required_is_waited_for(tmp_path):
    bench = Bench(tmp_path, required=True)

    bench.sender.committed(1)

    assert bench.upload.sent == [1]
    bench.sender.close()


def test_at_the_end_only_the_last_one_is_uploaded(tmp_path):
    bench = Bench(tmp_path, when="end")
    bench.sender.committed(1)

    bench.sender.finish(2)

    assert bench.upload.sent == [2]
    bench.sender.close()


def test_failed_upload_warns_and_is_retried_at_the_end(tmp_path):
    bench = Bench(tmp_path, upload=Upload(failing={1}))
    bench.sender.committed(1)
    bench.sender._await()
    assert bench.warnings == ["epoch 1 could not be uploaded: it does not answer"]
    bench.upload.failing.clear()

    bench.sender.finish(2)

    assert bench.upload.sent == [0, 1, 2]
    assert len(bench.warnings) == 1
    bench.sender.close()


def test_uploads_that_still_fail_at_the_end_are_reported(tmp_path):
    bench = Bench(tmp_path, upload=Upload(failing={1}))

    bench.sender.finish(2)

    assert bench.warnings[-1] == "1 upload failed; the checkpoints themselves are saved"
    bench.sender.close()


def test_same_failure_of_many_epochs_is_reported_once(tmp_path):
    bench = Bench(tmp_path, upload=Upload(failing={0, 1, 2}))
    for epoch in (0, 1, 2):
        bench.sender.committed(epoch)

    bench.sender.finish(2)

    assert bench.warnings == [
        "epoch 0 could not be uploaded: it does not answer",
        "3 uploads failed; the checkpoints themselves are saved",
    ]
    bench.sender.close()


def test_a_failure_of_one_that_is_required_is_raised(tmp_path):
    bench = Bench(tmp_path, required=True, upload=Upload(failing={1}))

    with pytest.raises(EnvironmentFaultError, match=r"E321.*epoch 1.*does not answer"):
        bench.sender.committed(1)

    bench.sender.close()


def test_without_an_epoch_there_is_nothing_to_upload(tmp_path):
    with pytest.raises(EnvironmentFaultError, match="no epoch is saved"):
        Bench(tmp_path, required=True).sender.finish(-1)


def test_at_the_end_of_a_run_that_is_stopped_an_upload_is_given_up(tmp_path):
    bench = Bench(tmp_path, upload=Upload(waiting=True))
    bench.sender.committed(0)
    bench.sender.committed(1)
    assert bench.upload.begun.wait(LONG_S)

    bench.sender.close()
    bench.sender.close()

    assert bench.upload.sent == []
    assert bench.warnings == ["2 epochs are not uploaded yet; a resume continues with that"]


def test_stop_request_wakes_the_wait_for_uploads(tmp_path):
    bench = Bench(tmp_path, upload=Upload(waiting=True))
    bench.upload.over = True

    with pytest.raises(GroupCancelledError):
        bench.sender.finish(2)

    bench.sender.close()


def test_epochs_that_retention_deletes_before_their_turn_are_no_failures_and_reported_once(
    tmp_path,
):
    bench = Bench(tmp_path)
    bench.store.remove((0, 1))
    for epoch in (0, 1, 2):
        bench.sender.committed(epoch)

    bench.sender.finish(2)

    (warning,) = bench.warnings
    assert "epoch 0 is not uploaded: checkpoint.keep has deleted it before its turn" in warning
    assert bench.upload.sent == [2]
    bench.sender.close()


def test_record_is_uploaded_once_and_each_generation_has_its_own_url(tmp_path):
    store = DirectoryStore(str(tmp_path / "checkpoints"))
    first, again = write_epoch(store, 1), write_epoch(store, 2)
    brought = []
    url = parse_object_url(f"memory://{tmp_path.name}/job/run")
    upload = ObjectUpload(url, brought.append)

    upload.send(store.path(1), first, lambda: True)
    upload.send(store.path(2), replace(again, generation=2), lambda: True)

    assert brought == [url]
    assert ObjectStore(url).epochs() == (1,)
    assert ObjectStore(url / "g2").epochs() == (2,)


class RunLease:
    """Somebody else goes on with the run, or nobody does."""

    def __init__(self, is_free):
        self._is_free = is_free

    def require_lease(self):
        if not self._is_free:
            raise EnvironmentFaultError.of("E332", "another one does")


def staged(tmp_path):
    """A directory with the files of two nodes, of which one is in the store already."""
    (folder := tmp_path / "staged").mkdir()
    files = [write(folder, node=node) for node in ("a", "b")]
    (folder / "b.h5").unlink()
    (folder / "b.h5.url").touch()
    return folder, files


@pytest.mark.parametrize("generation", [0, 2])
def test_missing_files_are_uploaded_before_the_epoch_is_committed(tmp_path, generation):
    folder, files = staged(tmp_path)
    url = parse_object_url(f"memory://{tmp_path.name}/j/r")

    ObjectUpload(url, lambda url: None, holding=RunLease(True)).take(
        str(folder), 3, generation, files
    )

    assert sorted(path.name for path in folder.iterdir()) == ["a.h5.url", "b.h5.url"]
    there = generation_url(url, generation)
    assert str(there) == str(url) + ("/g2" if generation else "")
    assert Bucket(there).list() == {object_name(3, files[0]): files[0].size_bytes}


def test_nothing_is_uploaded_without_the_lease(tmp_path):
    folder, files = staged(tmp_path)
    url = parse_object_url(f"memory://{tmp_path.name}/j/r")

    with pytest.raises(EnvironmentFaultError, match="another one"):
        ObjectUpload(url, lambda url: None, holding=RunLease(False)).take(str(folder), 3, 0, files)

    assert (folder / "a.h5").exists()
    assert Bucket(url).list() == {}
