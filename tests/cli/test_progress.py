"""Which progress is shown, and the last words of a run."""

from __future__ import annotations

import io
import json
import sys

import pytest

from jobrun.cli.plain import PlainProgress
from jobrun.cli.progress import (
    as_document,
    progress_of,
    short_path,
    summary,
    tell_end,
    what_is_kept,
)
from jobrun.cli.shell import Shell
from jobrun.cli.tally import Tally
from jobrun.core.errors import Fault, TaskFailedError
from jobrun.runner.settings import RunResult
from tests.support.happenings import Clock, ended, epoch, started


@pytest.fixture
def tally():
    clock = Clock()
    seen = Tally(clock=clock)
    for event in [started(), *epoch(1, 0.5), *epoch(2, 0.25), ended(2)]:
        seen.see(event)
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
def test_who_fails_says_what_is_kept(events, epoch_saved):
    tally = Tally()
    error = TaskFailedError.of("E200", "it broke")
    for event in events:
        tally.see(event)
    with pytest.raises(TaskFailedError), what_is_kept(tally):
        raise error

    said = getattr(error, "__notes__", [])
    words = f"epoch {epoch_saved} is saved; to go on from it: jobrun resume "
    assert [note.startswith(words) for note in said] == [True] * (epoch_saved is not None)


def test_the_summary_says_why_what_and_where(tally, run):
    assert summary(RunResult(0, run, 2, "stop[0]: loss < 0.3"), tally) == [
        "finished after epoch 2: stop[0]: loss < 0.3",
        "  loss    0.25",
        "  time    3.0 s, 2 epochs",
        "  saved   epoch 2, 2.0 KiB",
        "  run     runs/job/brisk-heron",
        "  result  runs/job/brisk-heron/artifacts/centroids.npy",
    ]


@pytest.mark.parametrize(
    ("code", "word", "then"),
    [
        (0, "finished after", "next: jobrun inspect-checkpoint runs/job/brisk-heron"),
        (0, "finished after", "      jobrun report runs/job/brisk-heron"),
        (9, "finished, but not as expected", "next: jobrun inspect-checkpoint runs"),
        (75, "stopped early", "next: jobrun resume runs/job/brisk-heron"),
        (130, "interrupted", "next: jobrun resume runs/job/brisk-heron"),
    ],
)
def test_the_end_names_the_next_command(tally, run, capsys, code, word, then):
    fault = Fault("E364", "'loss < 0.1' does not hold", "change the expectation")
    tell_end(RunResult(code, run, 2, "", (fault,)), tally, Shell({}), 0)
    said = capsys.readouterr().err
    assert said.startswith(word)
    assert then in said
    assert ("does not hold" in said) == (code == 9)


def test_what_the_runner_says_of_an_early_end_is_not_said_twice(tally, run):
    reason = "stopped (signal SIGTERM): epoch 2 is the last that ran, epoch 2 is saved"
    assert summary(RunResult(75, run, 2, reason), tally)[0] == (
        "stopped early (signal SIGTERM): epoch 2 is the last that ran, epoch 2 is saved"
    )


def test_quiet_says_only_what_is_wrong(tally, run, capsys):
    tell_end(RunResult(0, run, 2, ""), tally, Shell({}), -1)
    assert capsys.readouterr().err == ""
    fault = Fault("E364", "'loss < 0.1' does not hold")
    tell_end(RunResult(9, run, 2, "", (fault,)), tally, Shell({}), -1)
    assert capsys.readouterr().err == "error[E364] 'loss < 0.1' does not hold\n"


def test_a_finished_run_resumed_says_that_there_was_nothing_to_do(run):
    assert "nothing was left to do" in "\n".join(summary(RunResult(0, run, 2, ""), Tally()))


def test_the_end_is_there_as_json(tally, run):
    parsed = json.loads(as_document(RunResult(0, run, 2, "why"), tally))
    assert parsed == {
        "schema": "jobrun.run/1", "run": run, "exit_code": 0, "epoch": 2, "reason": "why",
        "metrics": {"loss": 0.25}, "faults": [],
    }  # fmt: skip


def test_progress_is_live_on_a_terminal_only_and_plain_when_asked(monkeypatch):
    assert isinstance(progress_of(Shell({}), Tally(), 0), PlainProgress)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    assert not isinstance(progress_of(Shell({}), Tally(), 0), PlainProgress)
    assert isinstance(progress_of(Shell({"CI": "1"}), Tally(), 0), PlainProgress)
    assert isinstance(progress_of(Shell({}), Tally(), 1), PlainProgress)
    assert isinstance(progress_of(Shell({}), Tally(), -1), PlainProgress)


def test_paths_are_short_where_they_can_be(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert short_path(str(tmp_path / "runs" / "a")) == "runs/a"
    assert short_path("/x") == "/x"
