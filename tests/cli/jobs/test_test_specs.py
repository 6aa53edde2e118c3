from __future__ import annotations

import json
from importlib import import_module
from xml.etree import ElementTree as ET

import pytest

from jobrun.cli.run_command import invoke
from jobrun.cli.terminal import Shell
from tests.support.sample_runs import SPEC


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    (tmp_path / "good.yaml").write_text(SPEC.format(name="good", limit=0.0))
    (tmp_path / "bad.yaml").write_text(SPEC.format(name="bad", limit=3.0))
    (tmp_path / "unmet.yaml").write_text(
        SPEC.format(name="unmet", limit=0.0) + "expect: [x < 0.1]\n"
    )
    return tmp_path


@pytest.mark.long
def test_a_spec_that_passes_leaves_nothing_behind(folder, capsys):
    before = set(folder.iterdir())

    assert invoke(["test", "good.yaml", "--epochs", "1"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["passed", "good.yaml", "epoch", "1"]
    assert lines[-1] == "1 of 1 passed"
    assert set(folder.iterdir()) == before


@pytest.mark.long
def test_a_table_a_junit_file_and_a_summary_show_what_failed(folder, monkeypatch, capsys):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")

    words = ["test", "good.yaml", "bad.yaml", "unmet.yaml", "--junit", "results.xml"]
    assert invoke([*words, "--format", "github", "--jobs", "3"]) == 1

    captured = capsys.readouterr()
    assert "::error file=unmet.yaml,line=" in captured.out
    assert "1 of 3 passed" in captured.out
    assert "bad.yaml: failed" in captured.err
    assert len(ET.parse("results.xml").getroot()[0]) == 3
    assert (folder / "summary.md").read_text().count("\n| `") == 3


@pytest.mark.long
def test_only_an_expectation_that_does_not_hold_has_its_own_exit_code(folder, capsys):
    assert invoke(["test", "unmet.yaml", "--format", "json", "--keep-in", "kept"]) == 9

    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "jobrun.test/1"
    assert document["specs"][0]["faults"][0]["code"] == "E364"
    assert list((folder / "kept" / "unmet").glob("2*/run.json"))


@pytest.mark.parametrize("name", ["prove", "test_specs"])
def test_runs_get_the_session_and_the_maximum_of_failures(name):
    module = import_module(f"jobrun.cli.jobs.{name}")
    asked = ["x.yaml", "--session", "processes", "--max-failures", "7"]
    with module.command.make_context(name, asked, obj=Shell({})) as context:
        options = context.params
    before = () if name == "test_specs" else ("x.yaml",)

    words = module._words(*before, (), (), options)

    assert tuple(words[-4:]) == ("--session", "processes", "--max-failures", "7")
