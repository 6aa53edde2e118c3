"""A run that has finished, and whose last state may not be readable any more."""

from __future__ import annotations

import shutil

import pytest

from jobrun.core.events import Noted
from jobrun.runner.resume.finished import find_newest_damage
from tests.support.resumable_job import Place


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path / "a")
    place.start()
    place.events.clear()
    return place


def spoil(place, epoch=4):
    path = place.run.path / "checkpoints" / f"epoch-{epoch:06d}" / "a.h5"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_a_sound_one_returns_at_once_and_says_nothing(place):
    assert place.resume().exit_code == 0
    assert place.events == []


def test_a_damaged_newest_checkpoint_is_told_with_the_way_to_make_it_again(place):
    spoil(place)

    result = place.resume()

    (said,) = place.events
    assert result.exit_code == 0
    assert isinstance(said, Noted)
    assert said.level == "warning"
    assert said.text.startswith(f"run {place.run.name}: its newest checkpoint, epoch 4, is damaged")
    assert "--epoch" in said.text


def test_a_newest_checkpoint_that_is_gone_is_told(place):
    shutil.rmtree(place.run.path / "checkpoints" / "epoch-000004")

    assert find_newest_damage(place.run) == ("epoch 4 was saved and is gone; there are epochs 0-3")


def test_older_damage_is_nobodys_concern(place):
    spoil(place, 2)

    assert find_newest_damage(place.run) == ""


def test_more_epochs_on_a_damaged_end_go_on_from_the_last_good_one(place):
    expected = place.state(4)
    spoil(place)

    place.edit(("epochs: 4", "epochs: 6"))
    assert place.policy("auto").exit_code == 0

    assert place.state(4) == expected
    # Said once, and not again in other words.
    assert [type(one).__name__ for one in place.events if "a.h5" in str(one)] == [
        "CheckpointSkipped"
    ]
    assert place.store.epochs() == (0, 1, 2, 3, 4, 5, 6)
