from __future__ import annotations

import json

import pytest

from jobrun.cli.invoke import invoke
from tests.support.some_runs import make_run


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_run(tmp_path)


def test_the_newest_run_is_shown_with_all_that_matters(run, capsys):
    assert invoke(["status"]) == 0

    said = capsys.readouterr().out
    for words in (
        "shrink/",
        "finished   4 epochs",
        "4 of at most 4",
        "0.5",
        "epoch 4, ",
        "x is 0.5",
    ):
        assert words in said


def test_a_run_that_failed_shows_the_command_that_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path, limit=3.0)

    assert invoke(["status", "shrink", "--watch"]) == 0

    assert "next: jobrun resume runs/shrink/" in capsys.readouterr().out


def test_the_same_as_json(run, capsys):
    assert invoke(["status", "latest", "--json"]) == 0

    said = json.loads(capsys.readouterr().out)
    assert said["schema"] == "jobrun.status/1"
    assert (said["status"], said["epoch"], said["metrics"]) == ("finished", 4, {"x": 0.5})


def test_an_unknown_run_is_an_error(run, capsys):
    assert invoke(["status", "shirnk"]) == 2
    assert "did you mean 'shrink'" in capsys.readouterr().err
