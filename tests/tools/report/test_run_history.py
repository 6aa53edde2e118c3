"""What happened in a run, from its events."""

from __future__ import annotations

import shutil

import pytest

from jobrun.cli.run_command import invoke
from jobrun.core.events import (
    CheckpointCommitted,
    CheckpointFailed,
    EpochEnded,
    Noted,
    RunEnded,
    RunStarted,
    TaskEnded,
)
from jobrun.runner.rundir.run_directories import runs
from jobrun.tools.report.run_history import Link, Saved, TaskTime, ancestors, children, read_history
from tests.support.reports import make_report
from tests.support.sample_events import written


def _written(tmp_path, *events, tail: str = ""):
    lines = [
        written(event, f"2026-01-01T00:00:{second:02}+00:00", _generation(events[:second]))
        for second, event in enumerate(events)
    ]
    (tmp_path / "events.jsonl").write_text("".join(lines) + tail)
    return tmp_path


def _generation(before) -> int:
    """Each end of a process begins another."""
    return sum(isinstance(event, RunEnded) for event in before)


def _start(epoch: int = -1) -> RunStarted:
    return RunStarted("r", "j", "/r", epoch, 9)


START = _start()
ENDED = RunEnded("stopped", 1, 1.0, "asked to")


def _epoch(number: int) -> EpochEnded:
    return EpochEnded(number, 0.5, (), ())


def test_epochs_belong_to_the_process_that_ran_them(tmp_path):
    run = _written(tmp_path, START, _epoch(1), ENDED, _start(1), _epoch(2), _epoch(3))
    first, second = read_history(run, live=False).invocations

    assert (first.before, first.epoch) == (-1, 1)
    assert (first.outcome, first.reason) == ("stopped", "asked to")
    assert (second.before, second.epoch, second.outcome, second.generation) == (1, 3, "killed", 1)
    assert second.ended - second.started == 2


def test_a_live_run_without_events_is_running(tmp_path):
    assert read_history(_written(tmp_path, START), live=True).invocations[0].outcome == "running"


def test_what_the_next_process_says_before_its_start_does_not_lengthen_the_last(tmp_path):
    noted = Noted("continuing")
    run = _written(tmp_path, START, _epoch(1), noted)
    (invocation,) = read_history(run, live=False).invocations

    assert invocation.ended - invocation.started == 1


def test_times_of_a_task_are_added_up(tmp_path):
    ended = [TaskEnded("t", "n", 1, s, s > 2) for s in (1.0, 3.0)]

    assert read_history(_written(tmp_path, START, *ended), live=False).tasks == (
        TaskTime("t", "n", 2, 4.0, 3.0, 1),
    )


def test_saves_and_warnings_are_kept(tmp_path):
    save = CheckpointCommitted(3, 10, 0.1, "/r/checkpoints/epoch-000003")
    failed = CheckpointFailed(4, "disk full")
    warned = Noted("look out", "warning")
    history = read_history(_written(tmp_path, START, save, failed, warned), live=False)

    assert history.saves == (Saved(3, history.invocations[0].started + 1, 10, 0.1),)
    assert [notice.words for notice in history.notices] == [
        "saving epoch 4 failed: disk full",
        "look out",
    ]


@pytest.mark.parametrize(
    "tail", ['\n{"event": "EpochEnd', '\n[1]\n{}\n{"event": "RunEnded"}', "\n\x00"]
)
def test_torn_and_foreign_lines_are_left_out(tmp_path, tail):
    history = read_history(_written(tmp_path, START, _epoch(1), tail=tail), live=False)

    assert [epoch.epoch for epoch in history.epochs] == [1]


def test_a_run_without_events_has_no_history(tmp_path):
    assert read_history(tmp_path, live=False).invocations == ()


def _forked(folder, *words):
    where = ["--run-dir", str(folder / "runs"), "--quiet"]
    invoke(["fork", *words, *where, "--set", "stop=[{epochs: 5}]"])
    return runs(folder / "runs", "pages")[-1]


def test_a_fork_knows_its_ancestors_and_each_its_forks(tmp_path):
    first = make_report(tmp_path).run
    second = _forked(tmp_path, f"{first.path}@2")
    third = _forked(tmp_path, f"{second.path}@3", "--blobs", "x")

    assert ancestors(third) == (Link(second.name, 3, ("x",)), Link(first.name, 2))
    assert children(first) == (Link(second.name, 2),)


def test_where_the_parent_is_gone_its_name_is_left(tmp_path):
    first = make_report(tmp_path).run
    second = _forked(tmp_path, f"{first.path}@2")
    shutil.rmtree(first.path)

    assert ancestors(second) == (Link(first.name, 2),)
