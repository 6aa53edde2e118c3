from __future__ import annotations

import pytest
from msgspec.structs import replace

from jobrun.compile.pipeline import complete
from jobrun.core.errors import SpecError
from jobrun.graph.checkpoint_policy import CheckpointPolicy, UploadPolicy
from tests.support.compiling import fault_of, job_of


def test_nodes_may_write_on_their_own_machines_if_the_master_collects(tmp_path):
    job = job_of(tmp_path, "checkpoint: {node_dir: /var/tmp, collect: master}")

    assert job.checkpoint.node_dir == "/var/tmp"
    assert job_of(tmp_path, "checkpoint: {every: 2ep}").checkpoint.node_dir == ""


@pytest.mark.parametrize(
    ("written", "path", "words"),
    [
        ("node_dir: /var/tmp", "checkpoint.node_dir", "lost with its node"),
        ("collect: master", "checkpoint.collect", "no effect"),
        ("node_dir: here, collect: master", "checkpoint.node_dir", "not an absolute path"),
        ("node_dir: '', collect: master", "checkpoint.node_dir", "not an absolute path"),
        (
            "node_dir: /v, collect: master, upload: {to: up}",
            "checkpoint.node_dir",
            "no access with 'node_dir'",
        ),
        ("node_dir: /v, collect: somebody", "checkpoint.collect", "neither 'master' nor a URL"),
        ("node_dir: /v, collect: /backup", "checkpoint.collect", "neither 'master' nor a URL"),
        ("node_dir: /v, collect: 'memory://b/r'", "checkpoint.collect", "is lost with its process"),
        ("node_dir: /v, collect: 'file:///up'", "checkpoint.collect", "neither 'master' nor a URL"),
        ("node_dir: /v, collect: 's3://'", "checkpoint.collect", "neither 'master' nor a URL"),
        ("collect: 's3://b/r'", "checkpoint.collect", "no effect"),
        ("node_dir: v, collect: 's3://b/r'", "checkpoint.node_dir", "not an absolute path"),
        (
            "node_dir: /v, collect: 's3://b/r', upload: {to: 's3://b/r'}",
            "checkpoint.collect",
            "'upload' has no effect",
        ),
        (
            "node_dir: /v, collect: 's3://b/r', every: 5 records",
            "checkpoint.collect",
            "within an epoch",
        ),
    ],
)
def test_settings_that_lose_state_or_do_nothing_are_refused(tmp_path, written, path, words):
    fault = fault_of(tmp_path, f"checkpoint: {{{written}}}")

    assert (fault.code, fault.path) == ("E127", path)
    assert words in fault.message
    assert fault.mend
    assert fault.where.line > 0


def test_an_upload_to_an_object_store_is_the_masters_and_goes_with_it(tmp_path):
    text = "checkpoint: {node_dir: /v, collect: master, upload: {to: 's3://b/r'}}"

    assert job_of(tmp_path, text).checkpoint.upload is not None


def test_files_may_be_collected_in_an_object_store_where_the_manifests_follow(tmp_path):
    policy = job_of(tmp_path, "checkpoint: {node_dir: /v, collect: 'S3://b/r/'}").checkpoint

    assert (policy.node_dir, policy.collect_to) == ("/v", "s3://b/r")
    assert policy.upload == UploadPolicy("s3://b/r", "committed", required=True)
    assert policy.upload_at.line > 0


def test_a_job_of_python_is_refused_too(tmp_path):
    job = job_of(tmp_path, "")

    def complete_with(policy):
        return complete(replace(job, checkpoint=policy))

    for policy in (
        CheckpointPolicy(node_dir="here"),
        CheckpointPolicy(node_dir="/v", upload=UploadPolicy("up")),
        CheckpointPolicy(node_dir="/v", collect_to="s3://b/r", upload=UploadPolicy("up")),
        CheckpointPolicy(node_dir="/v", collect_to="s3://b/r", every_records=5),
        CheckpointPolicy(node_dir="/v", collect_to="/backup"),
        CheckpointPolicy(collect_to="s3://b/r"),
    ):
        with pytest.raises(SpecError) as caught:
            complete_with(policy)
        assert [fault.code for fault in caught.value.faults] == ["E127"]
    job = complete_with(CheckpointPolicy(node_dir="/v", collect_to="s3://b/r")).job
    assert job.checkpoint.upload == UploadPolicy("s3://b/r", "committed", required=True)
