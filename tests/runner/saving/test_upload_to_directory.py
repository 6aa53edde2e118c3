"""When epochs are uploaded to a directory, by which task group, and what a failure means."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from jobrun.checkpoint.store_protocol import Manifest
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.core.errors import CheckpointError, EnvironmentFaultError, TaskFailedError
from jobrun.core.events import GroupEnded, GroupStarted, Noted
from jobrun.graph.checkpoint_policy import UploadPolicy
from jobrun.graph.steps import CopyState, PublishCopy
from jobrun.graph.types import OutputRef, Task, TaskGroup
from jobrun.runner.saving.upload_to_directory import (
    COPY_TASK,
    PUBLISH_TASK,
    DirectoryUpload,
    GroupUploader,
    upload_group,
)
from jobrun.session.base import GroupCancelledError
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


def test_committed_epochs_are_uploaded_immediately_and_missing_ones_at_the_end(tmp_path):
    bench = Bench(tmp_path, "committed")
    bench.builder.failing = {1}
    for epoch in (1, 2):
        bench.uploader.committed(epoch)
    bench.builder.failing = set()

    bench.uploader.finish(2)

    assert bench.session.calls == ["upload 2", "upload 0", "upload 1"]


def test_existing_upload_runs_no_tasks(tmp_path):
    bench = Bench(tmp_path)
    bench.builder.done = {2}

    bench.uploader.finish(2)

    assert bench.session.calls == []
    assert bench.events == []


def test_failed_upload_warns_immediately_and_is_counted_at_the_end(tmp_path):
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
def test_failure_of_a_builder_or_its_group_fails_the_upload(tmp_path, error):
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


@pytest.fixture
def store(tmp_path):
    store = DirectoryStore(str(tmp_path / "checkpoints"))
    write_epoch(store, 3, nodes=("a", "b"))
    return store


def build(tmp_path, store, epoch=3):
    return DirectoryUpload(str(tmp_path / "there"), "first").build(epoch, store)


def test_each_node_copies_its_file_and_one_publishes_when_all_have(tmp_path, store):
    group = build(tmp_path, store)

    assert [(task.name, task.node) for task in group.tasks] == [
        (COPY_TASK, "a"),
        (COPY_TASK, "b"),
        (PUBLISH_TASK, "a"),
    ]
    (copy,) = group.tasks[0].steps
    assert isinstance(copy, CopyState)
    file = store.manifest(3).files[0]
    assert (copy.file, copy.node) == (str(Path(store.path(3), "a.h5")), "a")
    assert (copy.digest, copy.size_bytes) == (file.digest, file.size_bytes)
    (publish,) = group.tasks[2].steps
    assert isinstance(publish, PublishCopy)
    assert group.tasks[2].needs == (COPY_TASK,)
    assert publish.target == str(tmp_path / "there" / "epoch-000003")
    assert Path(publish.staged).parent == tmp_path / "there"
    assert publish.staged == copy.staged


def test_building_touches_nothing_and_gives_the_same_each_time(tmp_path, store):
    assert build(tmp_path, store) == build(tmp_path, store)
    assert not (tmp_path / "there").exists()


def test_epoch_of_a_later_generation_has_its_own_directory(tmp_path, store):
    manifest = replace(store.manifest(3), generation=2)

    target = DirectoryUpload(str(tmp_path), "n").target(manifest)

    assert target == str(tmp_path / "g2" / "epoch-000003")


def test_existing_upload_needs_no_tasks(tmp_path, store):
    copied = DirectoryStore(str(tmp_path / "there"))
    write_epoch(copied, 3, nodes=("a", "b"))

    assert build(tmp_path, store).tasks == ()


def test_different_epoch_at_the_target_is_refused_before_tasks_run(tmp_path, store):
    write_epoch(DirectoryStore(str(tmp_path / "there")), 3, nodes=("b",))

    with pytest.raises(EnvironmentFaultError, match="E319"):
        build(tmp_path, store)


def test_an_epoch_that_is_not_there_cannot_be_uploaded(tmp_path, store):
    with pytest.raises(CheckpointError):
        build(tmp_path, store, epoch=9)


def test_an_epoch_without_files_is_published_by_the_given_node():
    group = upload_group(Manifest(1, "run", 0, (), ""), "/ck/epoch-000001", "/up/epoch-000001", "n")

    assert [(task.name, task.node, task.needs) for task in group.tasks] == [(PUBLISH_TASK, "n", ())]


def test_the_staging_name_is_that_of_a_leftover(tmp_path, store):
    staged = Path(build(tmp_path, store).tasks[0].steps[0].staged)
    staged.mkdir(parents=True)

    assert DirectoryStore(str(tmp_path / "there")).sweep() == (staged.name,)
