"""A run that has finished, and whose last state may not be readable any more."""

from __future__ import annotations

import shutil

import pytest

from jobrun.core.events import Noted
from jobrun.runner.resume.finished import find_newest_damage
from tests.support.resumable_job import WalkJob


@pytest.fixture
def walk(tmp_path):
    walk = WalkJob(tmp_path / "a")
    walk.start()
    walk.events.clear()
    return walk


def spoil(walk, epoch=4):
    path = walk.run.path / "checkpoints" / f"epoch-{epoch:06d}" / "a.h5"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_sound_finished_run_returns_immediately_without_events(walk):
    assert walk.resume().exit_code == 0
    assert walk.events == []


def test_damaged_newest_checkpoint_warns_how_to_recompute_it(walk):
    spoil(walk)

    result = walk.resume()

    (warning,) = walk.events
    assert result.exit_code == 0
    assert isinstance(warning, Noted)
    assert warning.level == "warning"
    assert warning.text.startswith(
        f"run {walk.run.name}: its newest checkpoint, epoch 4, is damaged"
    )
    assert "--epoch" in warning.text


def test_missing_newest_checkpoint_is_reported(walk):
    shutil.rmtree(walk.run.path / "checkpoints" / "epoch-000004")

    assert find_newest_damage(walk.run) == ("epoch 4 was saved and is gone; there are epochs 0-3")


def test_damage_of_older_epochs_is_ignored(walk):
    spoil(walk, 2)

    assert find_newest_damage(walk.run) == ""


def test_extended_run_continues_from_the_last_good_epoch(walk):
    expected = walk.state(4)
    spoil(walk)

    walk.edit(("epochs: 4", "epochs: 6"))
    assert walk.policy("auto").exit_code == 0

    assert walk.state(4) == expected
    # Said once, and not again in other words.
    assert [type(event).__name__ for event in walk.events if "a.h5" in str(event)] == [
        "CheckpointSkipped"
    ]
    assert walk.store.epochs() == (0, 1, 2, 3, 4, 5, 6)
