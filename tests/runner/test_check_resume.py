"""What a resume would meet; looking at it changes nothing."""

from __future__ import annotations

import pytest

from jobrun.runner.check_resume import preview_resume
from tests.support.resumable_job import WalkJob


@pytest.fixture
def walk(tmp_path):
    walk = WalkJob(tmp_path / "a")
    walk.start(max_epochs=2)
    return walk


def seen(walk):
    return {
        str(path): path.stat().st_mtime_ns for path in walk.run.path.rglob("*") if path.is_file()
    }


def test_the_epoch_and_what_drifted_are_found_and_nothing_is_changed(walk):
    before = seen(walk)
    walk.edit(("seed: 5", "seed: 6"), ("epochs: 4", "epochs: 9"))

    preview = preview_resume(walk.run, *walk.load(), walk.options())

    assert preview.plan.epoch == 2
    assert [(change.field, change.kind) for change in preview.changes] == [
        ("seed", "semantic"),
        ("stop[0].epochs", "safe"),
    ]
    assert seen(walk) == before


def test_run_without_saves_has_no_drift(walk):
    run = walk.run.write(epoch=-1)
    (run.path / "committed.jsonl").unlink()
    (run.path / "checkpoints").rename(run.path / "elsewhere")
    walk.edit(("seed: 5", "seed: 6"))

    preview = preview_resume(run, *walk.load(), walk.options())

    assert (preview.plan.epoch, preview.changes) == (-1, ())
