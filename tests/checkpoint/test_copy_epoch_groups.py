from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jobrun.checkpoint.copy_epoch_groups import (
    COPY_TASK,
    PUBLISH_TASK,
    DirectoryUpload,
    upload_group,
)
from jobrun.checkpoint.store import Manifest
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.graph.steps import CopyState, PublishCopy
from jobrun.testing.stores import write_epoch


@pytest.fixture
def store(tmp_path):
    made = DirectoryStore(str(tmp_path / "checkpoints"))
    write_epoch(made, 3, nodes=("a", "b"))
    return made


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


def test_an_epoch_of_a_later_generation_has_a_place_of_its_own(tmp_path, store):
    manifest = replace(store.manifest(3), generation=2)

    target = DirectoryUpload(str(tmp_path), "n").target(manifest)

    assert target == str(tmp_path / "g2" / "epoch-000003")


def test_what_is_there_already_needs_no_tasks(tmp_path, store):
    copied = DirectoryStore(str(tmp_path / "there"))
    write_epoch(copied, 3, nodes=("a", "b"))

    assert build(tmp_path, store).tasks == ()


def test_a_different_one_that_is_there_is_told_before_anything_runs(tmp_path, store):
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
