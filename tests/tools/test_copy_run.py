"""An epoch as a run of its own elsewhere."""

from __future__ import annotations

import json

import pytest

from jobrun.cli.run_command import invoke
from jobrun.core.errors import CheckpointError, UsageError
from jobrun.runner.rundir.run_directories import open_run
from jobrun.tools.checkpoint_maintenance import open_checkpoints
from jobrun.tools.copy_run import copy_epoch
from jobrun.tools.diff import compare_stored
from jobrun.tools.inspection import inspect
from jobrun.tools.lazy_blobs import find_stored_epoch
from jobrun.tools.runs.metrics import read_metrics
from tests.support.sample_runs import SPEC, make_run


@pytest.fixture
def found(tmp_path):
    make_run(tmp_path)
    return open_checkpoints("shrink", tmp_path / "runs")


def test_a_copy_is_resumed_to_the_same_end(found, tmp_path):
    target = tmp_path / "else" / "where" / "copy"

    copy_epoch(found, 2, target)

    assert open_run(target).record.epoch == 2
    usage = [one for one in (target / "usage.jsonl").read_text().splitlines() if one]
    assert usage
    assert all(json.loads(one)["epoch"] <= 2 for one in usage)
    assert inspect(str(target), tmp_path).epoch == 2
    assert invoke(["resume", str(target), "--quiet"]) == 0
    sides = [find_stored_epoch(f"{path}@4", tmp_path) for path in (target, found.run.path)]
    assert all(blob.apart.equal for blob in compare_stored(*sides))
    found = read_metrics(target).rows
    assert [(epoch, values) for epoch, values in found] == [
        (epoch, (8 / 2**epoch,)) for epoch in range(found[0][0], 5)
    ]


def test_the_original_is_not_touched_and_nothing_else_is_near_the_copy(found, tmp_path):
    place = tmp_path / "mine"
    place.mkdir()
    # A name that the sweep of a checkpoint directory would take for a leftover of its own.
    (place / ".tmp-epoch-000001-1-00000000").write_text("keep me")
    before = {path: path.stat().st_mtime_ns for path in found.run.path.rglob("*")}

    copy_epoch(found, 2, place / "copy")

    assert {path: path.stat().st_mtime_ns for path in found.run.path.rglob("*")} == before
    assert sorted(path.name for path in place.iterdir()) == [
        ".tmp-epoch-000001-1-00000000",
        "copy",
    ]


def test_what_is_there_is_not_replaced(found, tmp_path):
    (tmp_path / "copy").mkdir()

    with pytest.raises(UsageError, match="E434"):
        copy_epoch(found, 2, tmp_path / "copy")


def test_a_damaged_epoch_is_not_copied_and_leaves_nothing(found, tmp_path):
    (file,) = (found.run.path / "checkpoints" / "epoch-000002").glob("*.h5")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    before = sorted(tmp_path.iterdir())

    with pytest.raises(CheckpointError, match="E407"):
        copy_epoch(found, 2, tmp_path / "copy")
    assert sorted(tmp_path.iterdir()) == before


def test_a_run_that_keeps_its_epochs_elsewhere_is_told_so(tmp_path):
    spec = tmp_path / "far.yaml"
    text = SPEC.format(name="far", limit=0) + f"checkpoint: {{dir: '{tmp_path}/else'}}\n"
    spec.write_text(text)
    assert invoke(["run", str(spec), "--run-dir", str(tmp_path / "runs"), "--quiet"]) == 0

    with pytest.raises(UsageError, match=r"E421.*else.*fork"):
        copy_epoch(open_checkpoints("far", tmp_path / "runs"), 2, tmp_path / "copy")
