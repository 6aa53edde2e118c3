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
from jobrun.values.atomic_counter import Counter
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


def same(found, expected):
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()


def names(path):
    with np.load(path) as found:
        return sorted(found)


def test_npz_holds_all_but_what_numpy_alone_cannot_read(epoch, tmp_path):
    done = export(epoch, "npz", tmp_path / "x.npz", force=False)

    with np.load(tmp_path / "x.npz") as found:
        assert sorted(found) == sorted(set(VALUES) - {"half"})
        same(found["W"], VALUES["W"])
        same(found["b"], VALUES["b"])
        assert (found["n"], found["x"]) == (3, 2.5)
    assert done.left_out == (("half", "npz has no bfloat16"),)


def test_safetensors_are_those_of_the_package(epoch, tmp_path):
    export(epoch, "safetensors", tmp_path / "x.safetensors", force=False)

    found = load_file(tmp_path / "x.safetensors")
    assert sorted(found) == sorted(VALUES)
    same(found["W"], VALUES["W"])
    same(found["b"], VALUES["b"].astype("<i4"))
    same(found["flags"], VALUES["flags"])
    same(found["half"], VALUES["half"])
    same(found["empty"], VALUES["empty"])
    same(found["n"], np.array(3))
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
    ("form", "pattern", "words"),
    [("csv", "x", r"a table cannot hold float64 of shape \(\)"), ("npz", "half", "bfloat16")],
)
def test_what_was_asked_for_and_cannot_be_held_is_refused(epoch, tmp_path, form, pattern, words):
    with pytest.raises(UsageError, match=f"E421.*{words}"):
        export(epoch, form, tmp_path / "y", [pattern], force=False)
    assert not (tmp_path / "y").exists()


def test_blobs_of_several_nodes_are_told_apart(tmp_path):
    epoch = stored(tmp_path, a={"w": 1.0}, b={"w": 2.0})

    export(epoch, "npz", tmp_path / "x.npz", force=False)
    export(epoch, "npz", tmp_path / "y.npz", ["b.*"], force=False)

    assert names(tmp_path / "x.npz") == ["a.w", "b.w"]
    assert names(tmp_path / "y.npz") == ["b.w"]


def test_a_name_that_nothing_has_is_told_with_the_nearest(epoch, tmp_path):
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


def test_a_folder_that_is_not_there_is_told(epoch):
    with pytest.raises(EnvironmentFaultError, match="E354"):
        export(epoch, "npz", Path("/nowhere/x.npz"), force=False)


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
