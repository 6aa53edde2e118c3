"""``jobrun run``."""

from __future__ import annotations

import json

import pytest

from jobrun.cli.process.run_command import invoke
from tests.support.stored_runs import epochs, only_run
from tests.support.walk_spec import SPEC


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "walk.yaml"
    path.write_text(SPEC)
    return path


def test_a_run_ends_with_its_summary_on_stderr_and_nothing_on_stdout(spec, tmp_path, capsys):
    assert invoke(["run", "walk.yaml"]) == 0
    printed = capsys.readouterr()
    run = only_run(tmp_path / "runs")
    assert printed.out == ""
    assert printed.err.startswith(f"walk/{run.name} starts\n")
    assert "epoch 4 of at most 4  total " in printed.err
    assert "finished after epoch 4" in printed.err
    assert list(epochs(run)) == [0, 1, 2, 3, 4]


def test_values_and_options_reach_the_job(spec, tmp_path, capsys):
    (tmp_path / "more.yaml").write_text("stop: [{epochs: 9}]\n")
    arguments = ["-f", "more.yaml", "-s", "params.rate=0.25", "--epochs", "6", "--json", "-q"]
    assert invoke(["run", "walk.yaml", *arguments]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert json.loads(printed.out)["epoch"] == 6


def test_a_limit_of_this_call_stops_early_and_auto_goes_on(spec, tmp_path, capsys):
    assert invoke(["run", "walk.yaml", "--max-epochs", "2"]) == 75
    said = capsys.readouterr().err
    run = only_run(tmp_path / "runs")
    assert f"next: jobrun resume runs/walk/{run.name}" in said
    assert list(epochs(run)) == [0, 1, 2]
    assert invoke(["run", "walk.yaml", "--resume", "auto"]) == 0
    assert "continues after epoch 2" in capsys.readouterr().err
    assert list(epochs(run)) == [0, 1, 2, 3, 4]
    assert invoke(["run", "walk.yaml", "--resume", "auto"]) == 0
    assert "nothing left to do" in capsys.readouterr().err


def test_must_needs_a_run_and_never_starts_another(spec, tmp_path, capsys):
    assert invoke(["run", "walk.yaml", "--resume", "must"]) == 4
    assert invoke(["run", "walk.yaml", "--max-epochs", "1"]) == 75
    assert invoke(["run", "walk.yaml"]) == 2
    said = capsys.readouterr().err
    assert "is unfinished" in said
    assert invoke(["run", "walk.yaml", "--resume", "never", "-q"]) == 0
    runs = [path for path in (tmp_path / "runs" / "walk").iterdir() if not path.is_symlink()]
    assert len(runs) == 2


def test_an_invalid_spec_is_shown_with_its_line_and_leaves_nothing(spec, tmp_path, capsys):
    spec.write_text(SPEC.replace("  - epochs: 4", "  - epoch: 4"))
    assert invoke(["run", "walk.yaml"]) == 3
    said = capsys.readouterr().err
    assert "walk.yaml:17:5  stop[0].epoch: unknown key" in said
    assert "did you mean 'epochs'?" in said
    assert not (tmp_path / "runs").exists()


def test_a_wrong_value_on_the_command_line_is_shown_as_given(spec, capsys):
    assert invoke(["run", "walk.yaml", "--set", "params.rate=fast"]) == 3
    said = capsys.readouterr().err
    assert "--set #1" in said
    assert "params.rate=fast" in said


def test_an_expectation_that_does_not_hold_is_exit_code_9(spec, capsys):
    spec.write_text(SPEC + "expect:\n  - total > 1e9\n")
    assert invoke(["run", "walk.yaml"]) == 9
    said = capsys.readouterr().err
    assert "finished, but an expectation does not hold after epoch 4" in said
    assert "'total > 1e9' does not hold" in said
    assert invoke(["resume", "walk", "-q"]) == 9


def test_a_failing_step_is_exit_code_1_with_its_place(spec, capsys):
    spec.write_text(SPEC.replace("total + sum(x)", "total + x[epoch * 20]"))
    assert invoke(["run", "walk.yaml"]) == 1
    said = capsys.readouterr().err
    assert "walk.yaml:14:9" in said
    assert "epoch/step/steps[1]" in said
    assert "Traceback" not in said
