"""Starting, resuming and the policies between them: how each end is told and resumed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from jobrun.checkpoint.metadata_handler import Chosen
from jobrun.core.errors import (
    CheckpointError,
    DriftError,
    EnvironmentFaultError,
    LockedError,
    TaskFailedError,
    UsageError,
)
from jobrun.core.events import (
    CheckpointCommitted,
    CheckpointSkipped,
    GroupStarted,
    Noted,
    RunEnded,
    RunStarted,
)
from jobrun.runner.rundir.lock import RunLock
from jobrun.runner.rundir.run_directories import open_run, runs
from jobrun.runner.rundir.run_json import RECORD_NAME
from jobrun.runner.start_or_resume import choose_run
from jobrun.runner.stop_requests import REQUEST_NAME
from tests.support.resumable_job import Place

FAILING = ("      - k = k + 1\n", "      - k = k + 1\n      - {assert: k < 3}\n")


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("unbroken"))
    place.start()
    return place


def groups(place):
    return [(e.group, e.epoch) for e in place.events if isinstance(e, GroupStarted)]


# How a run ends, row by row.


def test_an_item_of_stop_ends_with_0_and_everything_was_run(place):
    result = place.start()

    assert (result.exit_code, result.epoch, result.reason) == (0, 4, "4 epochs have run")
    assert groups(place) == [("init", 0)] + [("epoch", n) for n in range(1, 5)] + [("exit", 4)]
    assert place.store.epochs() == (0, 1, 2, 3, 4)
    assert (place.run.record.status, place.run.record.exit_code) == ("finished", 0)
    assert [type(place.events[0]), type(place.events[-1])] == [RunStarted, RunEnded]
    assert np.load(place.run.path / "artifacts" / "w.npy").shape == (12,)


def test_an_expectation_that_does_not_hold_ends_with_9_also_later(place):
    place.edit(("stop:", "expect: [loss < 0, k == 4]\nstop:"))

    result = place.start()

    assert result.exit_code == 9
    assert [fault.message for fault in result.faults] == ["'loss < 0' does not hold"]
    assert place.line(result.faults[0]) == "expect: [loss < 0, k == 4]"
    assert place.resume().exit_code == 9
    assert place.policy("auto").exit_code == 9


def test_a_finished_run_returns_at_once_and_writes_nothing(place):
    place.start()
    before = sorted((p, p.stat().st_mtime_ns) for p in place.run.path.rglob("*"))
    place.events.clear()

    result = place.resume()

    assert (result.exit_code, result.epoch) == (0, 4)
    assert place.events == []
    assert sorted((p, p.stat().st_mtime_ns) for p in place.run.path.rglob("*")) == before


class Chooser:
    """A handler that names an epoch, or has no opinion."""

    def __init__(self, epoch):
        self.epoch = epoch

    def last_epoch(self, wanted):
        return None if self.epoch is None else Chosen(self.epoch, "because")

    def accessible(self, epoch):
        return True

    def written(self, epoch, generation):
        pass

    def report(self, times):
        pass


@pytest.mark.parametrize(("named", "ran"), [(2, 2), (4, 0), (None, 0)])
def test_a_finished_run_goes_on_from_the_epoch_that_a_handler_names(place, unbroken, named, ran):
    place.start()
    place.events.clear()

    result = place.resume(metadata=Chooser(named))

    assert (result.exit_code, result.epoch) == (0, 4)
    assert [group for group, _ in groups(place)].count("epoch") == ran
    assert place.store.epochs() == (0, 1, 2, 3, 4)
    assert place.state(4) == unbroken.state(4)


def test_a_finished_run_whose_limit_was_raised_goes_on_to_the_total(place, unbroken, tmp_path):
    place.edit(("epochs: 4", "epochs: 2"))
    place.start()
    place.edit()

    result = place.resume(place.load()[0])

    assert (result.exit_code, result.epoch) == (0, 4)
    assert place.outcome() == unbroken.outcome()


def test_killed_between_the_last_commit_and_the_end_of_exit_runs_exit_again_and_no_epoch(
    place, unbroken
):
    assert place.process("never", crash="runner.exit-ended").returncode == -9
    assert place.run.record.status == "running"

    result = place.resume()

    assert (result.exit_code, result.epoch) == (0, 4)
    assert groups(place) == [("init", 0), ("exit", 4)]
    assert place.outcome() == unbroken.outcome()


def test_a_failure_in_exit_keeps_the_last_commit(place):
    place.edit(("      - best =", "      - {assert: k < 0}\n      - best ="))
    with pytest.raises(TaskFailedError):
        place.start()
    assert place.store.epochs()[-1] == 4
    assert (place.run.record.status, place.run.record.exit_code) == ("failed", 1)
    place.edit()

    result = place.resume(place.load()[0], accept=("exit",))

    assert result.exit_code == 0
    assert groups(place)[-2:] == [("init", 0), ("exit", 4)]


# What runs, or is judged, after the last epoch; it fails, or does not hold, before it is mended.
MENDS = {
    "exit": ("      - best =", '      - {assert: "k < 0"}\n      - best ='),
    "net of exit": (
        "exit:\n  - task: export\n    node: a\n    steps:\n",
        'nets: {end: [{assert: "k < 0"}]}\n'
        "exit:\n  - task: export\n    node: a\n    steps:\n      - {net: end}\n",
    ),
    "expect": ("stop:", "expect: [k < 0]\nstop:"),
}
CONTINUED = {"exit": 1, "net of exit": 1, "expect": 9}


@pytest.mark.parametrize("name", MENDS)
@pytest.mark.parametrize("stopped", [True, False])
def test_a_mend_of_what_runs_after_the_last_epoch_is_no_drift(place, unbroken, name, stopped):
    place.edit(MENDS[name])
    limits = {"max_epochs": 2} if stopped else {}
    try:
        code = place.policy("auto", **limits).exit_code
    except TaskFailedError as error:
        code = error.exit_code
    assert code == (75 if stopped else CONTINUED[name])
    place.edit()
    place.events.clear()

    result = place.policy("auto", strict=True)

    assert (result.exit_code, result.epoch, len(place.runs)) == (0, 4, 1)
    ran = [group for group, _ in groups(place)]
    assert (ran.count("epoch"), ran.count("exit")) == (2 if stopped else 0, 1)
    assert place.outcome() == unbroken.outcome()
    assert place.policy("auto", strict=True).exit_code == 0


@pytest.mark.parametrize(
    "edit",
    [
        ("stop:", "notify: [{on: [failed], run: ['true']}]\nstop:"),
        ("{loss: loss}", "{loss: loss, k: k}"),
    ],
)
def test_a_finished_run_whose_news_or_metrics_are_mended_has_nothing_left_to_run(place, edit):
    place.start()
    place.edit(edit)
    place.events.clear()

    assert place.policy("auto", strict=True).exit_code == 0
    assert [group for group, _ in groups(place)] == ["init"]


def test_code_that_only_exit_calls_may_be_mended(place):
    place.edit(("      - best =", '      - {call: "report:write", with: {k: k}}\n      - best ='))
    (place.folder / "report.py").write_text("import helper\ndef write(k):\n    helper.check(k)\n")
    (place.folder / "helper.py").write_text("def check(k):\n    assert k < 0\n")
    assert place.process("auto").returncode == 1
    (place.folder / "helper.py").write_text("def check(k):\n    pass\n")

    done = place.process("auto")

    assert (done.returncode, place.run.record.status, len(place.runs)) == (0, "finished", 1)


def test_code_that_exit_and_epochs_call_is_drift(place):
    call = '      - {call: "step:add", with: {k: k}, out: %s}\n'
    place.edit(
        ("      - k = k + 1\n", call % "k"), ("      - best =", f"{call % 'q'}      - best =")
    )
    (place.folder / "step.py").write_text("def add(k):\n    return k + 1\n")
    place.start(max_epochs=2)
    (place.folder / "step.py").write_text("def add(k):\n    return k + 2\n")

    with pytest.raises(DriftError, match=r"callables\.step:add"):
        place.resume()


def test_max_epochs_stops_with_75_and_runs_no_exit(place, unbroken):
    result = place.start(max_epochs=3)

    assert (result.exit_code, result.epoch) == (75, 3)
    assert place.run.record.status == "stopped"
    assert ("exit", 3) not in groups(place)
    assert f"jobrun resume {os.path.relpath(place.run.path)}" in result.faults[0].mend
    assert place.resume(max_epochs=1).exit_code == 0
    assert place.outcome() == unbroken.outcome()


def test_max_epochs_is_of_each_invocation(place):
    assert place.start(max_epochs=1).epoch == 1
    assert place.resume(max_epochs=2).epoch == 3
    assert place.resume(max_epochs=2).exit_code == 0


def test_epochs_is_a_total_that_belongs_to_the_run_and_ends_it_with_0(place, unbroken):
    assert place.start(epochs=2, max_epochs=1).exit_code == 75

    assert (place.resume().exit_code, place.run.record.epoch) == (0, 2)
    assert place.resume().exit_code == 0
    assert place.resume(epochs=9).epoch == 4
    assert place.outcome() == unbroken.outcome()


def test_a_time_limit_that_is_over_stops_with_75(place):
    place.edit(("epochs: 4", "endless: true"), ("k = k + 1", "k = k + 1"))

    result = place.start(time_s=0.3)

    assert result.exit_code == 75
    assert result.epoch >= 0
    assert "time limit" in result.reason


def test_a_step_that_fails_ends_with_1_and_drops_the_epoch(place, unbroken):
    place.edit(FAILING)
    with pytest.raises(TaskFailedError) as raised:
        place.start()

    assert raised.value.exit_code == 1
    assert place.store.epochs() == (0, 1, 2)
    assert (place.run.record.status, place.run.record.epoch) == ("failed", 2)
    assert isinstance(place.events[-1], RunEnded)
    assert place.events[-1].outcome == "failed"
    place.edit()
    assert place.resume(place.load()[0], accept=("epoch",)).exit_code == 0
    assert place.outcome() == unbroken.outcome()


def test_fail_if_ends_with_1_before_the_save(place):
    place.edit(("stop:", "fail_if: [k == 3]\nstop:"))

    with pytest.raises(TaskFailedError, match="'k == 3' holds"):
        place.start()

    assert place.store.epochs() == (0, 1, 2)


def test_a_missing_file_ends_with_7_before_a_run_is_made(place):
    place.edit(('steps: ["X = arange(12.0) / 7"]', 'steps: [{load: {X: "x.npy"}}]'))

    with pytest.raises(EnvironmentFaultError) as raised:
        place.start()

    assert raised.value.exit_code == 7
    assert "x.npy" in place.line(raised.value.faults[0])
    assert place.runs == ()


# Starting.


def test_an_interpreter_without_its_lock_is_refused_before_a_run_is_made_and_at_a_resume(
    place, monkeypatch
):
    place.start(max_epochs=1)
    monkeypatch.setattr("sys._is_gil_enabled", lambda: False, raising=False)

    for act in (place.start, place.resume):
        with pytest.raises(EnvironmentFaultError) as caught:
            act()
        assert caught.value.faults[0].code == "E399"
        assert "PYTHON_GIL=1" in caught.value.faults[0].mend
    assert len(place.runs) == 1


def test_row_28_run_refuses_when_the_newest_run_is_unfinished_and_says_both_commands(place):
    place.start(max_epochs=1)

    with pytest.raises(UsageError, match="is unfinished") as raised:
        place.policy("")

    assert raised.value.exit_code == 2
    mend = raised.value.faults[0].mend
    assert f"jobrun resume {os.path.relpath(place.run.path)}" in mend
    assert "--resume never" in mend
    assert len(place.runs) == 1


def test_run_starts_anew_beside_a_finished_run(place):
    place.start()

    assert place.policy("").exit_code == 0
    assert len(place.runs) == 2


def test_auto_starts_goes_on_and_returns(place):
    assert place.policy("auto", max_epochs=2).exit_code == 75
    assert place.policy("auto", max_epochs=1).exit_code == 75
    assert place.policy("auto").exit_code == 0
    place.events.clear()
    assert place.policy("auto").exit_code == 0
    assert (len(place.runs), place.events) == (1, [])


def test_auto_with_epochs_given_again_returns_at_once(place):
    place.policy("auto", epochs=2)
    place.events.clear()

    assert place.policy("auto", epochs=2).epoch == 2
    assert place.events == []


@pytest.mark.parametrize("target", ["away", "runs/other/away", "in place"])
def test_auto_says_that_the_newest_run_was_moved_away(place, target):
    place.start(max_epochs=1)
    job = place.run.path.parent
    name = place.run.path.name
    moved = job / "renamed" if target == "in place" else place.folder / target
    moved.parent.mkdir(exist_ok=True)
    place.run.path.rename(moved)
    place.events.clear()
    place.policy("auto", max_epochs=1)

    said = [one.text for one in place.events if isinstance(one, Noted) and name in one.text]
    if target == "in place":
        assert said == []
        assert [one.path for one in runs(job.parent, job.name)] == [moved]
        return
    assert len(said) == 1
    assert "was moved or removed" in said[0]
    assert said[0].endswith("jobrun resume PATH" if target == "away" else target)


def test_must_needs_a_run(place):
    with pytest.raises(CheckpointError, match="there is no run of walk") as raised:
        place.policy("must")

    assert raised.value.exit_code == 4
    place.start(max_epochs=1)
    assert place.policy("must").exit_code == 0


def test_never_always_starts(place):
    place.start(max_epochs=1)

    assert place.policy("never").exit_code == 0
    assert len(place.runs) == 2


@pytest.mark.parametrize("point", ["runner.directory-made", "runner.spec-written"])
def test_killed_before_it_is_a_run_there_is_none(place, point):
    assert place.process("auto", crash=point).returncode == -9

    assert place.runs == ()
    assert place.policy("").exit_code == 0


@pytest.mark.parametrize(
    "point", ["runner.run-made", "runner.init-ended", "checkpoint.stage-synced"]
)
def test_r82_killed_before_the_first_commit_auto_goes_on_in_the_same_run(place, unbroken, point):
    assert place.process("auto", crash=point).returncode == -9
    assert place.store.epochs() == ()

    assert place.policy("auto").exit_code == 0

    assert len(place.runs) == 1
    assert place.outcome() == unbroken.outcome()


def test_without_checkpoints_a_run_works_says_so_and_stands_in_nobodys_way(place):
    place.edit(("stop:", "checkpoint: none\nstop:"))

    assert place.start(max_epochs=2).exit_code == 75

    assert any("cannot be resumed" in e.text for e in place.events if isinstance(e, Noted))
    assert place.store.epochs() == ()
    with pytest.raises(CheckpointError, match="kept no checkpoints"):
        place.resume()
    assert place.policy("auto").exit_code == 0
    assert place.run.record.epoch == 4


# Resuming.


@pytest.mark.parametrize("epoch", range(4))
def test_resuming_from_every_epoch_gives_the_unbroken_run(place, unbroken, epoch):
    place.start()

    result = place.resume(epoch=epoch)

    assert result.exit_code == 0
    assert place.outcome() == unbroken.outcome()
    assert place.run.record.generation == 1
    moved = place.run.path / "superseded" / "g0"
    assert len(list(moved.iterdir())) == 4 - epoch


def test_going_back_twice_mixes_nothing(place, unbroken):
    place.start()
    place.resume(epoch=2, max_epochs=1)
    place.resume(epoch=1)

    assert place.outcome() == unbroken.outcome()
    assert place.store.manifest(1).generation == 0
    assert place.store.manifest(3).generation == 2


def test_row_26_an_epoch_that_is_not_there_lists_those_that_are(place):
    place.start(max_epochs=2)

    with pytest.raises(CheckpointError, match=r"epoch 99 is not there.*epochs 0-2") as raised:
        place.resume(epoch=99)

    assert raised.value.exit_code == 4
    assert place.store.epochs() == (0, 1, 2)


def test_row_64_a_damaged_newest_epoch_falls_back_in_clear_words(place, unbroken):
    place.start(max_epochs=3)
    corrupt(place, 3)
    place.events.clear()

    assert place.resume().exit_code == 0

    skipped = [e for e in place.events if isinstance(e, CheckpointSkipped)]
    assert [e.epoch for e in skipped] == [3]
    assert any("continuing from epoch 2" in e.text for e in place.events if isinstance(e, Noted))
    assert len(list((place.run.path / "superseded" / "damaged").iterdir())) == 1
    assert place.outcome() == unbroken.outcome()


def test_row_63_all_damaged_is_refused_and_nothing_is_moved(place):
    place.start(max_epochs=1)
    corrupt(place, 0)
    corrupt(place, 1)

    with pytest.raises(CheckpointError, match=r"epoch 1: .*; epoch 0: ") as raised:
        place.resume()

    assert raised.value.exit_code == 4
    assert place.store.epochs() == (0, 1)


def test_row_65_a_saved_epoch_that_is_gone_is_refused_until_told_otherwise(place, unbroken):
    place.start(max_epochs=3)
    shutil.rmtree(place.store.path(3))

    with pytest.raises(CheckpointError, match="epoch 3 was saved and is gone"):
        place.resume()

    assert place.resume(epoch=2).exit_code == 0
    assert place.outcome() == unbroken.outcome()


def test_row_50_a_torn_journal_is_noted_and_goes_on(place, unbroken):
    place.start(max_epochs=3)
    with (place.run.path / "committed.jsonl").open("ab") as file:
        file.write(b'{"epoch": 4, "ge')

    assert place.resume().exit_code == 0

    assert any("torn" in e.text for e in place.events if isinstance(e, Noted))
    assert place.outcome() == unbroken.outcome()


def test_row_50_a_journal_damaged_in_the_middle_needs_an_epoch(place, unbroken):
    place.start(max_epochs=3)
    journal = place.run.path / "committed.jsonl"
    journal.write_bytes(b"x" + journal.read_bytes())

    with pytest.raises(CheckpointError, match=r"line 1 of committed\.jsonl"):
        place.resume()

    assert place.resume(epoch=2).exit_code == 0
    assert place.outcome() == unbroken.outcome()
    assert (place.run.path / "superseded" / "committed.jsonl.1").exists()


def test_row_35_a_run_that_is_held_is_refused(place):
    place.start(max_epochs=1)

    with RunLock.acquire(place.run.path), pytest.raises(LockedError) as raised:
        place.resume()

    assert raised.value.exit_code == 6


def test_row_38_no_commit_after_the_lock_was_taken_away(place):
    def steal(event):
        if isinstance(event, CheckpointCommitted) and event.epoch == 1:
            (place.run.path / "run.lock").unlink()

    place.events = type("Stealing", (list,), {"append": lambda self, event: steal(event)})()

    with pytest.raises(EnvironmentFaultError, match="removed or replaced"):
        place.start()

    assert place.store.epochs() == (0, 1)


def test_row_46_stray_files_among_the_checkpoints_are_ignored(place, unbroken):
    place.start(max_epochs=2)
    for name in ("epoch-000002.bak", "epoch-3", ".epoch-000003.swp", "lost+found"):
        (place.run.path / "checkpoints" / name).mkdir()

    assert place.resume().exit_code == 0
    assert place.outcome() == unbroken.outcome()


def test_row_47_a_copied_run_goes_on_in_its_new_place(tmp_path, unbroken):
    place = Place(tmp_path / "here")
    place.start(max_epochs=2)
    shutil.copytree(tmp_path / "here", tmp_path / "there", symlinks=True)
    shutil.rmtree(tmp_path / "here")
    there = Place(tmp_path / "there")

    assert there.resume().exit_code == 0
    assert there.outcome() == unbroken.outcome()


def test_no_file_of_a_run_says_where_it_is(place):
    place.start()

    run = place.run.path
    for path in (RECORD_NAME, "committed.jsonl", "spec/resolved.yaml", "spec/plan.json"):
        assert str(place.folder) not in (run / path).read_text(), path


def test_a_resume_measures_nothing_twice(place):
    place.start()
    place.resume(epoch=1)

    lines = (place.run.path / "metrics.jsonl").read_text().splitlines()

    found = [(entry["event"], entry["epoch"]) for entry in map(json.loads, lines)]
    assert found == [("Measured", epoch) for epoch in (1, 2, 3, 4)]


def test_row_31_a_closed_terminal_ends_no_run(place):
    def closed(event):
        raise BrokenPipeError

    place.events = type("Closed", (list,), {"append": lambda self, event: closed(event)})()

    assert place.start().exit_code == 0
    assert (place.run.path / "events.jsonl").read_text().count("EpochEnded") == 4


# Drift.


def test_row_29_a_changed_spec_is_refused_field_by_field(place):
    place.start(max_epochs=1)
    place.edit(("v * 0.5", "v * 0.25"))

    with pytest.raises(DriftError) as raised:
        place.resume(place.load()[0])

    assert raised.value.exit_code == 5
    assert [fault.path for fault in raised.value.faults] == ["epoch[1].steps[0]"]
    assert "v * 0.25" in place.line(raised.value.faults[0])
    assert place.run.record.status == "stopped"


def test_a_safe_change_is_applied_told_and_recorded(place):
    place.start(max_epochs=1)
    place.edit(("epochs: 4", "epochs: 2"))

    assert place.resume(place.load()[0]).epoch == 2

    assert any("stop[0].epochs" in e.text for e in place.events if isinstance(e, Noted))
    assert "epochs: 2" in (place.run.path / "spec" / "resolved.yaml").read_text()
    assert "epochs: 4" in (place.run.path / "spec" / "resolved-1.yaml").read_text()
    place.events.clear()
    assert place.resume().epoch == 2


def test_accepted_drift_is_accepted_for_good(place):
    place.start(max_epochs=1)
    place.edit(("v * 0.5", "v * 0.25"))

    place.resume(place.load()[0], accept=("epoch[1]",), max_epochs=1)

    assert place.run.record.accepted == ("epoch[1]",)
    assert place.resume().exit_code == 0


def test_another_constant_is_refused_before_any_epoch(place):
    np.save(place.folder / "x.npy", np.arange(12.0))
    place.edit(('steps: ["X = arange(12.0) / 7"]', 'steps: [{load: {X: "x.npy"}}]'))
    place.start(max_epochs=1)
    np.save(place.folder / "x.npy", np.arange(12.0) + 1)

    with pytest.raises(DriftError, match=r"constants\.a\.X"):
        place.resume()

    assert place.store.epochs() == (0, 1)
    assert place.resume(accept=("constants.a.X",)).exit_code == 0


def test_another_callable_is_refused(place):
    (place.folder / "mine_drift.py").write_text("def half(v):\n    return v * 0.5\n")
    place.edit(
        (
            'steps: ["v = v * 0.5 + rng.normal(size=3)"]',
            'steps: [{call: "mine_drift:half", with: {v: v}, out: v}]',
        )
    )
    place.start(max_epochs=1)
    (place.folder / "mine_drift.py").write_text("def half(v):\n    return v / 2.0\n")

    with pytest.raises(DriftError, match=r"callables\.mine_drift:half"):
        place.resume()


def test_row_30_other_numerics_are_told_and_refused_only_when_strict(place):
    place.start(max_epochs=1)
    environment = {**place.run.record.environment, "numpy": "1.0"}
    place.run.write(environment=environment)

    with pytest.raises(DriftError, match=r"numerics\.numpy"):
        place.resume(strict=True)

    assert place.resume().exit_code == 0
    told = [e for e in place.events if isinstance(e, Noted) and "numerics.numpy" in e.text]
    assert told[0].level == "warning"


# Choosing a run, and asking one to stop.


def test_without_a_name_the_newest_unfinished_run_is_meant(place):
    place.start(max_epochs=1)
    unfinished = place.run
    place.start()

    assert choose_run("", place.run_dir).path == unfinished.path
    assert choose_run("walk", place.run_dir).path == place.run.path


def test_a_request_to_stop_that_came_after_the_end_does_not_stop_the_resumed_run(place):
    place.start(max_epochs=1)
    (place.run.path / REQUEST_NAME).touch()

    assert place.resume().exit_code == 0
    assert not (place.run.path / REQUEST_NAME).exists()


def test_row_32_the_spec_can_be_named_from_anywhere(place, monkeypatch, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    place.spec = Path(os.path.relpath(place.spec))

    place.start(max_epochs=1)
    monkeypatch.chdir("/")

    assert place.resume().exit_code == 0
    assert open_run(place.run.path).folder == place.folder


def corrupt(place, epoch):
    """Change one byte in the middle of a node's file."""
    path = Path(place.store.path(epoch), "a.h5")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_run_that_failed_before_it_saved_anything_does_not_stand_in_the_way(place):
    place.edit(('"loss = inf"', '"loss = inf", {assert: "k > 0"}'))
    with pytest.raises(TaskFailedError):
        place.policy("")
    place.edit()

    result = place.policy("")

    assert result.exit_code == 0
    assert len(place.runs) == 2


def test_a_run_that_failed_in_its_first_epoch_does_stand_in_the_way(place):
    place.edit(("      - k = k + 1", "      - assert: k > 9"))
    with pytest.raises(TaskFailedError):
        place.policy("")
    place.edit()

    with pytest.raises(UsageError, match="is unfinished"):
        place.policy("")


def disk(free_blocks):
    """What ``os.statvfs`` says of a disk with so much room, and files without number."""
    return SimpleNamespace(
        f_blocks=1 << 30,
        f_bfree=free_blocks,
        f_bavail=free_blocks,
        f_frsize=4096,
        f_files=0,
        f_favail=0,
    )


def test_row_43_a_disk_without_room_is_told_before_anything_is_computed(place, monkeypatch):
    full = disk(1)
    monkeypatch.setattr(os, "statvfs", lambda path: full)

    with pytest.raises(EnvironmentFaultError, match=r"needs .* and 4\.0 KiB are free"):
        place.start()

    assert not any(isinstance(event, GroupStarted) for event in place.events)


def test_row_43_the_room_is_looked_at_before_each_commit(place, unbroken, monkeypatch):
    plenty = disk(1 << 30)
    full = disk(1)

    def look(path):
        return full if (Path(path) / "epoch-000002").is_dir() else plenty

    monkeypatch.setattr(os, "statvfs", look)
    with pytest.raises(EnvironmentFaultError) as raised:
        place.start()
    monkeypatch.undo()

    assert raised.value.faults[0].code == "E381"
    assert place.store.epochs() == (0, 1, 2)
    assert place.resume().exit_code == 0
    assert place.outcome() == unbroken.outcome()


def test_a_module_that_a_callable_imports_is_drift_too(place):
    place.edit(("      - k = k + 1\n", '      - {call: "step:add", with: {k: k}, out: k}\n'))
    (place.folder / "step.py").write_text("from deep import one\ndef add(k):\n    return k + one\n")
    (place.folder / "deep.py").write_text("one = 1\n")
    place.start(max_epochs=2)
    (place.folder / "deep.py").write_text("one = 2\n")

    with pytest.raises(DriftError, match=r"callables\.deep: was sha256:"):
        place.resume()
