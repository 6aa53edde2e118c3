"""The newest run is found without a list of all, and only where that list would say the same."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from jobrun.runner.rundir import run_directories
from jobrun.runner.rundir.run_directories import find_run, newest_run
from jobrun.runner.rundir.run_index import (
    NEWEST_NAME,
    find_newest,
    indexed_runs,
    remember_newest,
    stamp_jobs,
)
from tests.support.many_runs import make_runs


def _age(path):
    """As after some time: a directory that changed a moment ago gets no stamp."""
    for job in path.iterdir():
        if job.is_dir():
            os.utime(job, (1_000_000_000, 1_000_000_000))


def _remember(path):
    remember_newest(path, stamp_jobs(path), indexed_runs(path))


@pytest.fixture
def many(tmp_path):
    """A hundred runs of ten jobs, and what is remembered of them."""
    make_runs(tmp_path, 100)
    _age(tmp_path)
    _remember(tmp_path)
    return tmp_path


def test_the_newest_of_all_and_of_a_job_are_those_of_the_list(many):
    listed = indexed_runs(many)

    assert find_newest(many) == listed[-1].path
    assert find_newest(many, "job3") == [run for run in listed if run.job == "job3"][-1].path
    assert find_newest(many, "job33") == ""


def test_finding_one_again_reads_no_other(many, monkeypatch):
    expected = [find_run("latest", many), find_run("job4", many), find_run("job4/latest", many)]
    monkeypatch.setattr(run_directories, "indexed_runs", lambda *_: pytest.fail("listed"))

    assert [find_run(text, many) for text in ("latest", "job4", "job4/latest")] == expected


def test_find_run_remembers_what_it_has_listed(many):
    (many / NEWEST_NAME).unlink()

    newest = find_run("latest", many)

    assert find_newest(many) == f"{newest.record.job}/{newest.path.name}"


def test_a_run_that_is_new_is_found(many):
    new = run_directories.create_directory(many, "job2")
    shutil.copy(find_run("job2", many).path / "run.json", new)
    record = json.loads((new / "run.json").read_text())
    (new / "run.json").write_text(json.dumps(record | {"created": "2030-01-01T00:00:00+00:00"}))

    assert find_newest(many) == ""
    assert find_run("latest", many).path == new


def test_a_run_that_was_removed_is_not_found(many):
    before = find_run("latest", many)
    shutil.rmtree(before.path)

    assert find_run("latest", many).path != before.path


def test_newest_run_that_became_unreadable_is_skipped(many):
    before = find_run("latest", many)
    (before.path / "run.json").write_text("{")

    assert find_run("latest", many).path != before.path


def test_a_job_with_a_run_that_cannot_be_read_is_not_remembered(many):
    newest = find_run("latest", many).path
    whole = (newest / "run.json").read_text()
    (newest / "run.json").write_text("{")
    _remember(many)
    (newest / "run.json").write_text(whole)

    assert find_newest(many) == ""
    assert find_run("latest", many).path == newest


def test_a_directory_that_changed_a_moment_ago_is_not_remembered(many):
    os.utime(many / "job1")
    _remember(many)

    assert find_newest(many) == ""


@pytest.mark.parametrize(
    "damage",
    ["", "[]", "{", "null", '{"format": 9}', '{"format": 1, "jobs": {"job0": 3}}',
     '{"format": 1, "jobs": [1]}', '{"format": 1, "jobs": {"job0": ["a", "b", "c"]}}'],
)  # fmt: skip
def test_damage_costs_nothing_but_time(many, damage):
    expected = find_run("latest", many)
    (many / NEWEST_NAME).write_text(damage)

    assert find_newest(many) == ""
    assert find_run("latest", many) == expected


def test_the_newest_of_a_job_of_many_runs_is_that_of_the_list(tmp_path):
    make_runs(tmp_path, 100, jobs=1)
    expected = run_directories.runs(tmp_path, "job0")[-1]

    assert newest_run(tmp_path, "job0") == expected
    (expected.path / "run.json").write_text("{")
    assert newest_run(tmp_path, "job0") == run_directories.runs(tmp_path, "job0")[-1]


def test_only_runs_missing_in_the_index_are_opened(tmp_path, monkeypatch):
    make_runs(tmp_path, 100, jobs=1)
    damaged, *others = sorted((tmp_path / "job0").iterdir())
    (damaged / "run.json").write_text("{")
    (damaged / "checkpoints" / "epoch-000001").mkdir(parents=True)
    indexed_runs(tmp_path)
    opened = []
    real = run_directories.open_run
    monkeypatch.setattr(run_directories, "open_run", lambda path: opened.append(path) or real(path))

    assert run_directories.unreadable_runs(tmp_path, "job0") == (damaged,)
    assert opened == [damaged]
    assert len(others) == 99
