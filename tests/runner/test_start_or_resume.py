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
from tests.support.resumable_job import WalkJob

FAILING = ("      - k = k + 1\n", "      - k = k + 1\n      - {assert: k < 3}\n")


@pytest.fixture
def walk(tmp_path):
    return WalkJob(tmp_path)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    walk = WalkJob(tmp_path_factory.mktemp("unbroken"))
    walk.start()
    return walk


def groups(walk):
    return [(e.group, e.epoch) for e in walk.events if isinstance(e, GroupStarted)]


# How a run ends, row by row.


def test_an_item_of_stop_ends_with_0_and_everything_was_run(walk):
    result = walk.start()

    assert (result.exit_code, result.epoch, result.reason) == (0, 4, "4 epochs have run")
    assert groups(walk) == [("init", 0)] + [("epoch", n) for n in range(1, 5)] + [("exit", 4)]
    assert walk.store.epochs() == (0, 1, 2, 3, 4)
    assert (walk.run.record.status, walk.run.record.exit_code) == ("finished", 0)
    assert [type(walk.events[0]), type(walk.events[-1])] == [RunStarted, RunEnded]
    assert np.load(walk.run.path / "artifacts" / "w.npy").shape == (12,)


def test_an_expectation_that_does_not_hold_ends_with_9_also_later(walk):
    walk.edit(("stop:", "expect: [loss < 0, k == 4]\nstop:"))

    result = walk.start()

    assert result.exit_code == 9
    assert [fault.message for fault in result.faults] == ["'loss < 0' does not hold"]
    assert walk.line(result.faults[0]) == "expect: [loss < 0, k == 4]"
    assert walk.resume().exit_code == 9
    assert walk.policy("auto").exit_code == 9


def test_finished_run_returns_immediately_and_writes_nothing(walk):
    walk.start()
    before = sorted((p, p.stat().st_mtime_ns) for p in walk.run.path.rglob("*"))
    walk.events.clear()

    result = walk.resume()

    assert (result.exit_code, result.epoch) == (0, 4)
    assert walk.events == []
    assert sorted((p, p.stat().st_mtime_ns) for p in walk.run.path.rglob("*")) == before


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
def test_finished_run_continues_from_the_epoch_that_a_handler_names(walk, unbroken, named, ran):
    walk.start()
    walk.events.clear()

    result = walk.resume(metadata=Chooser(named))

    assert (result.exit_code, result.epoch) == (0, 4)
    assert [group for group, _ in groups(walk)].count("epoch") == ran
    assert walk.store.epochs() == (0, 1, 2, 3, 4)
    assert walk.state(4) == unbroken.state(4)


def test_finished_run_with_a_raised_limit_continues_to_the_total(walk, unbroken, tmp_path):
    walk.edit(("epochs: 4", "epochs: 2"))
    walk.start()
    walk.edit()

    result = walk.resume(walk.load()[0])

    assert (result.exit_code, result.epoch) == (0, 4)
    assert walk.outcome() == unbroken.outcome()


def test_killed_between_the_last_commit_and_the_end_of_exit_runs_exit_again_and_no_epoch(
    walk, unbroken
):
    assert walk.process("never", crash="runner.exit-ended").returncode == -9
    assert walk.run.record.status == "running"

    result = walk.resume()

    assert (result.exit_code, result.epoch) == (0, 4)
    assert groups(walk) == [("init", 0), ("exit", 4)]
    assert walk.outcome() == unbroken.outcome()


def test_a_failure_in_exit_keeps_the_last_commit(walk):
    walk.edit(("      - best =", "      - {assert: k < 0}\n      - best ="))
    with pytest.raises(TaskFailedError):
        walk.start()
    assert walk.store.epochs()[-1] == 4
    assert (walk.run.record.status, walk.run.record.exit_code) == ("failed", 1)
    walk.edit()

    result = walk.resume(walk.load()[0], accept=("exit",))

    assert result.exit_code == 0
    assert groups(walk)[-2:] == [("init", 0), ("exit", 4)]


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
def test_fixing_groups_after_the_last_epoch_is_no_drift(walk, unbroken, name, stopped):
    walk.edit(MENDS[name])
    limits = {"max_epochs": 2} if stopped else {}
    try:
        code = walk.policy("auto", **limits).exit_code
    except TaskFailedError as error:
        code = error.exit_code
    assert code == (75 if stopped else CONTINUED[name])
    walk.edit()
    walk.events.clear()

    result = walk.policy("auto", strict=True)

    assert (result.exit_code, result.epoch, len(walk.runs)) == (0, 4, 1)
    ran = [group for group, _ in groups(walk)]
    assert (ran.count("epoch"), ran.count("exit")) == (2 if stopped else 0, 1)
    assert walk.outcome() == unbroken.outcome()
    assert walk.policy("auto", strict=True).exit_code == 0


@pytest.mark.parametrize(
    "edit",
    [
        ("stop:", "notify: [{on: [failed], run: ['true']}]\nstop:"),
        ("{loss: loss}", "{loss: loss, k: k}"),
    ],
)
def test_fixing_notifications_or_metrics_reruns_nothing(walk, edit):
    walk.start()
    walk.edit(edit)
    walk.events.clear()

    assert walk.policy("auto", strict=True).exit_code == 0
    assert [group for group, _ in groups(walk)] == ["init"]


def test_code_called_only_by_exit_may_be_fixed(walk):
    walk.edit(("      - best =", '      - {call: "report:write", with: {k: k}}\n      - best ='))
    (walk.folder / "report.py").write_text("import helper\ndef write(k):\n    helper.check(k)\n")
    (walk.folder / "helper.py").write_text("def check(k):\n    assert k < 0\n")
    assert walk.process("auto").returncode == 1
    (walk.folder / "helper.py").write_text("def check(k):\n    pass\n")

    done = walk.process("auto")

    assert (done.returncode, walk.run.record.status, len(walk.runs)) == (0, "finished", 1)


def test_code_that_exit_and_epochs_call_is_drift(walk):
    call = '      - {call: "step:add", with: {k: k}, out: %s}\n'
    walk.edit(
        ("      - k = k + 1\n", call % "k"), ("      - best =", f"{call % 'q'}      - best =")
    )
    (walk.folder / "step.py").write_text("def add(k):\n    return k + 1\n")
    walk.start(max_epochs=2)
    (walk.folder / "step.py").write_text("def add(k):\n    return k + 2\n")

    with pytest.raises(DriftError, match=r"callables\.step:add"):
        walk.resume()


def test_max_epochs_stops_with_75_and_runs_no_exit(walk, unbroken):
    result = walk.start(max_epochs=3)

    assert (result.exit_code, result.epoch) == (75, 3)
    assert walk.run.record.status == "stopped"
    assert ("exit", 3) not in groups(walk)
    assert f"jobrun resume {os.path.relpath(walk.run.path)}" in result.faults[0].mend
    assert walk.resume(max_epochs=1).exit_code == 0
    assert walk.outcome() == unbroken.outcome()


def test_max_epochs_is_of_each_invocation(walk):
    assert walk.start(max_epochs=1).epoch == 1
    assert walk.resume(max_epochs=2).epoch == 3
    assert walk.resume(max_epochs=2).exit_code == 0


def test_epochs_option_is_a_total_for_the_run_and_ends_with_0(walk, unbroken):
    assert walk.start(epochs=2, max_epochs=1).exit_code == 75

    assert (walk.resume().exit_code, walk.run.record.epoch) == (0, 2)
    assert walk.resume().exit_code == 0
    assert walk.resume(epochs=9).epoch == 4
    assert walk.outcome() == unbroken.outcome()


def test_a_time_limit_that_is_over_stops_with_75(walk):
    walk.edit(("epochs: 4", "endless: true"), ("k = k + 1", "k = k + 1"))

    result = walk.start(time_s=0.3)

    assert result.exit_code == 75
    assert result.epoch >= 0
    assert "time limit" in result.reason


def test_a_step_that_fails_ends_with_1_and_drops_the_epoch(walk, unbroken):
    walk.edit(FAILING)
    with pytest.raises(TaskFailedError) as raised:
        walk.start()

    assert raised.value.exit_code == 1
    assert walk.store.epochs() == (0, 1, 2)
    assert (walk.run.record.status, walk.run.record.epoch) == ("failed", 2)
    assert isinstance(walk.events[-1], RunEnded)
    assert walk.events[-1].outcome == "failed"
    walk.edit()
    assert walk.resume(walk.load()[0], accept=("epoch",)).exit_code == 0
    assert walk.outcome() == unbroken.outcome()


def test_fail_if_ends_with_1_before_the_save(walk):
    walk.edit(("stop:", "fail_if: [k == 3]\nstop:"))

    with pytest.raises(TaskFailedError, match="'k == 3' holds"):
        walk.start()

    assert walk.store.epochs() == (0, 1, 2)


def test_a_missing_file_ends_with_7_before_a_run_is_made(walk):
    walk.edit(('steps: ["X = arange(12.0) / 7"]', 'steps: [{load: {X: "x.npy"}}]'))

    with pytest.raises(EnvironmentFaultError) as raised:
        walk.start()

    assert raised.value.exit_code == 7
    assert "x.npy" in walk.line(raised.value.faults[0])
    assert walk.runs == ()


# Starting.


def test_an_interpreter_without_its_lock_is_refused_before_a_run_is_made_and_at_a_resume(
    walk, monkeypatch
):
    walk.start(max_epochs=1)
    monkeypatch.setattr("sys._is_gil_enabled", lambda: False, raising=False)

    for act in (walk.start, walk.resume):
        with pytest.raises(EnvironmentFaultError) as caught:
            act()
        assert caught.value.faults[0].code == "E399"
        assert "PYTHON_GIL=1" in caught.value.faults[0].mend
    assert len(walk.runs) == 1


def test_row_28_run_refuses_an_unfinished_newest_run_and_suggests_both_commands(walk):
    walk.start(max_epochs=1)

    with pytest.raises(UsageError, match="is unfinished") as raised:
        walk.policy("")

    assert raised.value.exit_code == 2
    mend = raised.value.faults[0].mend
    assert f"jobrun resume {os.path.relpath(walk.run.path)}" in mend
    assert "--resume never" in mend
    assert len(walk.runs) == 1


def test_run_starts_a_new_run_after_a_finished_one(walk):
    walk.start()

    assert walk.policy("").exit_code == 0
    assert len(walk.runs) == 2


def test_auto_starts_resumes_and_returns(walk):
    assert walk.policy("auto", max_epochs=2).exit_code == 75
    assert walk.policy("auto", max_epochs=1).exit_code == 75
    assert walk.policy("auto").exit_code == 0
    walk.events.clear()
    assert walk.policy("auto").exit_code == 0
    assert (len(walk.runs), walk.events) == (1, [])


def test_auto_with_the_same_epochs_returns_immediately(walk):
    walk.policy("auto", epochs=2)
    walk.events.clear()

    assert walk.policy("auto", epochs=2).epoch == 2
    assert walk.events == []


@pytest.mark.parametrize("target", ["away", "runs/other/away", "in place"])
def test_auto_warns_that_the_newest_run_was_moved_away(walk, target):
    walk.start(max_epochs=1)
    job = walk.run.path.parent
    name = walk.run.path.name
    moved = job / "renamed" if target == "in place" else walk.folder / target
    moved.parent.mkdir(exist_ok=True)
    walk.run.path.rename(moved)
    walk.events.clear()
    walk.policy("auto", max_epochs=1)

    texts = [event.text for event in walk.events if isinstance(event, Noted) and name in event.text]
    if target == "in place":
        assert texts == []
        assert [run.path for run in runs(job.parent, job.name)] == [moved]
        return
    assert len(texts) == 1
    assert "was moved or removed" in texts[0]
    assert texts[0].endswith("jobrun resume PATH" if target == "away" else target)


def test_must_needs_a_run(walk):
    with pytest.raises(CheckpointError, match="there is no run of walk") as raised:
        walk.policy("must")

    assert raised.value.exit_code == 4
    walk.start(max_epochs=1)
    assert walk.policy("must").exit_code == 0


def test_never_always_starts(walk):
    walk.start(max_epochs=1)

    assert walk.policy("never").exit_code == 0
    assert len(walk.runs) == 2


@pytest.mark.parametrize("point", ["runner.directory-made", "runner.spec-written"])
def test_kill_before_run_json_leaves_no_run(walk, point):
    assert walk.process("auto", crash=point).returncode == -9

    assert walk.runs == ()
    assert walk.policy("").exit_code == 0


@pytest.mark.parametrize(
    "point", ["runner.run-made", "runner.init-ended", "checkpoint.stage-synced"]
)
def test_r82_auto_continues_a_run_killed_before_its_first_commit(walk, unbroken, point):
    assert walk.process("auto", crash=point).returncode == -9
    assert walk.store.epochs() == ()

    assert walk.policy("auto").exit_code == 0

    assert len(walk.runs) == 1
    assert walk.outcome() == unbroken.outcome()


def test_run_without_checkpoints_warns_and_blocks_no_later_run(walk):
    walk.edit(("stop:", "checkpoint: none\nstop:"))

    assert walk.start(max_epochs=2).exit_code == 75

    assert any("cannot be resumed" in e.text for e in walk.events if isinstance(e, Noted))
    assert walk.store.epochs() == ()
    with pytest.raises(CheckpointError, match="kept no checkpoints"):
        walk.resume()
    assert walk.policy("auto").exit_code == 0
    assert walk.run.record.epoch == 4


# Resuming.


@pytest.mark.parametrize("epoch", range(4))
def test_resuming_from_every_epoch_gives_the_unbroken_run(walk, unbroken, epoch):
    walk.start()

    result = walk.resume(epoch=epoch)

    assert result.exit_code == 0
    assert walk.outcome() == unbroken.outcome()
    assert walk.run.record.generation == 1
    moved = walk.run.path / "superseded" / "g0"
    assert len(list(moved.iterdir())) == 4 - epoch


def test_two_rewinds_do_not_mix_generations(walk, unbroken):
    walk.start()
    walk.resume(epoch=2, max_epochs=1)
    walk.resume(epoch=1)

    assert walk.outcome() == unbroken.outcome()
    assert walk.store.manifest(1).generation == 0
    assert walk.store.manifest(3).generation == 2


def test_row_26_an_epoch_that_is_not_there_lists_those_that_are(walk):
    walk.start(max_epochs=2)

    with pytest.raises(CheckpointError, match=r"epoch 99 is not there.*epochs 0-2") as raised:
        walk.resume(epoch=99)

    assert raised.value.exit_code == 4
    assert walk.store.epochs() == (0, 1, 2)


def test_row_64_damaged_newest_epoch_falls_back_with_a_note(walk, unbroken):
    walk.start(max_epochs=3)
    corrupt(walk, 3)
    walk.events.clear()

    assert walk.resume().exit_code == 0

    skipped = [e for e in walk.events if isinstance(e, CheckpointSkipped)]
    assert [e.epoch for e in skipped] == [3]
    assert any("continuing from epoch 2" in e.text for e in walk.events if isinstance(e, Noted))
    assert len(list((walk.run.path / "superseded" / "damaged").iterdir())) == 1
    assert walk.outcome() == unbroken.outcome()


def test_row_63_all_damaged_is_refused_and_nothing_is_moved(walk):
    walk.start(max_epochs=1)
    corrupt(walk, 0)
    corrupt(walk, 1)

    with pytest.raises(CheckpointError, match=r"epoch 1: .*; epoch 0: ") as raised:
        walk.resume()

    assert raised.value.exit_code == 4
    assert walk.store.epochs() == (0, 1)


def test_row_65_missing_saved_epoch_is_refused_unless_an_epoch_is_named(walk, unbroken):
    walk.start(max_epochs=3)
    shutil.rmtree(walk.store.path(3))

    with pytest.raises(CheckpointError, match="epoch 3 was saved and is gone"):
        walk.resume()

    assert walk.resume(epoch=2).exit_code == 0
    assert walk.outcome() == unbroken.outcome()


def test_row_50_torn_journal_is_noted_and_the_run_continues(walk, unbroken):
    walk.start(max_epochs=3)
    with (walk.run.path / "committed.jsonl").open("ab") as file:
        file.write(b'{"epoch": 4, "ge')

    assert walk.resume().exit_code == 0

    assert any("torn" in e.text for e in walk.events if isinstance(e, Noted))
    assert walk.outcome() == unbroken.outcome()


def test_row_50_a_journal_damaged_in_the_middle_needs_an_epoch(walk, unbroken):
    walk.start(max_epochs=3)
    journal = walk.run.path / "committed.jsonl"
    journal.write_bytes(b"x" + journal.read_bytes())

    with pytest.raises(CheckpointError, match=r"line 1 of committed\.jsonl"):
        walk.resume()

    assert walk.resume(epoch=2).exit_code == 0
    assert walk.outcome() == unbroken.outcome()
    assert (walk.run.path / "superseded" / "committed.jsonl.1").exists()


def test_row_35_a_run_that_is_held_is_refused(walk):
    walk.start(max_epochs=1)

    with RunLock.acquire(walk.run.path), pytest.raises(LockedError) as raised:
        walk.resume()

    assert raised.value.exit_code == 6


def test_row_38_no_commit_after_the_lock_was_taken_away(walk):
    def steal(event):
        if isinstance(event, CheckpointCommitted) and event.epoch == 1:
            (walk.run.path / "run.lock").unlink()

    walk.events = type("Stealing", (list,), {"append": lambda self, event: steal(event)})()

    with pytest.raises(EnvironmentFaultError, match="removed or replaced"):
        walk.start()

    assert walk.store.epochs() == (0, 1)


def test_row_46_stray_files_among_the_checkpoints_are_ignored(walk, unbroken):
    walk.start(max_epochs=2)
    for name in ("epoch-000002.bak", "epoch-3", ".epoch-000003.swp", "lost+found"):
        (walk.run.path / "checkpoints" / name).mkdir()

    assert walk.resume().exit_code == 0
    assert walk.outcome() == unbroken.outcome()


def test_row_47_copied_run_continues_in_its_new_directory(tmp_path, unbroken):
    walk = WalkJob(tmp_path / "here")
    walk.start(max_epochs=2)
    shutil.copytree(tmp_path / "here", tmp_path / "there", symlinks=True)
    shutil.rmtree(tmp_path / "here")
    there = WalkJob(tmp_path / "there")

    assert there.resume().exit_code == 0
    assert there.outcome() == unbroken.outcome()


def test_no_file_of_a_run_contains_its_absolute_path(walk):
    walk.start()

    run = walk.run.path
    for path in (RECORD_NAME, "committed.jsonl", "spec/resolved.yaml", "spec/plan.json"):
        assert str(walk.folder) not in (run / path).read_text(), path


def test_a_resume_measures_nothing_twice(walk):
    walk.start()
    walk.resume(epoch=1)

    lines = (walk.run.path / "metrics.jsonl").read_text().splitlines()

    measured = [(entry["event"], entry["epoch"]) for entry in map(json.loads, lines)]
    assert measured == [("Measured", epoch) for epoch in (1, 2, 3, 4)]


def test_row_31_a_closed_terminal_ends_no_run(walk):
    def closed(event):
        raise BrokenPipeError

    walk.events = type("Closed", (list,), {"append": lambda self, event: closed(event)})()

    assert walk.start().exit_code == 0
    assert (walk.run.path / "events.jsonl").read_text().count("EpochEnded") == 4


# Drift.


def test_row_29_a_changed_spec_is_refused_field_by_field(walk):
    walk.start(max_epochs=1)
    walk.edit(("v * 0.5", "v * 0.25"))

    with pytest.raises(DriftError) as raised:
        walk.resume(walk.load()[0])

    assert raised.value.exit_code == 5
    assert [fault.path for fault in raised.value.faults] == ["epoch[1].steps[0]"]
    assert "v * 0.25" in walk.line(raised.value.faults[0])
    assert walk.run.record.status == "stopped"


def test_safe_change_is_applied_noted_and_recorded(walk):
    walk.start(max_epochs=1)
    walk.edit(("epochs: 4", "epochs: 2"))

    assert walk.resume(walk.load()[0]).epoch == 2

    assert any("stop[0].epochs" in e.text for e in walk.events if isinstance(e, Noted))
    assert "epochs: 2" in (walk.run.path / "spec" / "resolved.yaml").read_text()
    assert "epochs: 4" in (walk.run.path / "spec" / "resolved-1.yaml").read_text()
    walk.events.clear()
    assert walk.resume().epoch == 2


def test_accepted_drift_stays_accepted(walk):
    walk.start(max_epochs=1)
    walk.edit(("v * 0.5", "v * 0.25"))

    walk.resume(walk.load()[0], accept=("epoch[1]",), max_epochs=1)

    assert walk.run.record.accepted == ("epoch[1]",)
    assert walk.resume().exit_code == 0


def test_another_constant_is_refused_before_any_epoch(walk):
    np.save(walk.folder / "x.npy", np.arange(12.0))
    walk.edit(('steps: ["X = arange(12.0) / 7"]', 'steps: [{load: {X: "x.npy"}}]'))
    walk.start(max_epochs=1)
    np.save(walk.folder / "x.npy", np.arange(12.0) + 1)

    with pytest.raises(DriftError, match=r"constants\.a\.X"):
        walk.resume()

    assert walk.store.epochs() == (0, 1)
    assert walk.resume(accept=("constants.a.X",)).exit_code == 0


def test_another_callable_is_refused(walk):
    (walk.folder / "mine_drift.py").write_text("def half(v):\n    return v * 0.5\n")
    walk.edit(
        (
            'steps: ["v = v * 0.5 + rng.normal(size=3)"]',
            'steps: [{call: "mine_drift:half", with: {v: v}, out: v}]',
        )
    )
    walk.start(max_epochs=1)
    (walk.folder / "mine_drift.py").write_text("def half(v):\n    return v / 2.0\n")

    with pytest.raises(DriftError, match=r"callables\.mine_drift:half"):
        walk.resume()


def test_row_30_other_numerics_warn_and_are_refused_only_when_strict(walk):
    walk.start(max_epochs=1)
    environment = {**walk.run.record.environment, "numpy": "1.0"}
    walk.run.write(environment=environment)

    with pytest.raises(DriftError, match=r"numerics\.numpy"):
        walk.resume(strict=True)

    assert walk.resume().exit_code == 0
    warnings = [e for e in walk.events if isinstance(e, Noted) and "numerics.numpy" in e.text]
    assert warnings[0].level == "warning"


# Choosing a run, and asking one to stop.


def test_without_a_name_the_newest_unfinished_run_is_chosen(walk):
    walk.start(max_epochs=1)
    unfinished = walk.run
    walk.start()

    assert choose_run("", walk.run_dir).path == unfinished.path
    assert choose_run("walk", walk.run_dir).path == walk.run.path


def test_a_request_to_stop_that_came_after_the_end_does_not_stop_the_resumed_run(walk):
    walk.start(max_epochs=1)
    (walk.run.path / REQUEST_NAME).touch()

    assert walk.resume().exit_code == 0
    assert not (walk.run.path / REQUEST_NAME).exists()


def test_row_32_the_spec_can_be_named_from_anywhere(walk, monkeypatch, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    walk.spec = Path(os.path.relpath(walk.spec))

    walk.start(max_epochs=1)
    monkeypatch.chdir("/")

    assert walk.resume().exit_code == 0
    assert open_run(walk.run.path).folder == walk.folder


def corrupt(walk, epoch):
    """Change one byte in the middle of a node's file."""
    path = Path(walk.store.path(epoch), "a.h5")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_run_that_failed_without_saves_does_not_block_a_new_run(walk):
    walk.edit(('"loss = inf"', '"loss = inf", {assert: "k > 0"}'))
    with pytest.raises(TaskFailedError):
        walk.policy("")
    walk.edit()

    result = walk.policy("")

    assert result.exit_code == 0
    assert len(walk.runs) == 2


def test_run_that_failed_in_its_first_epoch_blocks_a_new_run(walk):
    walk.edit(("      - k = k + 1", "      - assert: k > 9"))
    with pytest.raises(TaskFailedError):
        walk.policy("")
    walk.edit()

    with pytest.raises(UsageError, match="is unfinished"):
        walk.policy("")


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


def test_row_43_full_disk_is_refused_before_anything_is_computed(walk, monkeypatch):
    full = disk(1)
    monkeypatch.setattr(os, "statvfs", lambda path: full)

    with pytest.raises(EnvironmentFaultError, match=r"needs .* and 4\.0 KiB are free"):
        walk.start()

    assert not any(isinstance(event, GroupStarted) for event in walk.events)


def test_row_43_the_room_is_looked_at_before_each_commit(walk, unbroken, monkeypatch):
    plenty = disk(1 << 30)
    full = disk(1)

    def look(path):
        return full if (Path(path) / "epoch-000002").is_dir() else plenty

    monkeypatch.setattr(os, "statvfs", look)
    with pytest.raises(EnvironmentFaultError) as raised:
        walk.start()
    monkeypatch.undo()

    assert raised.value.faults[0].code == "E381"
    assert walk.store.epochs() == (0, 1, 2)
    assert walk.resume().exit_code == 0
    assert walk.outcome() == unbroken.outcome()


def test_a_module_that_a_callable_imports_is_drift_too(walk):
    walk.edit(("      - k = k + 1\n", '      - {call: "step:add", with: {k: k}, out: k}\n'))
    (walk.folder / "step.py").write_text("from deep import one\ndef add(k):\n    return k + one\n")
    (walk.folder / "deep.py").write_text("one = 1\n")
    walk.start(max_epochs=2)
    (walk.folder / "deep.py").write_text("one = 2\n")

    with pytest.raises(DriftError, match=r"callables\.deep: was sha256:"):
        walk.resume()
