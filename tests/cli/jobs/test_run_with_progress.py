"""What ``run`` and ``resume`` share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from jobrun.cli.jobs.run_with_progress import run_under_progress, tee_events
from jobrun.cli.options import Duration
from jobrun.cli.terminal import Shell
from jobrun.core.events import GroupEnded
from jobrun.runner.options import RunOptions, RunResult
from tests.support.sample_events import epoch, started

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


def test_options_reach_the_runner_and_the_end_is_told(capsys):
    seen: list[RunOptions] = []

    def act(options, listener):
        seen.append(options)
        for event in [started(), *epoch(1, 0.5)]:
            listener(event)
        return RunResult(75, "/runs/job/x", 1, "3 epochs were asked for")

    given = {**GIVEN, "epochs": 3, "time_s": 60.0, "epoch": 2, "accept": ("a",), "as_json": True}
    assert run_under_progress(act, Shell({}), Path("there"), given) == 75
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
