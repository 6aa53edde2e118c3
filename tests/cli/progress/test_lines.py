"""Progress as lines: plain ones, or JSON."""

from __future__ import annotations

import json

from jobrun.cli.progress.lines import PlainProgress
from jobrun.cli.progress.run_state import RunState
from jobrun.cli.run_command import invoke
from jobrun.cli.terminal import Shell
from jobrun.core.events import CheckpointSkipped, GroupStarted, Noted
from tests.support.sample_events import Clock, ended, epoch, epoch_ended, logged, started
from tests.support.sample_runs import SPEC


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_each_event_is_a_line_of_json_and_nothing_else_is_printed(tmp_path, monkeypatch, capsys):
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

    errors = capsys.readouterr().err
    assert "::error file=bad.yaml,line=3," in errors
    assert "epochz: 3" in errors


def test_quiet_lines_are_the_start_the_end_and_warnings(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yaml").write_text(SPEC.format(name="good", limit=0.0))

    assert invoke(["run", "good.yaml", "--log-format", "json", "--quiet"]) == 0

    assert [event["event"] for event in lines(capsys)] == ["RunStarted", "RunEnded"]


def _lines(capsys, events, verbosity=0, clock=None):
    progress = PlainProgress(Shell({}), RunState(clock=clock or Clock()), verbosity)
    with progress:
        for event in events:
            progress(event)
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err.splitlines()


def test_epochs_are_printed_at_most_every_ten_seconds_and_the_last_one_always(capsys):
    events = [started(), *(event for number in (1, 2, 3) for event in epoch(number, 0.5 / number))]
    lines = [line for line in _lines(capsys, [*events, ended(3)]) if line.startswith("epoch")]
    assert lines == [
        "epoch 1 of at most 100  loss 0.5  250 ms",
        "epoch 3 of at most 100  loss 0.16667  250 ms",
    ]


def test_after_ten_seconds_the_next_epoch_is_printed(capsys):
    clock = Clock()
    progress = PlainProgress(Shell({}), RunState(clock=clock))
    with progress:
        for number in (1, 2, 3, 4):
            for event in epoch(number, 1.0):
                progress(event)
            clock.now += 6.0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("epoch")]
    assert [line.split()[1] for line in lines] == ["1", "3", "4"]


def test_verbose_prints_every_epoch_and_checkpoint(capsys):
    lines = _lines(capsys, [started(), *epoch(1, 0.5), *epoch(2, 0.5)], verbosity=1)
    assert "  saved epoch 2, 2.0 KiB" in lines
    assert len([line for line in lines if line.startswith("epoch")]) == 2


def test_quiet_prints_warnings_only(capsys):
    events = [started(), *epoch(1, 0.5), CheckpointSkipped(4, "truncated"), Noted("x", "warning")]
    assert _lines(capsys, events, verbosity=-1) == [
        "warning: epoch 4 is unusable (truncated); it was moved to superseded/",
        "warning: x",
    ]


def test_the_start_says_whether_the_run_is_new(capsys):
    assert _lines(capsys, [started()])[0] == "job/brisk-heron starts"
    assert _lines(capsys, [started(epoch=7)])[0] == "job/brisk-heron continues after epoch 7"


def test_a_stopping_epoch_is_reported_before_the_logs_of_the_exit_group(capsys):
    events = [started(), *epoch(1, 0.5), epoch_ended(2, 0.25, ("stop[0]",))]
    lines = _lines(capsys, [*events, GroupStarted("exit", 2, ("result",)), logged("done", "exit")])
    assert lines[-2:] == ["epoch 2 of at most 100  loss 0.25  250 ms", "lloyd: done"]


def test_log_lines_of_epochs_are_few_and_omissions_are_reported(capsys):
    events = [started(), *epoch(1, 0.5), *(logged(f"pass {number}") for number in range(30))]
    events += [epoch_ended(2, 0.5, ("stop[0]",))]
    lines = _lines(capsys, [*events, GroupStarted("exit", 2, ()), logged("purity", "exit")])
    assert len([line for line in lines if "pass" in line]) == 6
    assert "  (25 more lines in logs/ of the run)" in lines
    assert lines[-1] == "lloyd: purity"
    assert len([line for line in _lines(capsys, events, verbosity=1) if "pass" in line]) == 31
