"""Which progress is shown, and the last words of a run."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from jobrun.cli.formatting import shorten_path
from jobrun.cli.jobs.run import create_display
from jobrun.cli.progress.lines import PlainProgress
from jobrun.cli.progress.run_state import RunState
from jobrun.cli.progress.summary import (
    note_saved_epoch,
    print_summary,
    render_result,
    render_saved_epoch,
    render_summary,
)
from jobrun.cli.terminal import Shell
from jobrun.core.errors import Fault, TaskFailedError
from jobrun.core.events import UsageMeasured
from jobrun.core.resource_usage import ProcessUse
from jobrun.core.time_use import TimeUse
from jobrun.runner.options import RunResult
from tests.support.sample_events import Clock, ended, epoch, started


@pytest.fixture
def state():
    clock = Clock()
    seen = RunState(clock=clock)
    for event in [started(), *epoch(1, 0.5), *epoch(2, 0.25), ended(2)]:
        seen.update(event)
    clock.now += 3
    return seen


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "runs" / "job" / "brisk-heron"
    (path / "artifacts").mkdir(parents=True)
    (path / "artifacts" / "centroids.npy").write_bytes(b"x")
    return str(path)


@pytest.mark.parametrize(
    ("events", "epoch_saved"),
    [
        ([started(), *epoch(1, 0.5), *epoch(2, 0.25)], 2),
        ([started(epoch=4)], 4),
        ([started()], None),
        ([], None),
    ],
)
def test_a_failure_names_the_saved_epoch(events, epoch_saved, monkeypatch):
    monkeypatch.setattr(Path, "is_file", lambda path: path.name == "run.json")
    state = RunState()
    error = TaskFailedError.of("E200", "it broke")
    for event in events:
        state.update(event)
    with pytest.raises(TaskFailedError), note_saved_epoch(state):
        raise error

    notes = getattr(error, "__notes__", [])
    words = f"epoch {epoch_saved} is saved; to continue: jobrun resume "
    assert [note.startswith(words) for note in notes] == [True] * (epoch_saved is not None)


def test_a_failure_names_no_run_that_was_moved_away():
    assert render_saved_epoch(3, "/runs/gone") == (
        "epoch 3 was saved in /runs/gone, which no longer exists"
    )


def test_the_summary_says_why_what_and_where(state, run):
    assert render_summary(RunResult(0, run, 2, "stop[0]: loss < 0.3"), state) == [
        "finished after epoch 2: stop[0]: loss < 0.3",
        "  loss    0.25",
        "  time    3.0 s, 2 epochs",
        "  saved   epoch 2, 2.0 KiB",
        "  run     runs/job/brisk-heron",
        "  result  runs/job/brisk-heron/artifacts/centroids.npy",
    ]


def test_an_artifact_too_long_for_the_terminal_is_named_within_its_run(state, run):
    result = RunResult(0, run, 2, "after 2 epochs")

    assert "…/artifacts/centroids.npy" in render_summary(result, state, 50)[-1]
    assert "runs/job/brisk-heron/artifacts/centroids.npy" in render_summary(result, state)[-1]


@pytest.mark.parametrize(
    ("code", "word", "then"),
    [
        (0, "finished after", "next: jobrun inspect-checkpoint runs/job/brisk-heron"),
        (0, "finished after", "      jobrun report runs/job/brisk-heron"),
        (9, "finished, but an expectation does not hold", "next: jobrun inspect-checkpoint runs"),
        (75, "stopped early", "next: jobrun resume runs/job/brisk-heron"),
        (130, "interrupted", "next: jobrun resume runs/job/brisk-heron"),
    ],
)
def test_the_end_names_the_next_command(state, run, capsys, code, word, then):
    fault = Fault("E364", "'loss < 0.1' does not hold", "change the expectation")
    print_summary(RunResult(code, run, 2, "", (fault,)), state, Shell({}), 0)
    errors = capsys.readouterr().err
    assert errors.startswith(word)
    assert then in errors
    assert ("does not hold" in errors) == (code == 9)


def test_the_runners_message_of_an_early_end_is_not_printed_twice(state, run):
    reason = "stopped (signal SIGTERM): epoch 2 is the last that ran, epoch 2 is saved"
    assert render_summary(RunResult(75, run, 2, reason), state)[0] == (
        "stopped early (signal SIGTERM): epoch 2 is the last that ran, epoch 2 is saved"
    )


def test_quiet_says_only_what_is_wrong(state, run, capsys):
    print_summary(RunResult(0, run, 2, ""), state, Shell({}), -1)
    assert capsys.readouterr().err == ""
    fault = Fault("E364", "'loss < 0.1' does not hold")
    print_summary(RunResult(9, run, 2, "", (fault,)), state, Shell({}), -1)
    assert capsys.readouterr().err == "error[E364] 'loss < 0.1' does not hold\n"


def test_a_finished_run_resumed_says_that_there_was_nothing_to_do(run):
    assert "nothing left to do" in "\n".join(render_summary(RunResult(0, run, 2, ""), RunState()))


def test_the_end_is_there_as_json(state, run):
    times = TimeUse(computing=1.0, saves=3.0)
    state.update(UsageMeasured(2, 0.0, 2, times, TimeUse(startup=2.0), advice="mend"))

    parsed = json.loads(render_result(RunResult(0, run, 2, "why"), state))

    assert parsed.pop("times_s") == {
        "computing": 1.0,
        "saves": 3.0,
        "data": 0.0,
        "nodes": 0.0,
        "startup": 2.0,
        "upload": 0.0,
        "total": 6.0,
    }
    assert parsed == {
        "schema": "jobrun.run/1",
        "run": run,
        "exit_code": 0,
        "epoch": 2,
        "reason": "why",
        "metrics": {"loss": 0.25},
        "faults": [],
        "starts": 2,
        "processes": [],
        "advice": "mend",
    }


def test_the_end_shows_where_the_time_went_and_what_to_write(state, run):
    times = TimeUse(computing=1.0, saves=3.0, data=0.01)
    use = (ProcessUse("", peak_bytes=3 << 20), ProcessUse("a", peak_bytes=1 << 20))
    state.update(UsageMeasured(2, 0.0, 2, times, TimeUse(startup=2.0), use, advice="write this"))

    lines = render_summary(RunResult(0, run, 2, "why"), state)

    at = next(at for at, line in enumerate(lines) if "4.0 s, " in line)
    assert [line.split() for line in lines[at + 1 : at + 6]] == [
        ["75%", "3.0", "s", "waiting", "for", "saves"],
        ["25%", "1.0", "s", "computing"],
        ["6.0", "s", "in", "2", "starts"],
        ["hint", "write", "this"],
        ["memory", "at", "most", "4.0", "MiB"],
    ]


def test_progress_is_live_on_a_terminal_only_and_plain_when_asked(monkeypatch):
    assert isinstance(create_display(Shell({}), RunState(), 0), PlainProgress)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    assert not isinstance(create_display(Shell({}), RunState(), 0), PlainProgress)
    assert isinstance(create_display(Shell({"CI": "1"}), RunState(), 0), PlainProgress)
    assert isinstance(create_display(Shell({}), RunState(), 1), PlainProgress)
    assert isinstance(create_display(Shell({}), RunState(), -1), PlainProgress)


def test_paths_are_short_where_they_can_be(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert shorten_path(str(tmp_path / "runs" / "a")) == "runs/a"
    assert shorten_path("/x") == "/x"
