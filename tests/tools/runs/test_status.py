from __future__ import annotations

import json

import pytest

from jobrun.runner.lock import RunLock
from jobrun.runner.rundir import open_run
from jobrun.tools.runs import status
from jobrun.tools.runs.status import status_of
from jobrun.tools.runs.tags import change_tags
from tests.support.some_runs import make_run


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path)


def test_a_finished_run_is_told_from_its_files(run):
    change_tags(run.path, ("best",), ())

    found = status_of(run, lines=2)

    assert (found.status, found.owner, found.group) == ("finished", None, "")
    assert (found.epoch, found.saved, found.total_epochs) == (4, 4, 4)
    assert found.saved_bytes > 0
    assert found.saved_age_s is not None
    assert found.metrics.rows[-1] == (4, (0.5,))
    assert found.lines == ("halve [3] x is 1.0", "halve [4] x is 0.5")
    assert found.tags == ("best",)
    assert found.left_s is None


def test_one_that_is_held_runs_and_its_rest_is_estimated(run):
    events = [json.loads(line) for line in (run.path / "events.jsonl").read_text().splitlines()]
    until = next(at for at, event in enumerate(events) if event.get("epoch") == 3)
    kept = [json.dumps(event) for event in events[:until]]
    (run.path / "events.jsonl").write_text("\n".join(kept) + '\n{"event": "Gro')

    with RunLock.acquire(run.path):
        found = status_of(run)

    assert found.status == "running"
    assert found.owner is not None
    assert found.left_s is not None
    assert found.left_s >= 0


def test_one_that_nobody_holds_and_that_never_said_how_it_ended_was_killed(run):
    record = run.path / "run.json"
    record.write_text(record.read_text().replace('"finished"', '"running"'))

    assert status_of(open_run(run.path)).status == "killed"


def test_the_start_is_found_in_front_of_a_long_log(run, monkeypatch):
    monkeypatch.setattr(status, "_TAIL_BYTES", 600)

    assert status_of(run).total_epochs == 4


def test_a_run_whose_files_are_gone_still_has_a_status(run):
    for name in ("events.jsonl", "metrics.jsonl", "committed.jsonl"):
        (run.path / name).unlink()

    found = status_of(run)

    assert (found.status, found.total_epochs, found.saved_age_s) == ("finished", None, None)
