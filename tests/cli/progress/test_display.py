from __future__ import annotations

import json

from jobrun.cli.process.run_command import invoke
from tests.support.sample_runs import SPEC


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_each_event_is_a_line_of_json_and_nothing_else_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yaml").write_text(SPEC.format(name="good", limit=0.0))

    assert invoke(["run", "good.yaml", "--log-format", "json"]) == 0

    names = [event["event"] for event in lines(capsys)]
    assert names[0] == "RunStarted"
    assert names[-1] == "RunEnded"
    assert names.count("EpochEnded") == 4


def test_faults_are_lines_of_json_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text("jobrun: 1\nname: bad\nepochz: 3\n")

    assert invoke(["run", "bad.yaml", "--log-format", "json"]) == 3

    faults = lines(capsys)
    assert {fault["event"] for fault in faults} == {"Fault"}
    assert ("bad.yaml", 3) in {(fault["file"], fault["line"]) for fault in faults}


def test_annotations_come_with_the_words(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text("jobrun: 1\nname: bad\nepochz: 3\n")

    assert invoke(["run", "bad.yaml", "--log-format", "github"]) == 3

    said = capsys.readouterr().err
    assert "::error file=bad.yaml,line=3," in said
    assert "epochz: 3" in said


def test_quiet_lines_are_the_start_the_end_and_warnings(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yaml").write_text(SPEC.format(name="good", limit=0.0))

    assert invoke(["run", "good.yaml", "--log-format", "json", "--quiet"]) == 0

    assert [event["event"] for event in lines(capsys)] == ["RunStarted", "RunEnded"]
