from __future__ import annotations

import json

import pytest

from jobrun.core.events import (
    EpochEnded,
    GroupEnded,
    GroupStarted,
    Measured,
    RunStarted,
    TaskEnded,
    TaskFacts,
)
from jobrun.runner.rundir.lock import RunLock
from jobrun.runner.rundir.run_directories import open_run
from jobrun.tools.runs import status
from jobrun.tools.runs.status import read_status
from jobrun.tools.runs.tag_and_remove_runs import change_tags
from tests.support.sample_events import written
from tests.support.sample_runs import make_run


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path)


def test_status_of_a_finished_run_is_read_from_its_files(run):
    change_tags(run.path, ("best",), ())

    state = read_status(run, lines=2)

    assert (state.status, state.owner, state.group) == ("finished", None, "")
    assert (state.epoch, state.saved, state.total_epochs) == (4, 4, 4)
    assert state.saved_bytes > 0
    assert state.saved_age_s is not None
    assert state.metrics.rows[-1] == (4, (0.5,))
    assert state.lines == ("halve [3] x is 1.0", "halve [4] x is 0.5")
    assert repr(state) == f"<Status of {run.name}: finished, epoch 4, epoch 4 saved>"
    assert state.tags == ("best",)
    assert state.left_s is None


def test_a_locked_run_is_running_and_its_remaining_time_is_estimated(run):
    events = [json.loads(line) for line in (run.path / "events.jsonl").read_text().splitlines()]
    until = next(at for at, event in enumerate(events) if event.get("epoch") == 3)
    events_before = [json.dumps(event) for event in events[:until]]
    (run.path / "events.jsonl").write_text("\n".join(events_before) + '\n{"event": "Gro')

    with RunLock.acquire(run.path):
        state = read_status(run)

    assert state.status == "running"
    assert state.owner is not None
    assert state.left_s is not None
    assert state.left_s >= 0


def test_what_is_left_counts_what_is_between_epochs_too(run):
    times = [f"2026-01-01T00:00:0{at}Z" for at in (0, 2, 4)]
    epoch_ends = [written(EpochEnded(n, 0.5, (), ()), at) for n, at in enumerate(times, start=1)]
    start = written(RunStarted("r", "j", "/r", 0, 13), times[0])
    (run.path / "events.jsonl").write_text("".join((start, *epoch_ends)))

    with RunLock.acquire(run.path):
        state = read_status(run)

    assert state.epoch_s == 2.0
    assert state.left_s == (13 - state.epoch) * 2.0


@pytest.mark.parametrize("jump", ["2027-01-01T00:00:02Z", "1996-01-01T00:00:02Z"])
@pytest.mark.parametrize("jumped", [1, 2])
def test_a_clock_that_jumps_between_two_epochs_does_not_change_what_is_left(run, jump, jumped):
    times = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:02Z", "2026-01-01T00:00:04Z"]
    times[jumped:] = [jump] * (3 - jumped)
    epoch_ends = [written(EpochEnded(n, 0.5, (), ()), at) for n, at in enumerate(times, start=1)]
    start = written(RunStarted("r", "j", "/r", 0, 13), times[0])
    (run.path / "events.jsonl").write_text("".join((start, *epoch_ends)))

    with RunLock.acquire(run.path):
        state = read_status(run)

    assert state.left_s is not None
    assert 4 <= state.left_s <= 30


def test_a_run_without_lock_and_recorded_end_was_killed(run):
    record = run.path / "run.json"
    record.write_text(record.read_text().replace('"finished"', '"running"'))

    assert read_status(open_run(run.path)).status == "killed"


def test_the_start_is_found_in_front_of_a_long_log(run, monkeypatch):
    monkeypatch.setattr(status, "_TAIL_BYTES", 600)

    assert read_status(run).total_epochs == 4


def test_a_run_whose_files_are_gone_still_has_a_status(run):
    for name in ("events.jsonl", "metrics.jsonl", "committed.jsonl"):
        (run.path / name).unlink()

    state = read_status(run)

    assert (state.status, state.total_epochs, state.saved_age_s) == (
        "finished",
        None,
        None,
    )


def test_status_of_a_live_run_shows_which_tasks_run(run):
    facts = (
        TaskFacts("epoch", "read", "a"),
        TaskFacts("epoch", "read", "b"),
        TaskFacts("epoch", "fit", "a", ("read",)),
        TaskFacts("exit", "save", "a"),
    )
    events = [
        RunStarted("r", "j", "/r", 0, 9, facts),
        GroupStarted("epoch", 1, ()),
        TaskEnded("read", "a", 1, 0.1, failed=False),
    ]

    with RunLock.acquire(run.path):
        _write(run, events)
        assert read_status(run).tasks == (
            ("a", "read", "ended"),
            ("b", "read", "running"),
            ("a", "fit", "waiting"),
        )
        _write(run, [*events, TaskEnded("read", "b", 1, 0.1, failed=True)])
        assert [state for _, _, state in read_status(run).tasks] == ["ended", "failed", "running"]
        _write(run, [*events, GroupEnded("epoch", 1, 0.1)])
        assert read_status(run).tasks == ()
    _write(run, events)
    assert read_status(run).tasks == ()


def _write(run, events):
    text = "".join(map(written, events))
    (run.path / "events.jsonl").write_text(text)


def test_of_a_long_list_of_metrics_only_the_end_is_read(run, monkeypatch):
    monkeypatch.setattr(status, "_TAIL_BYTES", 1600)
    lines = [written(Measured("x", n / 2, n)) for n in range(99)]
    (run.path / "metrics.jsonl").write_text("".join(lines))

    rows = read_status(run).metrics.rows

    assert rows[-1] == (98, (49.0,))
    assert 5 < len(rows) < 15
