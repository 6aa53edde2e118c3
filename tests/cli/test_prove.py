from __future__ import annotations

import json

import pytest

from jobrun.cli.invoke import invoke

SPEC = """
jobrun: 1
name: grow
init:
  - {task: begin, steps: ["x = 0"]}
epoch:
  - {task: step, steps: ["x = x + 1", %s]}
stop: [epochs: 3]
"""
HIDDEN = "calls = []\ndef remember():\n    calls.append(1)\n    return len(calls)\n"


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grow.yaml").write_text(SPEC % '"y = 1"')
    return tmp_path / "grow.yaml"


def test_a_proof_ends_with_a_table_and_a_sentence(spec, capsys):
    assert invoke(["prove", "grow.yaml", "--kills", "4", "--jobs", "1"]) == 0

    said = capsys.readouterr().out
    assert said.startswith("killed  ")
    assert "at a random instant" in said
    assert "proven: of 4 copies" in said


@pytest.mark.long
def test_the_same_as_json(spec, capsys):
    assert invoke(["prove", "grow.yaml", "--kills", "2", "--json", "--epochs", "2"]) == 0

    said = json.loads(capsys.readouterr().out)
    assert said["schema"] == "jobrun.proof/1"
    assert said["proven"] is True
    assert said["reached"]["runner.epoch-ended"] == 2
    assert len(said["copies"]) == 2


@pytest.mark.long
def test_what_breaks_the_promise_is_named_with_blob_epoch_and_step(spec, capsys):
    (spec.parent / "hidden.py").write_text(HIDDEN)
    spec.write_text(SPEC % '{call: "hidden:remember", out: y}, "x = x + y"')

    assert invoke(["prove", "grow.yaml", "--kills", "12", "--jobs", "1"]) == 8

    said = capsys.readouterr().out
    assert "NOT PROVEN: " in said
    assert "DIFFERENT: local.x after epoch" in said
    assert "the last step of an epoch that writes it: epoch/step" in said


@pytest.mark.long
def test_a_job_that_differs_by_itself_is_told_apart_from_a_lost_promise(spec, capsys):
    spec.write_text(SPEC % '{call: "time:time_ns", out: y}, "x = x + y"')

    assert invoke(["prove", "grow.yaml", "--kills", "4"]) == 8

    assert "two unbroken runs differ" in capsys.readouterr().out


def test_a_job_without_checkpoints_has_nothing_to_prove(spec, capsys):
    assert invoke(["prove", "grow.yaml", "--set", "checkpoint=none"]) == 2

    assert "E419" in capsys.readouterr().err
