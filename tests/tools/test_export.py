"""Blobs as files of other programs; each file is read back by the program it is for."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from jobrun.checkpoint.write.writer import write_state
from jobrun.cli.run_command import invoke
from jobrun.core.errors import CheckpointError, EnvironmentFaultError, UsageError
from jobrun.runner.rundir.run_directories import open_run
from jobrun.tools.checkpoint_maintenance import open_checkpoints
from jobrun.tools.diff import compare_stored
from jobrun.tools.export import copy_epoch, export
from jobrun.tools.inspection import inspect
from jobrun.tools.lazy_blobs import StoredEpoch, find_stored_epoch
from jobrun.tools.runs.metrics import read_metrics
from jobrun.values.kinds.counter import Counter
from tests.support.sample_runs import SPEC, make_run

VALUES = {
    "W": np.arange(6.0).reshape(2, 3),
    "b": np.array([1, 2], ">i4"),
    "flags": np.array([True, False]),
    "half": np.array([1.5], ml_dtypes.bfloat16),
    "n": Counter(3),
    "x": 2.5,
    "empty": np.zeros((0, 4), "f4"),
}


@pytest.fixture
def epoch(tmp_path):
    return stored(tmp_path, local=VALUES)


def stored(folder, **nodes):
    files = []
    for node, values in nodes.items():
        path = str(folder / f"{node}.h5")
        file = write_state(path, node=node, epoch=4, run_id="r", values=values)
        files.append((path, file.digest))
    return StoredEpoch(str(folder), 4, "r", tuple(files))


def same(actual, expected):
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    assert actual.tobytes() == expected.tobytes()


def names(path):
    with np.load(path) as arrays:
        return sorted(arrays)


def test_npz_holds_all_but_what_numpy_alone_cannot_read(epoch, tmp_path):
    done = export(epoch, "npz", tmp_path / "x.npz", force=False)

    with np.load(tmp_path / "x.npz") as arrays:
        assert sorted(arrays) == sorted(set(VALUES) - {"half"})
        same(arrays["W"], VALUES["W"])
        same(arrays["b"], VALUES["b"])
        assert (arrays["n"], arrays["x"]) == (3, 2.5)
    assert done.left_out == (("half", "npz has no bfloat16"),)


def test_safetensors_are_those_of_the_package(epoch, tmp_path):
    export(epoch, "safetensors", tmp_path / "x.safetensors", force=False)

    arrays = load_file(tmp_path / "x.safetensors")
    assert sorted(arrays) == sorted(VALUES)
    same(arrays["W"], VALUES["W"])
    same(arrays["b"], VALUES["b"].astype("<i4"))
    same(arrays["flags"], VALUES["flags"])
    same(arrays["half"], VALUES["half"])
    same(arrays["empty"], VALUES["empty"])
    same(arrays["n"], np.array(3))
    with safe_open(tmp_path / "x.safetensors", "numpy") as opened:
        assert opened.metadata() == {"run_id": "r", "epoch": "4"}


def test_a_table_has_one_blob(epoch, tmp_path):
    export(epoch, "csv", tmp_path / "w.csv", ["W"], force=False)
    export(epoch, "csv", tmp_path / "b.csv", ["b"], force=False)

    rows = list(csv.reader((tmp_path / "w.csv").read_text().splitlines()))
    assert rows == [["0.0", "1.0", "2.0"], ["3.0", "4.0", "5.0"]]
    assert (tmp_path / "b.csv").read_text() == "b\n1\n2\n"
    with pytest.raises(UsageError, match=r"E421.*one blob"):
        export(epoch, "csv", tmp_path / "y.csv", force=False)


@pytest.mark.parametrize(
    ("file_format", "pattern", "words"),
    [("csv", "x", r"a table cannot hold float64 of shape \(\)"), ("npz", "half", "bfloat16")],
)
def test_what_was_asked_for_and_cannot_be_held_is_refused(
    epoch, tmp_path, file_format, pattern, words
):
    with pytest.raises(UsageError, match=f"E421.*{words}"):
        export(epoch, file_format, tmp_path / "y", [pattern], force=False)
    assert not (tmp_path / "y").exists()


def test_blobs_of_several_nodes_are_named_with_their_node(tmp_path):
    epoch = stored(tmp_path, a={"w": 1.0}, b={"w": 2.0})

    export(epoch, "npz", tmp_path / "x.npz", force=False)
    export(epoch, "npz", tmp_path / "y.npz", ["b.*"], force=False)

    assert names(tmp_path / "x.npz") == ["a.w", "b.w"]
    assert names(tmp_path / "y.npz") == ["b.w"]


def test_an_unknown_name_is_reported_with_the_nearest(epoch, tmp_path):
    with pytest.raises(UsageError, match=r"E406.*'flag'.*flags"):
        export(epoch, "npz", tmp_path / "x.npz", ["W", "flag"], force=False)


def test_a_file_that_is_there_stays_unless_force_says_otherwise(epoch, tmp_path):
    path = tmp_path / "x.npz"
    path.write_text("mine")

    with pytest.raises(UsageError, match=r"E434.*--force"):
        export(epoch, "npz", path, force=False)
    assert path.read_text() == "mine"
    export(epoch, "npz", path, force=True)
    assert "W" in names(path)


def test_damage_leaves_nothing_behind(epoch, tmp_path):
    file = tmp_path / "local.h5"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)

    with pytest.raises(CheckpointError):
        export(epoch, "npz", tmp_path / "x.npz", force=False)
    assert [path.name for path in tmp_path.iterdir()] == ["local.h5"]


def test_damage_of_a_value_leaves_nothing_behind_and_the_old_file_alone(tmp_path):
    epoch = stored(tmp_path, local={"a": 1.0, "w": np.zeros(100_000)})
    file = tmp_path / "local.h5"
    data = bytearray(file.read_bytes())
    data[500_000] ^= 1
    file.write_bytes(data)
    (tmp_path / "x.npz").write_text("mine")

    with pytest.raises(CheckpointError):
        export(epoch, "npz", tmp_path / "x.npz", force=True)
    assert (tmp_path / "x.npz").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_missing_folder_is_reported(epoch):
    with pytest.raises(EnvironmentFaultError, match="E354"):
        export(epoch, "npz", Path("/nowhere/x.npz"), force=False)


@pytest.fixture
def checkpoints(tmp_path):
    make_run(tmp_path)
    return open_checkpoints("shrink", tmp_path / "runs")


def test_a_copy_is_resumed_to_the_same_end(checkpoints, tmp_path):
    target = tmp_path / "else" / "where" / "copy"

    copy_epoch(checkpoints, 2, target)

    assert open_run(target).record.epoch == 2
    usage = [line for line in (target / "usage.jsonl").read_text().splitlines() if line]
    assert usage
    assert all(json.loads(line)["epoch"] <= 2 for line in usage)
    assert inspect(str(target), tmp_path).epoch == 2
    assert invoke(["resume", str(target), "--quiet"]) == 0
    sides = [find_stored_epoch(f"{path}@4", tmp_path) for path in (target, checkpoints.run.path)]
    assert all(blob.apart.equal for blob in compare_stored(*sides))
    rows = read_metrics(target).rows
    assert [(epoch, values) for epoch, values in rows] == [
        (epoch, (8 / 2**epoch,)) for epoch in range(rows[0][0], 5)
    ]


def test_the_original_is_not_touched_and_nothing_else_is_near_the_copy(checkpoints, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    # A name that the sweep of a checkpoint directory would take for a leftover of its own.
    (folder / ".tmp-epoch-000001-1-00000000").write_text("keep me")
    before = {path: path.stat().st_mtime_ns for path in checkpoints.run.path.rglob("*")}

    copy_epoch(checkpoints, 2, folder / "copy")

    assert {path: path.stat().st_mtime_ns for path in checkpoints.run.path.rglob("*")} == before
    assert sorted(path.name for path in folder.iterdir()) == [
        ".tmp-epoch-000001-1-00000000",
        "copy",
    ]


def test_what_is_there_is_not_replaced(checkpoints, tmp_path):
    (tmp_path / "copy").mkdir()

    with pytest.raises(UsageError, match="E434"):
        copy_epoch(checkpoints, 2, tmp_path / "copy")


def test_a_damaged_epoch_is_not_copied_and_leaves_nothing(checkpoints, tmp_path):
    (file,) = (checkpoints.run.path / "checkpoints" / "epoch-000002").glob("*.h5")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    before = sorted(tmp_path.iterdir())

    with pytest.raises(CheckpointError, match="E407"):
        copy_epoch(checkpoints, 2, tmp_path / "copy")
    assert sorted(tmp_path.iterdir()) == before


def test_a_run_that_keeps_its_epochs_elsewhere_is_refused(tmp_path):
    spec = tmp_path / "far.yaml"
    text = SPEC.format(name="far", limit=0) + f"checkpoint: {{dir: '{tmp_path}/else'}}\n"
    spec.write_text(text)
    assert invoke(["run", str(spec), "--run-dir", str(tmp_path / "runs"), "--quiet"]) == 0

    with pytest.raises(UsageError, match=r"E421.*else.*fork"):
        copy_epoch(open_checkpoints("far", tmp_path / "runs"), 2, tmp_path / "copy")
