from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from jobrun.cli.run_command import invoke

SPEC = """\
jobrun: 1
name: j
init: [{task: i, steps: [w = 0.0]}]
epoch: [{task: t, steps: [w += 1.0]}]
stop: [{epochs: 2}]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "j.yaml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _printed(capsys, *words):
    assert invoke(["submit", "j.yaml", "--print", *words]) == 0
    return capsys.readouterr().out


def test_printing_submits_nothing_and_makes_nothing(capsys, folder):
    text = _printed(capsys, "--time", "2h", "--partition", "short", "--slurm", "mem=1G")

    assert text.startswith("#!/bin/bash\n#SBATCH --job-name=j\n")
    assert "#SBATCH --mem=1G\n#SBATCH --time=02:00:00\n#SBATCH --partition=short\n" in text
    assert sorted(path.name for path in folder.iterdir()) == ["j.yaml"]


def test_values_and_options_of_the_run_pass_through(capsys):
    text = _printed(capsys, "-s", "seed=4", "--run-dir", "out", "--", "--session", "processes")

    assert "run j.yaml --set seed=4 --session processes --run-dir" in text
    assert f"slurm-j-%j.log\n#SBATCH --chdir={Path.cwd()}\n" in text


def test_a_deadline_of_the_spec_stays(capsys, folder):
    without = _printed(capsys)
    (folder / "j.yaml").write_text(f"{SPEC}deadline: 2030-01-01T10:00\n")

    assert without.count(" --set deadline=auto") == 1
    assert _printed(capsys) == without.replace(" --set deadline=auto", "")


def test_the_number_of_the_job_is_all_that_is_printed(capsys, folder, monkeypatch):
    sbatch = folder / "sbatch"
    sbatch.write_text("#!/bin/bash\ncat >/dev/null; echo 7\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    assert invoke(["submit", "j.yaml"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "7\n"
    assert "slurm-j-7.log" in captured.err
    assert invoke(["submit", "j.yaml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["job"] == "7"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--slurm", "signal=USR1@9"], "E403"),
        (["--time", "1m"], "E403"),
        (["--time", "2h", "--slurm", "time=3"], "E404"),
        (["--hosts", "2", "--slurm", "nodes=3"], "E404"),
        (["--", "--resume", "never"], "E404"),
        (["--hosts", "2", "--", "--session", "threads"], "E404"),
        (["--", "--sesion", "threads"], "E401"),
        (["--", "--epochs", "few"], "E403"),
        (["--", "one-more"], "E404"),
    ],
)
def test_an_invalid_submission_is_refused_before_anything_is_submitted(capsys, words, code):
    assert invoke(["submit", "j.yaml", "--print", *words]) == 2
    assert code in capsys.readouterr().err


def test_a_spec_that_is_not_valid_is_not_submitted(capsys, folder):
    (folder / "j.yaml").write_text(SPEC.replace("w += 1.0", "w += v"))

    assert invoke(["submit", "j.yaml", "--print"]) == 3


def test_an_array_has_an_element_for_each_point(capsys, folder):
    (folder / "j.yaml").write_text(f"params: {{lr: {{type: float}}}}\n{SPEC}")
    text = _printed(
        capsys, "--array", "seed=1..3", "--array", "lr=0.1,0.2", "--set", "checkpoint.every=2ep"
    )

    assert "#SBATCH --array=0-5\n" in text
    assert "slurm-j-%A_%a.log\n" in text
    assert "  5) job=j.seed3-lr0.2." in text
    assert (
        "--set checkpoint.every=2ep --set seed=3 --set params.lr=0.2 --set name=j.seed3-lr0.2."
        in text
    )
    assert text.count("checkpoint.every=2ep") == 6
    assert "run j.yaml --run-dir" in text
    assert 'scontrol requeue "$this"' in text


def test_the_elements_of_an_array_are_a_sweep_for_other_commands(capsys, folder, monkeypatch):
    sbatch = folder / "sbatch"
    sbatch.write_text("#!/bin/bash\ncat >/dev/null; echo 7\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    assert invoke(["submit", "j.yaml", "--array", "seed=1..3"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "7\n"
    assert "as an array of 3 jobs 7; its output is written to" in captured.err
    assert "slurm-j-7_%a.log" in captured.err
    assert "jobrun sweep j.yaml --status" in captured.err
    assert invoke(["sweep", "j.yaml", "--status"]) == 0
    assert "seed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["seed"], "E435"),
        (["seed=0.5..2"], "E436"),
        (["seed=log:1..9"], "E436"),
        (["seed=1..20000"], "E437"),
        (["lr=1"], "E042"),
        (["seed=1", "--hosts", "2"], "E404"),
    ],
)
def test_an_array_that_cannot_be_is_refused_at_its_option(words, code, capsys, folder):
    assert invoke(["submit", "j.yaml", "--print", "--array", *words]) in (2, 3)
    errors = capsys.readouterr().err
    assert f"error[{code}]" in errors
    assert "--array #1" in errors or "--hosts" in errors
    assert not (folder / "runs").exists()
