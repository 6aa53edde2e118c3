"""Looking after a run's checkpoints: nothing goes that might still be needed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from jobrun.core.errors import CheckpointError, EnvironmentFaultError, LockedError, UsageError
from jobrun.runner.rundir.journal import PINS_NAME, read_pins
from jobrun.runner.rundir.lock import RunLock
from jobrun.tools.checkpoint_maintenance import (
    change_pins,
    chosen_epochs,
    open_checkpoints,
    plan_pruning,
    prune,
    verify,
)
from tests.support.resumable_job import WalkJob

EPOCHS = ("epochs: 4", "epochs: 12")


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    job = WalkJob(tmp_path_factory.mktemp("master"), EPOCHS)
    job.start()
    return job


@pytest.fixture
def checkpoints(master, tmp_path):
    shutil.copytree(master.folder, tmp_path / "copy", symlinks=True)
    return open_checkpoints("walk", tmp_path / "copy" / "runs")


def damage(checkpoints, epoch):
    manifest = checkpoints.store.manifest(epoch)
    path = Path(checkpoints.store.path(epoch), manifest.files[0].name)
    with path.open("r+b") as file:
        file.seek(5000)
        byte = file.read(1)
        file.seek(5000)
        file.write(bytes([byte[0] ^ 1]))


def test_epochs_are_chosen_by_number(checkpoints):
    assert chosen_epochs(checkpoints, "") == tuple(range(13))
    assert chosen_epochs(checkpoints, "latest") == (12,)
    assert chosen_epochs(checkpoints, "010") == (10,)
    assert chosen_epochs(checkpoints, "99", also={99}) == (99,)
    with pytest.raises(UsageError, match="'x' is not the number of an epoch"):
        chosen_epochs(checkpoints, "x")
    with pytest.raises(CheckpointError, match="has no epoch 99"):
        chosen_epochs(checkpoints, "99")


def test_damage_is_reported_epoch_by_epoch(checkpoints):
    damage(checkpoints, 3)
    reports = []

    (damaged,) = verify(
        checkpoints, (2, 3, 4), lambda epoch, damaged: reports.append((epoch, damaged is None))
    )

    assert damaged.epoch == 3
    assert reports == [(2, True), (3, False), (4, True)]


def test_a_spec_that_keeps_all_says_so(checkpoints):
    with pytest.raises(UsageError) as caught:
        plan_pruning(checkpoints)

    assert caught.value.faults[0].code == "E430"


def test_the_newest_stay_and_epoch_0_and_the_pinned_ones(checkpoints):
    change_pins(checkpoints, (2, 10), pin=True)

    planned = prune(checkpoints, 3)

    assert planned.doomed == (1, 3, 4, 5, 6, 7, 8, 9)
    assert checkpoints.store.epochs() == planned.retained == (0, 2, 10, 11, 12)
    assert planned.pinned == (2, 10)
    assert planned.size_bytes > 0


def test_a_plan_changes_nothing(checkpoints):
    before = checkpoints.store.epochs()

    assert plan_pruning(checkpoints, 2).doomed == tuple(range(1, 11))
    assert checkpoints.store.epochs() == before


def test_damaged_epochs_do_not_count_as_retained(checkpoints):
    damage(checkpoints, 12)
    damage(checkpoints, 10)

    planned = prune(checkpoints, 2)

    assert [damaged.epoch for damaged in planned.damaged] == [12, 10]
    assert checkpoints.store.epochs() == (0, 9, 10, 11, 12)


def test_a_run_that_lives_is_left_alone(checkpoints):
    with RunLock.acquire(checkpoints.run.path), pytest.raises(LockedError):
        prune(checkpoints, 2)

    assert len(checkpoints.store.epochs()) == 13


def test_nothing_goes_while_the_pins_cannot_be_read(checkpoints):
    (checkpoints.run.path / PINS_NAME).write_text("oops")

    with pytest.raises(EnvironmentFaultError):
        prune(checkpoints, 2)

    assert len(checkpoints.store.epochs()) == 13


def test_pins_are_put_and_taken_off(checkpoints):
    assert change_pins(checkpoints, (3,), pin=True) == {3}
    assert change_pins(checkpoints, (3, 4), pin=True) == {3, 4}
    assert change_pins(checkpoints, (3,), pin=False) == {4}
    assert read_pins(checkpoints.run.path) == {4}


def test_the_best_epochs_stay_by_the_metric_that_the_spec_names(tmp_path):
    keep = "checkpoint: {keep: {last: 12, best: {metric: loss, n: 1}}}\nstop:"
    job = WalkJob(tmp_path, EPOCHS, ("stop:", keep))
    job.start()
    checkpoints = open_checkpoints("walk", job.run_dir)
    ((best, _),) = _scores(checkpoints)

    planned = plan_pruning(checkpoints, 2)

    assert set(planned.retained) == {0, best, 11, 12}


def _scores(checkpoints):
    return checkpoints.store.manifest(12).runner["scores"]
