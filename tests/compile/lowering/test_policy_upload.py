from __future__ import annotations

import pytest
from msgspec.structs import replace

from jobrun.compile.lowering.checkpoint import local_directory
from jobrun.compile.pipeline import complete
from jobrun.core.errors import SpecError
from jobrun.graph.checkpoint_policy import CheckpointPolicy, UploadPolicy
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
        ("ftp://host/runs", "'ftp://' is not supported"),
        ("https://host/x", "'https://'"),
        ("file://host/x", "names another machine"),
        ("file://relative", "names another machine"),
    ],
)
def test_other_places_are_refused_in_a_plain_sentence(text, words):
    with pytest.raises(ValueError, match=words):
        local_directory(text)


def test_validate_says_where_and_how_to_mend(tmp_path):
    fault = fault_of(tmp_path, "checkpoint: {upload: {to: 'ftp://host/runs'}}")

    assert fault.code == "E127"
    assert fault.path == "checkpoint.upload.to"
    assert "s3://" in fault.mend
    assert fault.where is not None


def test_a_job_built_in_python_is_held_to_the_same(tmp_path):
    good, bad = (
        replace(job_of(tmp_path, ""), checkpoint=CheckpointPolicy(upload=UploadPolicy(to)))
        for to in ("file:///mnt/x", "ftp://bucket")
    )

    assert complete(good).job.checkpoint.upload == UploadPolicy("/mnt/x")
    with pytest.raises(SpecError, match="E127"):
        complete(bad)


def test_a_directory_compiles_and_none_is_no_upload(tmp_path):
    assert codes_of(tmp_path, "checkpoint: {upload: {to: 'file:///mnt/x'}}") == []
    assert job_of(tmp_path, "checkpoint: {every: 2ep}").checkpoint.upload is None


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("s3://bucket/runs/", "s3://bucket/runs"),
        ("S3://bucket", "s3://bucket"),
        ("gs://bucket/a b", "gs://bucket/a b"),
    ],
)
def test_a_url_of_an_object_store_compiles_to_its_usual_form(tmp_path, text, url):
    policy = job_of(tmp_path, f"checkpoint: {{upload: {{to: '{text}'}}}}").checkpoint

    assert policy.upload == UploadPolicy(url)
    assert policy.upload_at.line > 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("s3://", "names no bucket"),
        ("s3://key:secret@bucket/x", "belong into the environment"),
        ("s3://bucket/a/../b", "mean nothing"),
        ("s3://bucket/a?x=1", "mean nothing"),
    ],
)
def test_a_url_that_names_no_place_is_a_fault(tmp_path, text, words):
    fault = fault_of(tmp_path, f"checkpoint: {{upload: {{to: '{text}'}}}}")

    assert fault.code == "E127"
    assert words in fault.message
