"""When epochs are uploaded, and what a failure of that means."""

from __future__ import annotations

import pytest

from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.core.errors import EnvironmentFaultError, TaskFailedError
from jobrun.core.events import GroupEnded, GroupStarted, Noted
from jobrun.graph.checkpoint_policy import UploadPolicy
from jobrun.graph.types import OutputRef, Task, TaskGroup
from jobrun.runner.saving.upload_by_task_groups import GroupUploader
from jobrun.session.group_errors import GroupCancelledError
from jobrun.testing.stores import write_epoch
from tests.support.scripted_session import ScriptedSession

FACT = {OutputRef("mine", "n", "file"): "a fact"}


class Builder:
    """Makes a group with one task; fails for the epochs in ``failing``."""

    def __init__(self, error=None):
        self.built = []
        self.failing = set()
        self.error = error or EnvironmentFaultError.of("E318", "no space", "free some")
        self.done = set()

    def build(self, epoch, store):
        self.built.append(epoch)
        if epoch in self.failing:
            raise self.error
        return TaskGroup("upload", () if epoch in self.done else (Task("mine", "n", ()),))


class Bench:
    def __init__(self, path, when="end", required=False, error=None):
        self.store = DirectoryStore(str(path))
        for epoch in range(3):
            write_epoch(self.store, epoch)
        self.builder = Builder(error)
        self.session = ScriptedSession({"upload": lambda blobs, epoch: FACT})
        self.events, self.reports = [], []
        self.uploader = GroupUploader(
            self.builder,
            UploadPolicy("", when, required),
            self.store,
            self.session,
            self.events.append,
            lambda epoch, outputs: self.reports.append((epoch, outputs)),
        )

    @property
    def warnings(self):
        return [e.text for e in self.events if isinstance(e, Noted) and e.level == "warning"]


def test_at_the_end_the_last_one_is_uploaded_once(tmp_path):
    bench = Bench(tmp_path)
    for epoch in range(3):
        bench.uploader.committed(epoch)
    assert bench.builder.built == []

    bench.uploader.finish(2)

    assert bench.session.calls == ["upload 2"]
    assert bench.reports == [(2, FACT)]
    started, ended = bench.events
    assert started == GroupStarted("upload", 2, ("mine",))
    assert isinstance(ended, GroupEnded)


def test_each_committed_one_is_uploaded_at_once_and_at_the_end_what_is_missing(tmp_path):
    bench = Bench(tmp_path, "committed")
    bench.builder.failing = {1}
    for epoch in (1, 2):
        bench.uploader.committed(epoch)
    bench.builder.failing = set()

    bench.uploader.finish(2)

    assert bench.session.calls == ["upload 2", "upload 0", "upload 1"]


def test_what_is_there_already_runs_nothing(tmp_path):
    bench = Bench(tmp_path)
    bench.builder.done = {2}

    bench.uploader.finish(2)

    assert bench.session.calls == []
    assert bench.events == []


def test_a_failure_is_told_at_once_and_counted_at_the_end(tmp_path):
    bench = Bench(tmp_path, "committed")
    bench.builder.failing = {1, 2}
    bench.uploader.committed(1)
    assert bench.warnings == ["epoch 1 could not be uploaded: no space"]

    bench.uploader.finish(2)

    assert bench.warnings[-1] == "3 uploads failed; the checkpoints themselves are saved"


def test_a_required_upload_that_fails_fails_the_run(tmp_path):
    bench = Bench(tmp_path, required=True)
    bench.builder.failing = {2}

    with pytest.raises(EnvironmentFaultError) as caught:
        bench.uploader.finish(2)

    (fault,) = caught.value.faults
    assert (fault.code, fault.mend) == ("E321", "free some")
    assert caught.value.exit_code == 7
    assert caught.value.__cause__ is bench.builder.error


@pytest.mark.parametrize("error", [TaskFailedError.of("E201", "a step failed"), KeyError("x")])
def test_whatever_fails_in_a_builder_or_its_group_is_an_upload_that_failed(tmp_path, error):
    bench = Bench(tmp_path, required=True, error=error)
    bench.builder.failing = {2}

    with pytest.raises(EnvironmentFaultError, match="epoch 2 could not be uploaded"):
        bench.uploader.finish(2)


def test_without_a_saved_epoch_there_is_nothing_to_upload(tmp_path):
    bench = Bench(tmp_path)
    bench.uploader.finish(-1)
    assert "no epoch is saved" in bench.warnings[0]

    with pytest.raises(EnvironmentFaultError, match="no epoch is saved"):
        Bench(tmp_path / "other", required=True).uploader.finish(-1)


def test_a_request_to_end_is_no_failure(tmp_path):
    bench = Bench(tmp_path, required=True)
    bench.session.cancelled = True

    with pytest.raises(GroupCancelledError):
        bench.uploader.finish(2)
    assert bench.warnings == []
