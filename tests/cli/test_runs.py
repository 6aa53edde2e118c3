from __future__ import annotations

import json

import pytest

from jobrun.cli.invoke import invoke
from jobrun.cli.shell import Shell
from tests.support.some_runs import make_run


@pytest.fixture
def two(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_run(tmp_path, "good"), make_run(tmp_path, "bad", limit=3.0)


def said(capsys, *words):
    assert invoke(list(words)) == 0
    return capsys.readouterr()


def test_the_table_shows_how_each_run_stands(two, capsys):
    head, good, bad = said(capsys, "runs").out.splitlines()

    assert head.split()[:4] == ["run", "status", "epoch", "age"]
    assert (good.split()[1:3], bad.split()[1:3]) == (["finished", "4"], ["failed", "1"])
    assert "4 epochs have run" in good


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        (["good"], ["good"]),
        (["--status", "failed"], ["bad"]),
        (["--limit", "1"], ["bad"]),
        (["list"], ["good", "bad"]),
        (["--tag", "best"], ["good"]),
        (["--status", "running"], []),
    ],
)
def test_runs_are_chosen(two, capsys, words, jobs):
    said(capsys, "runs", "tag", "good", "best")

    found = json.loads(said(capsys, "runs", *words, "--json").out)

    assert found["schema"] == "jobrun.runs/1"
    assert [run["job"] for run in found["runs"]] == jobs


def test_an_unknown_job_is_an_error(two, capsys):
    assert invoke(["runs", "goood"]) == 2
    assert "did you mean 'good'" in capsys.readouterr().err


def test_tags_are_shown_and_taken_off(two, capsys):
    assert "#a #b" in said(capsys, "runs", "tag", "good", "b", "a").err
    assert "#a #b" in said(capsys, "runs").out
    assert "no tags" in said(capsys, "runs", "tag", "good", "a", "b", "--remove").err


def test_a_run_is_removed_only_with_a_yes(two, capsys):
    good, _ = two

    assert invoke(["runs", "remove", "good"]) == 2
    assert "E427" in capsys.readouterr().err
    assert good.path.exists()
    assert "removed good/" in said(capsys, "runs", "remove", "good", "--yes").err
    assert not good.path.exists()


def test_a_run_that_could_go_on_is_not_removed_by_the_way(two, capsys):
    assert invoke(["runs", "remove", "bad", "--yes"]) == 2
    assert "E423" in capsys.readouterr().err
    said(capsys, "runs", "remove", "bad", "--yes", "--unfinished")


def test_the_path_is_all_that_is_printed(two, capsys):
    assert said(capsys, "runs", "path", "good").out == f"{two[0].path}\n"


def test_a_long_reason_gives_way_to_the_width_of_a_terminal(two, capsys, monkeypatch):
    monkeypatch.setattr(Shell, "result_width", 80)
    good, bad = said(capsys, "runs").out.splitlines()[1:]
    assert max(len(good), len(bad)) <= 80
    assert bad.endswith("…")

    monkeypatch.setattr(Shell, "result_width", 60)
    assert said(capsys, "runs", "bad").out.splitlines()[1].split()[1] == "failed"
