from __future__ import annotations

import shutil

import pytest

from jobrun.checkpoint.stores.bucket import Bucket
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.object_url import parse_object_url
from jobrun.runner.rundir.object_store_run import HOLDER_NAME, RunLease, copy_lease


@pytest.fixture
def url(tmp_path):
    return parse_object_url(f"memory://{tmp_path.name}/job/run")


@pytest.fixture
def run(tmp_path):
    (path := tmp_path / "run").mkdir()
    return path


def test_one_directory_may_go_on_any_number_of_times(run, url):
    for _ in range(3):
        lease = RunLease(run, url)
        lease.require_lease()
        lease.require_lease()

    words = (run / HOLDER_NAME).read_text().split()
    assert len(set(words)) == 3
    assert Bucket(url).read(HOLDER_NAME, 99).decode() == words[-1]


def test_of_a_directory_and_its_copy_only_the_first_that_goes_on_may(run, url, tmp_path):
    RunLease(run, url).require_lease()
    shutil.copytree(run, tmp_path / "copy")
    RunLease(tmp_path / "copy", url).require_lease()

    with pytest.raises(EnvironmentFaultError, match="continued from another") as caught:
        RunLease(run, url).require_lease()

    assert caught.value.faults[0].code == "E332"
    assert f"jobrun resume {url}" in caught.value.faults[0].mend


def test_who_lives_still_while_another_takes_over_saves_no_more(run, url, tmp_path):
    old = RunLease(run, url)
    old.require_lease()
    (fetched := tmp_path / "fetched").mkdir()
    copy_lease(url, fetched)

    new = RunLease(fetched, url)
    new.require_lease()

    with pytest.raises(EnvironmentFaultError, match="continued from another"):
        old.require_lease()
    new.require_lease()


def test_a_claim_that_was_cut_short_does_not_shut_the_run_out(run, url, monkeypatch):
    RunLease(run, url).require_lease()

    def failing(*arguments):
        raise EnvironmentFaultError.of("E331", "it does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(Bucket, "put", failing)
        with pytest.raises(EnvironmentFaultError, match="does not answer"):
            RunLease(run, url).require_lease()

    RunLease(run, url).require_lease()


def test_a_word_that_somebody_has_deleted_is_written_again(run, url):
    lease = RunLease(run, url)
    lease.require_lease()
    Bucket(url).delete([HOLDER_NAME])

    lease.require_lease()
    RunLease(run, url).require_lease()


def test_where_nobody_has_saved_there_is_nothing_to_take_along(run, url):
    copy_lease(url, run)

    assert list(run.iterdir()) == []
