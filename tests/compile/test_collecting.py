from __future__ import annotations

from dataclasses import replace

import pytest

from jobrun.compile.handmade import complete
from jobrun.core.errors import SpecError
from jobrun.graph.conditions import CheckpointPolicy, UploadPolicy
from tests.support.compiling import codes_of, fault_of, job_of


def test_nodes_may_write_on_their_own_machines_if_the_master_collects(tmp_path):
    job = job_of(tmp_path, "checkpoint: {node_dir: /var/tmp, collect: master}")

    assert job.checkpoint.node_dir == "/var/tmp"
    assert job_of(tmp_path, "checkpoint: {every: 2ep}").checkpoint.node_dir == ""


@pytest.mark.parametrize(
    ("written", "path", "words"),
    [
        ("node_dir: /var/tmp", "checkpoint.node_dir", "lost with its node"),
        ("collect: master", "checkpoint.collect", "no effect"),
        ("node_dir: here, collect: master", "checkpoint.node_dir", "no absolute path"),
        ("node_dir: '', collect: master", "checkpoint.node_dir", "no absolute path"),
        ("node_dir: /v, collect: master, upload: {to: up}", "checkpoint.node_dir", "see no epochs"),
    ],
)
def test_what_could_lose_state_or_does_nothing_is_refused_where_it_stands(
    tmp_path, written, path, words
):
    fault = fault_of(tmp_path, f"checkpoint: {{{written}}}")

    assert (fault.code, fault.path) == ("E127", path)
    assert words in fault.message
    assert fault.mend
    assert fault.where.line > 0


def test_an_upload_to_an_object_store_is_the_masters_and_goes_with_it(tmp_path):
    text = "checkpoint: {node_dir: /v, collect: master, upload: {to: 's3://b/r'}}"

    assert job_of(tmp_path, text).checkpoint.upload is not None


def test_another_collector_is_no_part_of_the_language(tmp_path):
    assert codes_of(tmp_path, "checkpoint: {node_dir: /v, collect: somebody}") != []


def test_a_job_of_python_is_refused_too(tmp_path):
    job = job_of(tmp_path, "")

    def made(policy):
        return complete(replace(job, checkpoint=policy))

    for policy in (
        CheckpointPolicy(node_dir="here"),
        CheckpointPolicy(node_dir="/v", upload=UploadPolicy("up")),
    ):
        with pytest.raises(SpecError) as caught:
            made(policy)
        assert [fault.code for fault in caught.value.faults] == ["E127"]
