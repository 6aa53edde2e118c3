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
    place = WalkJob(tmp_path_factory.mktemp("master"), EPOCHS)
    place.start()
    return place


@pytest.fixture
def found(master, tmp_path):
    shutil.copytree(master.folder, tmp_path / "copy", symlinks=True)
    return open_checkpoints("walk", tmp_path / "copy" / "runs")


def damage(found, epoch):
    manifest = found.store.manifest(epoch)
    path = Path(found.store.path(epoch), manifest.files[0].name)
    with path.open("r+b") as file:
        file.seek(5000)
        byte = file.read(1)
        file.seek(5000)
        file.write(bytes([byte[0] ^ 1]))


def test_epochs_are_chosen_by_number(found):
    assert chosen_epochs(found, "") == tuple(range(13))
    assert chosen_epochs(found, "latest") == (12,)
    assert chosen_epochs(found, "010") == (10,)
    assert chosen_epochs(found, "99", also={99}) == (99,)
    with pytest.raises(UsageError, match="'x' is not the number of an epoch"):
        chosen_epochs(found, "x")
    with pytest.raises(CheckpointError, match="has no epoch 99"):
        chosen_epochs(found, "99")


def test_damage_is_told_epoch_by_epoch(found):
    damage(found, 3)
    told = []

    (one,) = verify(found, (2, 3, 4), lambda epoch, what: told.append((epoch, what is None)))

    assert one.epoch == 3
    assert told == [(2, True), (3, False), (4, True)]


def test_a_spec_that_keeps_all_says_so(found):
    with pytest.raises(UsageError) as caught:
        plan_pruning(found)

    assert caught.value.faults[0].code == "E430"


def test_the_newest_stay_and_epoch_0_and_the_pinned_ones(found):
    change_pins(found, (2, 10), pin=True)

    planned = prune(found, 3)

    assert planned.doomed == (1, 3, 4, 5, 6, 7, 8, 9)
    assert found.store.epochs() == planned.retained == (0, 2, 10, 11, 12)
    assert planned.pinned == (2, 10)
    assert planned.size_bytes > 0


def test_a_plan_changes_nothing(found):
    before = found.store.epochs()

    assert plan_pruning(found, 2).doomed == tuple(range(1, 11))
    assert found.store.epochs() == before


def test_damaged_epochs_stand_for_none_of_those_that_stay(found):
    damage(found, 12)
    damage(found, 10)

    planned = prune(found, 2)

    assert [one.epoch for one in planned.damaged] == [12, 10]
    assert found.store.epochs() == (0, 9, 10, 11, 12)


def test_a_run_that_lives_is_left_alone(found):
    with RunLock.acquire(found.run.path), pytest.raises(LockedError):
        prune(found, 2)

    assert len(found.store.epochs()) == 13


def test_nothing_goes_while_the_pins_cannot_be_read(found):
    (found.run.path / PINS_NAME).write_text("oops")

    with pytest.raises(EnvironmentFaultError):
        prune(found, 2)

    assert len(found.store.epochs()) == 13


def test_pins_are_put_and_taken_off(found):
    assert change_pins(found, (3,), pin=True) == {3}
    assert change_pins(found, (3, 4), pin=True) == {3, 4}
    assert change_pins(found, (3,), pin=False) == {4}
    assert read_pins(found.run.path) == {4}


def test_the_best_epochs_stay_by_the_metric_that_the_spec_names(tmp_path):
    keep = "checkpoint: {keep: {last: 12, best: {metric: loss, n: 1}}}\nstop:"
    place = WalkJob(tmp_path, EPOCHS, ("stop:", keep))
    place.start()
    found = open_checkpoints("walk", place.run_dir)
    ((best, _),) = _scores(found)

    planned = plan_pruning(found, 2)

    assert set(planned.retained) == {0, best, 11, 12}


def _scores(found):
    return found.store.manifest(12).runner["scores"]
