from __future__ import annotations

import json

import pytest

from jobrun.runner.lock import RunLock
from jobrun.runner.rundir import open_run
from jobrun.tools.runs import status
from jobrun.tools.runs.status import status_of
from jobrun.tools.runs.tags import change_tags
from tests.support.some_runs import make_run


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path)


def test_a_finished_run_is_told_from_its_files(run):
    change_tags(run.path, ("best",), ())

    found = status_of(run, lines=2)

    assert (found.status, found.owner, found.group) == ("finished", None, "")
    assert (found.epoch, found.saved, found.total_epochs) == (4, 4, 4)
    assert found.saved_bytes > 0
    assert found.saved_age_s is not None
    assert found.metrics.rows[-1] == (4, (0.5,))
    assert found.lines == ("halve [3] x is 1.0", "halve [4] x is 0.5")
    assert found.tags == ("best",)
    assert found.left_s is None


def test_one_that_is_held_runs_and_its_rest_is_estimated(run):
    events = [json.loads(line) for line in (run.path / "events.jsonl").read_text().splitlines()]
    until = next(at for at, event in enumerate(events) if event.get("epoch") == 3)
    kept = [json.dumps(event) for event in events[:until]]
    (run.path / "events.jsonl").write_text("\n".join(kept) + '\n{"event": "Gro')

    with RunLock.acquire(run.path):
        found = status_of(run)

    assert found.status == "running"
    assert found.owner is not None
    assert found.left_s is not None
    assert found.left_s >= 0


def test_what_is_left_counts_what_is_between_epochs_too(run):
    ends = [
        {"event": "EpochEnded", "epoch": epoch, "seconds": 0.5, "time": f"2026-01-01T00:00:0{at}Z"}
        for epoch, at in ((1, 0), (2, 2), (3, 4))
    ]
    start = {"event": "RunStarted", "epoch": 0, "total_epochs": 13, "time": ends[0]["time"]}
    (run.path / "events.jsonl").write_text("".join(f"{json.dumps(e)}\n" for e in (start, *ends)))

    with RunLock.acquire(run.path):
        found = status_of(run)

    assert found.epoch_s == 2.0
    assert found.left_s == (13 - found.epoch) * 2.0


def test_one_that_nobody_holds_and_that_never_said_how_it_ended_was_killed(run):
    record = run.path / "run.json"
    record.write_text(record.read_text().replace('"finished"', '"running"'))

    assert status_of(open_run(run.path)).status == "killed"


def test_the_start_is_found_in_front_of_a_long_log(run, monkeypatch):
    monkeypatch.setattr(status, "_TAIL_BYTES", 600)

    assert status_of(run).total_epochs == 4


def test_a_run_whose_files_are_gone_still_has_a_status(run):
    for name in ("events.jsonl", "metrics.jsonl", "committed.jsonl"):
        (run.path / name).unlink()

    found = status_of(run)

    assert (found.status, found.total_epochs, found.saved_age_s) == ("finished", None, None)


def test_of_a_live_run_it_is_told_which_tasks_run(run):
    facts = [
        {"group": "epoch", "task": "read", "node": "a", "needs": []},
        {"group": "epoch", "task": "read", "node": "b", "needs": []},
        {"group": "epoch", "task": "fit", "node": "a", "needs": ["read"]},
        {"group": "exit", "task": "save", "node": "a", "needs": []},
    ]
    events = [
        {"event": "RunStarted", "time": _NOW, "epoch": 0, "total_epochs": 9, "tasks": facts},
        {"event": "GroupStarted", "time": _NOW, "group": "epoch", "epoch": 1},
        {"event": "TaskEnded", "time": _NOW, "task": "read", "node": "a", "failed": False},
    ]

    with RunLock.acquire(run.path):
        _write(run, events)
        assert status_of(run).tasks == (
            ("a", "read", "ended"), ("b", "read", "running"), ("a", "fit", "waiting"),
        )  # fmt: skip
        failed = {"event": "TaskEnded", "time": _NOW, "task": "read", "node": "b", "failed": True}
        _write(run, [*events, failed])
        assert [how for _, _, how in status_of(run).tasks] == ["ended", "failed", "running"]
        _write(run, [*events, {"event": "GroupEnded", "time": _NOW, "group": "epoch"}])
        assert status_of(run).tasks == ()
    _write(run, events)
    assert status_of(run).tasks == ()


_NOW = "2026-11-21T09:00:00.000+00:00"


def _write(run, events):
    text = "".join(json.dumps(event) + "\n" for event in events)
    (run.path / "events.jsonl").write_text(text)


def test_of_a_long_list_of_metrics_only_the_end_is_read(run, monkeypatch):
    monkeypatch.setattr(status, "_TAIL_BYTES", 600)
    lines = [json.dumps({"name": "x", "value": n / 2, "epoch": n, "task": ""}) for n in range(99)]
    (run.path / "metrics.jsonl").write_text("\n".join(lines) + "\n")

    rows = status_of(run).metrics.rows

    assert rows[-1] == (98, (49.0,))
    assert 5 < len(rows) < 15
