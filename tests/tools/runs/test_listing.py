from __future__ import annotations

import json

import pytest

from jobrun.runner.lock import RunLock
from jobrun.tools.runs import listing
from jobrun.tools.runs.listing import INDEX_NAME, KILLED, listed_runs
from tests.support.some_runs import make_run


@pytest.fixture
def two(tmp_path):
    make_run(tmp_path, "good")
    make_run(tmp_path, "bad", limit=3.0)
    return tmp_path / "runs"


def test_runs_are_listed_oldest_first_with_how_they_stand(two):
    good, bad = listed_runs(two)

    assert (good.job, good.status, good.epoch, good.exit_code) == ("good", "finished", 4, 0)
    assert (bad.job, bad.status, bad.epoch, bad.exit_code) == ("bad", "failed", 1, 1)
    assert (two / good.path / "run.json").is_file()
    assert good.name == good.path.split("/")[1]


def test_the_second_time_no_record_is_read(two, monkeypatch):
    first = listed_runs(two)
    monkeypatch.setattr(listing, "read_record", lambda run: pytest.fail("read again"))

    assert listed_runs(two) == first


def test_a_record_that_changed_is_read_again(two):
    listed_runs(two)
    record = two / listed_runs(two)[0].path / "run.json"
    record.write_text(record.read_text().replace('"finished"', '"stopped"'))

    assert listed_runs(two)[0].status == "stopped"


@pytest.mark.parametrize(
    "damage", ["", "[]", "{", '{"format": 1, "fields": [], "runs": {}}', '{"format": 9}']
)
def test_a_damaged_index_costs_nothing_but_time(two, damage):
    first = listed_runs(two)
    (two / INDEX_NAME).write_text(damage)

    assert listed_runs(two) == first


def test_an_entry_that_is_not_one_is_made_anew(two):
    first = listed_runs(two)
    content = json.loads((two / INDEX_NAME).read_text())
    content["runs"] = {path: ["short"] for path in content["runs"]}
    (two / INDEX_NAME).write_text(json.dumps(content))

    assert listed_runs(two) == first


def test_one_that_says_it_runs_and_that_nobody_holds_was_killed(two):
    path = two / listed_runs(two)[0].path
    record = path / "run.json"
    record.write_text(record.read_text().replace('"finished"', '"running"'))

    assert listed_runs(two)[0].status == KILLED
    with RunLock.acquire(path):
        assert listed_runs(two)[0].status == "running"


def test_what_is_no_run_is_left_out(two):
    (two / "good" / "notes").mkdir()
    (two / "stray").write_text("")
    (two / ".hidden" / "x").mkdir(parents=True)
    (two / "good" / "damaged").mkdir()
    (two / "good" / "damaged" / "run.json").write_text("{")

    assert [one.job for one in listed_runs(two)] == ["good", "bad"]


def test_a_directory_that_is_not_there_has_no_runs(tmp_path):
    assert listed_runs(tmp_path / "nowhere") == ()
