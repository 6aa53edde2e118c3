"""What a resume would meet; looking at it changes nothing."""

from __future__ import annotations

import pytest

from jobrun.runner.check_resume import preview_resume
from tests.support.resumable_job import Place


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path / "a")
    place.start(max_epochs=2)
    return place


def seen(place):
    return {
        str(path): path.stat().st_mtime_ns for path in place.run.path.rglob("*") if path.is_file()
    }


def test_the_epoch_and_what_drifted_are_found_and_nothing_is_changed(place):
    before = seen(place)
    place.edit(("seed: 5", "seed: 6"), ("epochs: 4", "epochs: 9"))

    found = preview_resume(place.run, *place.load(), place.options())

    assert found.plan.epoch == 2
    assert [(change.field, change.kind) for change in found.changes] == [
        ("seed", "semantic"),
        ("stop[0].epochs", "safe"),
    ]
    assert seen(place) == before


def test_where_nothing_was_saved_nothing_has_drifted(place):
    run = place.run.write(epoch=-1)
    (run.path / "committed.jsonl").unlink()
    (run.path / "checkpoints").rename(run.path / "elsewhere")
    place.edit(("seed: 5", "seed: 6"))

    found = preview_resume(run, *place.load(), place.options())

    assert (found.plan.epoch, found.changes) == (-1, ())
