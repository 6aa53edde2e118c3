from __future__ import annotations

import pytest

from jobrun.core.errors import LockedError, UsageError
from jobrun.runner.lock import RunLock
from jobrun.tools.runs.removal import remove_run, size_of
from tests.support.some_runs import make_run


def test_a_finished_run_disappears_whole(tmp_path):
    run = make_run(tmp_path)
    assert size_of(run.path) > 5 * 4096

    remove_run(run)

    assert [path.name for path in run.path.parent.iterdir() if not path.is_symlink()] == []


def test_a_run_that_could_go_on_is_kept_unless_it_is_meant(tmp_path):
    run = make_run(tmp_path, limit=1.5)

    with pytest.raises(UsageError, match="E423"):
        remove_run(run)
    assert run.path.exists()
    remove_run(run, unfinished=True)
    assert not run.path.exists()


def test_a_run_that_lives_is_kept(tmp_path):
    run = make_run(tmp_path)

    with RunLock.acquire(run.path), pytest.raises(LockedError):
        remove_run(run, unfinished=True)

    assert run.path.exists()
