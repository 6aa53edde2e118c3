"""Whether uploads can be made, seen before anything runs."""

from __future__ import annotations

import sys

import pytest
from msgspec.structs import replace

from jobrun.checkpoint.stores.bucket import Bucket
from jobrun.core.errors import EnvironmentFaultError, Origin
from jobrun.core.text.object_url import parse_object_url
from jobrun.graph.checkpoint_policy import CheckpointPolicy, UploadPolicy
from jobrun.graph.types import Cluster, Job, Node, TaskGroup
from jobrun.runner.preflight.checks import check_upload

WHERE = Origin("j.yaml", 3, 7)
GROUPS = (TaskGroup(name) for name in ("init", "epoch", "download", "exit"))
JOB = Job("j", Cluster((Node("n"),)), *GROUPS)


def check(to, *, required=False, **more):
    upload = UploadPolicy(to, required=required)
    policy = CheckpointPolicy(upload=upload, upload_at=WHERE, **more)
    return check_upload(replace(JOB, checkpoint=policy))


def saying(monkeypatch, code):
    def no(self, name, data):
        raise EnvironmentFaultError.of(code, f"cannot write s3://b/{name}: no", "mend it")

    monkeypatch.setattr(Bucket, "put_new", no)


def test_writable_bucket_passes_and_stays_empty(tmp_path):
    to = f"memory://{tmp_path.name}/x"

    assert check(to) == ()

    assert Bucket(parse_object_url(to)).list() == {}


def test_directories_and_jobs_without_checkpoints_are_not_looked_at():
    assert check("/no/where") == ()
    assert check("s3://b", enabled=False) == ()
    assert check_upload(JOB) == ()


@pytest.mark.parametrize(
    ("code", "required", "expected"),
    [
        ("E336", False, ("E336", "error")),
        ("E331", True, ("E331", "error")),
        ("E331", False, ("W184", "warning")),
    ],
)
def test_transient_store_error_is_a_warning_unless_the_upload_is_required(
    monkeypatch, code, required, expected
):
    saying(monkeypatch, code)

    (fault,) = check("memory://b", required=required)

    assert (fault.code, fault.severity) == expected
    assert fault.where == WHERE
    assert fault.message.startswith("cannot write s3://b: no")


def test_without_the_package_the_run_does_not_begin(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)

    (fault,) = check("s3://b")

    assert (fault.code, fault.severity, fault.where) == ("E330", "error", WHERE)
