from __future__ import annotations

from jobrun.runner.lock import RunLock
from jobrun.tools.runs.listing import KILLED, listed_runs
from tests.support.some_runs import make_run


def test_one_that_says_it_runs_and_that_nobody_holds_was_killed(tmp_path):
    make_run(tmp_path, "good")
    root = tmp_path / "runs"
    path = root / listed_runs(root)[0].path
    record = path / "run.json"
    record.write_text(record.read_text().replace('"finished"', '"running"'))

    assert listed_runs(root)[0].status == KILLED
    with RunLock.acquire(path):
        assert listed_runs(root)[0].status == "running"


def test_a_directory_that_is_not_there_has_no_runs(tmp_path):
    assert listed_runs(tmp_path / "nowhere") == ()
