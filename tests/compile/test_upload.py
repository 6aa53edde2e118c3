from __future__ import annotations

from dataclasses import replace

import pytest

from jobrun.compile.handmade import complete
from jobrun.compile.upload import local_directory
from jobrun.core.errors import SpecError
from jobrun.graph.conditions import CheckpointPolicy, UploadPolicy
from tests.support.compiling import codes_of, fault_of, job_of


@pytest.mark.parametrize(
    ("text", "directory"),
    [
        ("there", "there"),
        ("../up/there", "../up/there"),
        ("/mnt/a b", "/mnt/a b"),
        ("a:b", "a:b"),
        ("file:///mnt/x", "/mnt/x"),
        ("FILE:///mnt/x", "/mnt/x"),
        ("file://localhost/mnt/x", "/mnt/x"),
        ("file:///mnt/a%20b", "/mnt/a b"),
    ],
)
def test_a_directory_is_a_path_or_a_file_url(text, directory):
    assert local_directory(text) == directory


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("s3://bucket/runs", "'s3://' is not carried out"),
        ("gs://bucket", "'gs://'"),
        ("https://host/x", "'https://'"),
        ("file://host/x", "names a machine"),
        ("file://relative", "names a machine"),
    ],
)
def test_other_places_are_refused_in_a_plain_sentence(text, words):
    with pytest.raises(ValueError, match=words):
        local_directory(text)


def test_validate_says_where_and_how_to_mend(tmp_path):
    fault = fault_of(tmp_path, "checkpoint: {upload: {to: 's3://bucket/runs'}}")

    assert fault.code == "E127"
    assert fault.path == "checkpoint.upload.to"
    assert "file:///" in fault.mend
    assert fault.where is not None


def test_a_job_built_in_python_is_held_to_the_same(tmp_path):
    good, bad = (
        replace(job_of(tmp_path, ""), checkpoint=CheckpointPolicy(upload=UploadPolicy(to)))
        for to in ("file:///mnt/x", "s3://bucket")
    )

    assert complete(good).job.checkpoint.upload == UploadPolicy("/mnt/x")
    with pytest.raises(SpecError, match="E127"):
        complete(bad)


def test_a_directory_compiles_and_none_is_no_upload(tmp_path):
    assert codes_of(tmp_path, "checkpoint: {upload: {to: 'file:///mnt/x'}}") == []
    assert job_of(tmp_path, "checkpoint: {every: 2ep}").checkpoint.upload is None
