"""``jobrun report``."""

from __future__ import annotations

import json

import pytest

from jobrun.cli.run_command import invoke
from tests.support.sample_runs import make_run

START = b"<!doctype html>"


@pytest.fixture(autouse=True)
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_run(tmp_path)


def test_the_page_of_a_run_is_written_to_its_directory(run, capsys):
    assert invoke(["report"]) == 0
    assert (run.path / "report.html").read_bytes().startswith(START)
    assert f"wrote runs/{run.name}/report.html (" in capsys.readouterr().err


def test_an_older_page_is_replaced(run):
    for _ in range(2):
        assert invoke(["report", "--out", "page.html"]) == 0


def test_a_file_that_is_no_page_is_not_replaced(tmp_path, capsys):
    before = (tmp_path / "shrink.yaml").read_bytes()

    assert invoke(["report", "--out", "shrink.yaml"]) == 2
    assert "E433" in capsys.readouterr().err
    assert (tmp_path / "shrink.yaml").read_bytes() == before


def test_a_comparison_is_written_to_the_working_directory(run, tmp_path):
    other = make_run(tmp_path, "other", limit=1.0)

    assert invoke(["report", run.name, other.name]) == 0
    assert b"2 runs compared" in (tmp_path / "report.html").read_bytes()


def test_a_run_that_is_named_twice_is_there_once(run, capsys):
    assert invoke(["report", "shrink", run.name, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 1


def test_a_failed_run_has_a_page_too(tmp_path, capsys):
    make_run(tmp_path, "other", limit=1.0)

    assert invoke(["report", "other", "--out", "-"]) == 0
    page = capsys.readouterr().out
    assert '<span class="pill bad">failed</span>' in page
    assert page.endswith("</html>\n")


def test_json_names_its_schema(capsys):
    assert invoke(["report", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "jobrun.report/1"


@pytest.mark.long
def test_files_for_tensorboard_are_below_the_runs_name(run, tmp_path, capsys):
    assert invoke(["report", "--tensorboard", "tb"]) == 0
    assert len(list((tmp_path / "tb" / run.name).iterdir())) == 1
    assert "next: tensorboard --logdir tb" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_an_error(capsys):
    assert invoke(["report", "--out", "missing/page.html"]) == 7
    assert "write missing/page.html" in capsys.readouterr().err


def test_two_forms_at_once_are_an_error(capsys):
    assert invoke(["report", "--json", "--out", "x"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_too_many_runs_are_an_error(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("jobrun.tools.report.page.MOST_RUNS", 1)

    assert invoke(["report", run.name, make_run(tmp_path).name]) == 2
    assert "E431" in capsys.readouterr().err
