"""``jobrun plan``."""

from __future__ import annotations

import json

import pytest

from jobrun.cli.run_command import invoke
from jobrun.cli.terminal import Shell
from tests.support.command import SPECS
from tests.support.sample_runs import make_run
from tests.support.walk_spec import SPEC

KMEANS = str(SPECS / "digits-kmeans.yaml")


def test_the_plan_shows_groups_state_sizes_and_exactness(capsys):
    assert invoke(["plan", KMEANS, "--set", "params.k=12"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    out = printed.out
    groups = [out.index(f"\n{group} (") for group in ("init", "epoch", "exit")]
    assert groups == sorted(groups)
    assert "C float64 12x64" in out
    assert "X float64 1797x64" in out
    assert "equals an uninterrupted one bit for bit" in out


def test_the_plan_is_there_as_json(capsys):
    assert invoke(["plan", KMEANS, "--json"]) == 0
    parsed = json.loads(capsys.readouterr().out)
    assert parsed["schema"] == "jobrun.plan/1"
    assert [group["name"] for group in parsed["groups"]] == ["init", "epoch", "download", "exit"]


def test_numbers_that_json_does_not_know_are_text(tmp_path, capsys):
    spec = SPEC.replace("params: {rate: 0.5}", "params: {rate: 0.5, most: .inf}")
    (tmp_path / "walk.yaml").write_text(spec)
    assert invoke(["plan", str(tmp_path / "walk.yaml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["params"]["most"] == "inf"


def test_without_its_data_a_job_has_a_plan_too(tmp_path, capsys):
    (tmp_path / "alone.yaml").write_text((SPECS / "digits-kmeans.yaml").read_text())
    assert invoke(["plan", str(tmp_path / "alone.yaml")]) == 0
    assert "state" in capsys.readouterr().out
    assert not (tmp_path / "runs").exists()


def test_the_plan_says_how_much_work_a_kill_loses_by_the_last_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path)
    capsys.readouterr()

    assert invoke(["plan", "shrink.yaml"]) == 0

    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    (bound,) = [at for at, line in enumerate(lines) if line.startswith("by its newest run, a kill")]
    assert lines[bound - 1].startswith("a kill loses at most an epoch and 20 times as long")
    # The tasks come behind all that is about the whole job.
    assert bound < lines.index("init (once; on resume only its rebuild tasks)")
    assert invoke(["plan", "shrink.yaml", "--json"]) == 0
    assert 0 < json.loads(capsys.readouterr().out)["loss_bound_s"] < 60


def test_without_a_run_the_plan_names_the_rule(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    assert invoke(["plan", KMEANS]) == 0

    assert "a kill loses at most an epoch" in capsys.readouterr().out


def test_long_lines_continue_below_their_text_on_a_terminal(tmp_path, monkeypatch, capsys):
    spec = SPEC.replace("epoch:", f"description: {'word ' * 30}\nepoch:", 1)
    (tmp_path / "walk.yaml").write_text(spec)
    monkeypatch.setattr(Shell, "result_width", 60)

    assert invoke(["plan", str(tmp_path / "walk.yaml")]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    row = next(at for at, line in enumerate(lines) if line.startswith("checkpoint"))
    assert lines[row + 1].startswith(" " * 12)


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_arguments_that_a_callable_does_not_take_are_found_before_anything_runs(
    command, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "steps.py").write_text(
        "def begin():\n    open('begun', 'w').close()\n    return 0\n\ndef step(x, rate): ...\n"
    )
    (tmp_path / "job.yaml").write_text(
        "jobrun: 1\nname: job\n"
        'init: [{task: begin, steps: [{call: "steps:begin", out: x}]}]\n'
        "epoch:\n  - task: step\n    steps:\n"
        '      - {call: "steps:step", with: {x: x, rat: 0.1}, out: x}\n'
        "stop: [{epochs: 2}]\n"
    )

    assert invoke([command, "job.yaml"]) == 3

    captured = capsys.readouterr()
    assert "error[E393] job.yaml:7:9" in captured.out + captured.err
    assert "did you mean 'rate'?" in captured.out + captured.err
    assert not (tmp_path / "begun").exists()
