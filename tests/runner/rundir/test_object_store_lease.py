from __future__ import annotations

import shutil

import pytest

from jobrun.checkpoint.stores.bucket import Bucket
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.text.object_url import parse_object_url
from jobrun.runner.rundir.object_store_run import HOLDER_NAME, RunLease, copy_lease


@pytest.fixture
def url(tmp_path):
    return parse_object_url(f"memory://{tmp_path.name}/job/run")


@pytest.fixture
def run(tmp_path):
    (path := tmp_path / "run").mkdir()
    return path


def test_same_directory_can_renew_its_lease(run, url):
    for _ in range(3):
        lease = RunLease(run, url)
        lease.require_lease()
        lease.require_lease()

    words = (run / HOLDER_NAME).read_text().split()
    assert len(set(words)) == 3
    assert Bucket(url).read(HOLDER_NAME, 99).decode() == words[-1]


def test_only_the_first_of_a_run_and_its_copy_gets_the_lease(run, url, tmp_path):
    RunLease(run, url).require_lease()
    shutil.copytree(run, tmp_path / "copy")
    RunLease(tmp_path / "copy", url).require_lease()

    with pytest.raises(EnvironmentFaultError, match="continued from another") as caught:
        RunLease(run, url).require_lease()

    assert caught.value.faults[0].code == "E332"
    assert f"jobrun resume {url}" in caught.value.faults[0].mend


def test_directory_that_lost_the_lease_saves_no_more(run, url, tmp_path):
    old = RunLease(run, url)
    old.require_lease()
    (fetched := tmp_path / "fetched").mkdir()
    copy_lease(url, fetched)

    new = RunLease(fetched, url)
    new.require_lease()

    with pytest.raises(EnvironmentFaultError, match="continued from another"):
        old.require_lease()
    new.require_lease()


def test_interrupted_claim_of_the_lease_does_not_lock_the_run_out(run, url, monkeypatch):
    RunLease(run, url).require_lease()

    def failing(*arguments):
        raise EnvironmentFaultError.of("E331", "it does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(Bucket, "put", failing)
        with pytest.raises(EnvironmentFaultError, match="does not answer"):
            RunLease(run, url).require_lease()

    RunLease(run, url).require_lease()


def test_deleted_lease_is_written_again(run, url):
    lease = RunLease(run, url)
    lease.require_lease()
    Bucket(url).delete([HOLDER_NAME])

    lease.require_lease()
    RunLease(run, url).require_lease()


def test_no_lease_is_copied_from_a_run_without_saves(run, url):
    copy_lease(url, run)

    assert list(run.iterdir()) == []
