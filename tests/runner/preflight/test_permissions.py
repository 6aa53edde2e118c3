"""Rows 39 and 41: directories that somebody else could change under our hands."""

from __future__ import annotations

import os

import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.runner.preflight.permissions import (
    require_own,
    require_own_parent,
    require_own_unless_trusted,
)

# Whoever made the files of a test is another user to this one.
ANOTHER = os.geteuid() + 1
FOREIGN = os.geteuid() == 0


@pytest.fixture
def run(tmp_path):
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    if FOREIGN:
        # The superuser is trusted, so the files must be somebody's.
        for path in (run, run / "checkpoints"):
            os.chown(path, 12345, 12345)
    return run


def test_ones_own_run_is_trusted_whatever_its_mode(run):
    run.chmod(0o777)
    require_own(run, run.stat().st_uid)


def test_another_users_run_that_only_he_may_change_is_trusted(run):
    require_own(run, ANOTHER)


def test_row_41_another_users_run_that_all_may_change_is_refused(run):
    run.chmod(0o777)

    with pytest.raises(EnvironmentFaultError, match="everyone may write") as raised:
        require_own(run, ANOTHER)

    (fault,) = raised.value.faults
    assert fault.code == "E380"
    assert "--trust-dir" in fault.mend
    require_own_unless_trusted(run, trust=True)


def test_row_41_its_checkpoints_count_too(run):
    (run / "checkpoints").chmod(0o777)

    with pytest.raises(EnvironmentFaultError, match="checkpoints belongs to another user"):
        require_own(run, ANOTHER)


def test_row_39_a_link_that_another_user_made_is_refused(run, tmp_path):
    (run / "checkpoints").rmdir()
    (run / "checkpoints").symlink_to(tmp_path)
    if FOREIGN:
        os.lchown(run / "checkpoints", 12345, 12345)

    with pytest.raises(EnvironmentFaultError, match="is a link that another user"):
        require_own(run, ANOTHER)


def test_a_link_of_ones_own_is_followed(run, tmp_path):
    (run / "checkpoints").rmdir()
    (run / "checkpoints").symlink_to(tmp_path)

    require_own(run, (run / "checkpoints").lstat().st_uid)


def test_row_41_no_run_is_made_where_another_user_lets_all_write(run):
    run.chmod(0o777)

    with pytest.raises(EnvironmentFaultError, match="belongs to another user"):
        require_own_parent(run, ANOTHER)
    require_own_parent(run / "not there", ANOTHER)
