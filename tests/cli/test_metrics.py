from __future__ import annotations

import json

import pytest

from jobrun.cli.invoke import invoke
from tests.support.some_runs import make_run


@pytest.fixture(autouse=True)
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_run(tmp_path)


def said(capsys, *words):
    assert invoke(["metrics", *words]) == 0
    return capsys.readouterr().out


def test_the_table_has_a_line_per_epoch(capsys):
    lines = said(capsys).splitlines()

    assert [line.split() for line in lines] == [
        ["epoch", "x"], ["1", "4"], ["2", "2"], ["3", "1"], ["4", "0.5"],
    ]  # fmt: skip


def test_only_the_last_epochs(capsys):
    assert said(capsys, "latest", "--last", "1").split() == ["epoch", "x", "4", "0.5"]


def test_csv_and_json_are_for_programs(capsys):
    assert said(capsys, "latest", "x", "--csv").splitlines()[1] == "1,4.0"
    found = json.loads(said(capsys, "latest", "--json"))
    assert found["epochs"][-1] == {"epoch": 4, "x": 0.5}


def test_a_chart_is_drawn(capsys):
    lines = said(capsys, "latest", "--plot").splitlines()

    assert lines[0] == "x"
    assert lines[1].startswith("  4 ┤")
    assert lines[-1].split() == ["1", "4"]


def test_two_forms_at_once_are_an_error(capsys):
    assert invoke(["metrics", "latest", "--csv", "--plot"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_an_unknown_metric_is_an_error(capsys):
    assert invoke(["metrics", "latest", "y"]) == 2
    assert "E424" in capsys.readouterr().err
