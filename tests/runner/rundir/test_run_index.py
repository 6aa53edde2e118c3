from __future__ import annotations

import json
import os

import pytest

from jobrun.runner.rundir import run_index as runindex
from jobrun.runner.rundir.run_index import INDEX_NAME, IndexedRun, OrderedRuns, indexed_runs
from tests.support.many_runs import make_runs
from tests.support.sample_runs import make_run


@pytest.fixture
def two(tmp_path):
    make_run(tmp_path, "good")
    make_run(tmp_path, "bad", limit=3.0)
    return tmp_path / "runs"


def test_runs_are_listed_oldest_first_with_status(two):
    good, bad = indexed_runs(two)

    assert (good.job, good.status, good.epoch, good.exit_code) == ("good", "finished", 4, 0)
    assert (bad.job, bad.status, bad.epoch, bad.exit_code) == ("bad", "failed", 1, 1)
    assert (two / good.path / "run.json").is_file()
    assert good.name == good.path.split("/")[1]


def test_the_second_time_no_record_is_read(two, monkeypatch):
    first = indexed_runs(two)
    monkeypatch.setattr(runindex, "read_record", lambda run: pytest.fail("read again"))

    assert indexed_runs(two) == first


def test_a_record_that_changed_is_read_again(two):
    indexed_runs(two)
    record = two / indexed_runs(two)[0].path / "run.json"
    record.write_text(record.read_text().replace('"finished"', '"stopped"'))

    assert indexed_runs(two)[0].status == "stopped"


@pytest.mark.parametrize(
    "damage", ["", "[]", "{", '{"format": 2, "fields": [], "runs": {}}', '{"format": 9}']
)
def test_a_damaged_index_costs_nothing_but_time(two, damage):
    first = indexed_runs(two)
    (two / INDEX_NAME).write_text(damage)

    assert indexed_runs(two) == first


def test_invalid_index_entry_is_rebuilt(two):
    first = indexed_runs(two)
    content = json.loads((two / INDEX_NAME).read_text())
    content["runs"] = {path: ["short"] for path in content["runs"]}
    (two / INDEX_NAME).write_text(json.dumps(content))

    assert indexed_runs(two) == first


def test_folders_that_are_no_runs_are_left_out(two):
    (two / "good" / "notes").mkdir()
    (two / "stray").write_text("")
    (two / ".hidden" / "x").mkdir(parents=True)
    (two / "good" / "damaged").mkdir()
    (two / "good" / "damaged" / "run.json").write_text("{")

    assert [entry.job for entry in indexed_runs(two)] == ["good", "bad"]


def test_a_directory_that_is_not_there_has_no_runs(tmp_path):
    assert indexed_runs(tmp_path / "nowhere") == ()


def test_a_record_that_was_replaced_by_one_as_long_and_as_old_is_read_again(two):
    first = indexed_runs(two)
    record = two / first[1].path / "run.json"
    facts = record.stat()
    other = record.with_name("other")
    other.write_text(record.read_text().replace('"exit_code": 1', '"exit_code": 7'))
    os.utime(other, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    other.replace(record)

    assert [entry.exit_code for entry in indexed_runs(two)] == [0, 7]


def test_an_index_is_written_only_where_it_is_worth_it(two):
    indexed_runs(two, worth=3)
    assert not (two / INDEX_NAME).exists()

    indexed_runs(two, worth=2)
    assert (two / INDEX_NAME).exists()


def test_runs_that_are_gone_leave_the_index(tmp_path):
    make_runs(tmp_path, 5, jobs=2)
    gone = tmp_path / indexed_runs(tmp_path)[2].path

    (gone / "run.json").unlink()

    assert len(indexed_runs(tmp_path)) == 4
    assert len(json.loads((tmp_path / INDEX_NAME).read_text())["runs"]) == 4


def test_runs_are_ordered_newest_first_and_only_those_asked_for_are_looked_at(
    tmp_path, monkeypatch
):
    make_runs(tmp_path, 6, jobs=2)
    oldest_first = [entry.path for entry in indexed_runs(tmp_path)]
    looked_at = []
    stamp = runindex._stamp_run
    monkeypatch.setattr(
        runindex,
        "_stamp_run",
        lambda run, *arguments: looked_at.append(run) or stamp(run, *arguments),
    )
    monkeypatch.setattr(runindex, "read_record", lambda run: pytest.fail("read again"))

    runs = OrderedRuns(tmp_path)
    columns = runs.read(runs.paths[0])

    assert runs.paths == oldest_first[::-1]
    assert IndexedRun(runs.paths[0], *columns) == indexed_runs(tmp_path)[-1]
    assert looked_at[:1] == [str(tmp_path / runs.paths[0])]
    assert len(looked_at) == 1 + 6


@pytest.mark.parametrize("most_unknown", [0, 20])
def test_ordered_runs_are_current_even_with_a_stale_index(two, monkeypatch, most_unknown):
    monkeypatch.setattr(runindex, "_MOST_UNKNOWN", most_unknown)
    make_run(two.parent, "new")
    good, bad, new = [entry.path for entry in indexed_runs(two)]
    # The index has two of them, of which one has changed and one is gone.
    content = json.loads((two / INDEX_NAME).read_text())
    del content["runs"][new]
    (two / INDEX_NAME).write_text(json.dumps(content))
    record = two / good / "run.json"
    record.write_text(record.read_text().replace('"finished"', '"stopped"'))
    (two / bad / "run.json").unlink()
    (two / "good" / "notes").mkdir()

    runs = OrderedRuns(two)

    entries = [
        IndexedRun(path, *columns)
        for path in runs.paths
        if (columns := runs.read(path)) is not None
    ]
    assert [(entry.path, entry.status) for entry in entries] == [
        (new, "finished"),
        (good, "stopped"),
    ]


def test_no_directory_has_no_ordered_runs(tmp_path):
    assert OrderedRuns(tmp_path / "nowhere").paths == []
