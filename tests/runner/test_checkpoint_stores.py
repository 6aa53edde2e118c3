from __future__ import annotations

import pytest
from msgspec.structs import replace

from jobrun.checkpoint.store_protocol import Manifest
from jobrun.graph.checkpoint_policy import CheckpointPolicy, UploadPolicy
from jobrun.graph.types import Cluster, Job, Node, TaskGroup
from jobrun.runner.checkpoint_stores import node_files, open_store, open_upload
from jobrun.runner.rundir.run_directories import Run
from jobrun.runner.rundir.run_json import RunRecord
from jobrun.runner.saving.upload_to_object_store import ObjectUpload

JOB = Job(
    "j", Cluster((Node("n"),)), *(TaskGroup(n) for n in ("init", "epoch", "download", "exit"))
)
MANIFEST = Manifest(3, "id", 0, (), "")


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "runs" / "j" / "brisk-heron"
    return Run(path, RunRecord("id", "j", "2026-11-21T09:42:00.000000+00:00"))


def with_policy(**policy):
    return replace(JOB, checkpoint=CheckpointPolicy(nodes=("n",), **policy))


def test_checkpoints_are_inside_the_run_by_default(run, tmp_path):
    assert open_store(run, JOB, tmp_path).path(1) == str(run.path / "checkpoints" / "epoch-000001")
    elsewhere = open_store(run, with_policy(directory="ck"), tmp_path)

    assert elsewhere.path(1) == str(tmp_path / "ck" / "j" / "brisk-heron" / "epoch-000001")


@pytest.mark.parametrize("absolute", [False, True])
def test_copies_are_below_the_named_directory_under_the_runs_name(run, tmp_path, absolute):
    to = str(tmp_path / "up") if absolute else "up"

    builder = open_upload(run, with_policy(upload=UploadPolicy(to)), tmp_path)

    expected = tmp_path / "up" / "j" / "brisk-heron" / "epoch-000003"
    assert builder.target(MANIFEST) == str(expected)


def test_without_an_upload_nothing_is_copied(run, tmp_path):
    assert open_upload(run, JOB, tmp_path) is None


def test_run_has_its_own_prefix_in_an_object_store(run, tmp_path):
    upload = open_upload(run, with_policy(upload=UploadPolicy("s3://b/up")), tmp_path)

    assert isinstance(upload, ObjectUpload)
    assert str(upload.url) == "s3://b/up/j/brisk-heron"
    assert not upload.is_over()


def test_nodes_write_to_the_store_or_to_node_dir(run, tmp_path):
    store = open_store(run, JOB, tmp_path)

    assert node_files(with_policy(), store, run).epochs_dir == str(run.path / "checkpoints")
    files = node_files(with_policy(node_dir="/v"), store, run)
    assert (files.epochs_dir, files.node_dir, files.objects) == ("", "/v/jobrun-id", "")
    assert node_files(with_policy(enabled=False), store, run).nodes == ()


@pytest.mark.parametrize("generation", [0, 3])
def test_nodes_bring_files_to_the_place_of_the_runs_generation(run, tmp_path, generation):
    later = replace(run, record=replace(run.record, generation=generation))
    job = with_policy(node_dir="/v", collect_to="s3://b/up")

    files = node_files(job, open_store(run, JOB, tmp_path), later)

    assert files.objects == "s3://b/up/j/brisk-heron" + ("/g3" if generation else "")
