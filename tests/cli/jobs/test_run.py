"""``jobrun run``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from jobrun.cli.jobs.run import run_under_progress, tee_events
from jobrun.cli.options import Duration
from jobrun.cli.run_command import invoke
from jobrun.cli.terminal import Shell
from jobrun.core.events import GroupEnded
from jobrun.runner.options import RunOptions, RunResult
from tests.support.sample_events import epoch, started
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


def test_a_limit_of_this_call_stops_early_and_auto_continues(spec, tmp_path, capsys):
    assert invoke(["run", "walk.yaml", "--max-epochs", "2"]) == 75
    errors = capsys.readouterr().err
    run = only_run(tmp_path / "runs")
    assert f"next: jobrun resume runs/walk/{run.name}" in errors
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
    errors = capsys.readouterr().err
    assert "is unfinished" in errors
    assert invoke(["run", "walk.yaml", "--resume", "never", "-q"]) == 0
    runs = [path for path in (tmp_path / "runs" / "walk").iterdir() if not path.is_symlink()]
    assert len(runs) == 2


def test_an_invalid_spec_is_shown_with_its_line_and_leaves_nothing(spec, tmp_path, capsys):
    spec.write_text(SPEC.replace("  - epochs: 4", "  - epoch: 4"))
    assert invoke(["run", "walk.yaml"]) == 3
    errors = capsys.readouterr().err
    assert "walk.yaml:17:5  stop[0].epoch: unknown key" in errors
    assert "did you mean 'epochs'?" in errors
    assert not (tmp_path / "runs").exists()


def test_a_wrong_value_on_the_command_line_is_shown_as_given(spec, capsys):
    assert invoke(["run", "walk.yaml", "--set", "params.rate=fast"]) == 3
    errors = capsys.readouterr().err
    assert "--set #1" in errors
    assert "params.rate=fast" in errors


def test_an_expectation_that_does_not_hold_is_exit_code_9(spec, capsys):
    spec.write_text(SPEC + "expect:\n  - total > 1e9\n")
    assert invoke(["run", "walk.yaml"]) == 9
    errors = capsys.readouterr().err
    assert "finished, but an expectation does not hold after epoch 4" in errors
    assert "'total > 1e9' does not hold" in errors
    assert invoke(["resume", "walk", "-q"]) == 9


def test_a_failing_step_is_exit_code_1_with_its_place(spec, capsys):
    spec.write_text(SPEC.replace("total + sum(x)", "total + x[epoch * 20]"))
    assert invoke(["run", "walk.yaml"]) == 1
    errors = capsys.readouterr().err
    assert "walk.yaml:14:9" in errors
    assert "epoch/step/steps[1]" in errors
    assert "Traceback" not in errors


GIVEN: dict[str, Any] = {
    "epochs": None, "max_epochs": None, "time_s": None, "session": "threads", "quiet": False,
    "verbose": False, "as_json": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("1.5h", 5400), ("2d", 172800)]
)
def test_durations_have_units(text, seconds):
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["90", "12:30", "", "0s", "-3s", "1e3s", "2 h"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(click.BadParameter, match="is not a duration such as 90s"):
        Duration().convert(text, None, None)


def test_options_reach_the_runner_and_the_end_is_printed(capsys):
    seen: list[RunOptions] = []

    def act(options, listener):
        seen.append(options)
        for event in [started(), *epoch(1, 0.5)]:
            listener(event)
        return RunResult(75, "/runs/job/x", 1, "3 epochs were asked for")

    limits = {**GIVEN, "epochs": 3, "time_s": 60.0, "epoch": 2, "accept": ("a",), "as_json": True}
    assert run_under_progress(act, Shell({}), Path("there"), limits) == 75
    expected = RunOptions(run_dir=Path("there"), epochs=3, time_s=60.0, epoch=2, accept=("a",))
    assert seen == [expected]
    printed = capsys.readouterr()
    assert json.loads(printed.out)["exit_code"] == 75
    assert "job/brisk-heron starts" in printed.err
    assert "stopped early after epoch 1: 3 epochs were asked for" in printed.err


def test_quiet_says_nothing_when_all_is_well(capsys):
    result = RunResult(0, "/runs/job/x", 1, "")
    assert (
        run_under_progress(lambda *_: result, Shell({}), Path("r"), {**GIVEN, "quiet": True}) == 0
    )
    assert capsys.readouterr() == ("", "")


def test_each_event_reaches_two_listeners():
    first, second = [], []
    tee_events(first.append, second.append)(GroupEnded("init", 0, 0.0))
    assert first == second != []
