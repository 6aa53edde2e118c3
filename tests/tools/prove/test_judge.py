from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import jobrun
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.cli.run_command import invoke
from jobrun.runner.rundir.run_directories import Run, runs
from jobrun.tools.prove.judge import (
    EndedCopy,
    Exclusions,
    different_files,
    find_difference,
    find_lost_epochs,
    last_writer,
)

SPEC = """
jobrun: 1
name: grow
init:
  - {task: begin, steps: ["x = zeros((2, 3))", "n = 0"]}
epoch:
  - {task: step, steps: ["x[1, 2] += %s", "n = n + 1"]}
exit:
  - {task: out, steps: [{save: {x: "${run.dir}/artifacts/x.npy"}}]}
stop: [epochs: 3]
"""


def run_of(folder: Path, amount: str) -> Run:
    folder.mkdir(exist_ok=True)
    (folder / "grow.yaml").write_text(SPEC % amount)
    words = ["run", str(folder / "grow.yaml"), "--run-dir", str(folder / "runs"), "--quiet"]
    assert invoke(words) == 0
    return runs(folder / "runs")[-1]


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[EndedCopy, EndedCopy]:
    folder = tmp_path_factory.mktemp("pair")
    return EndedCopy(run_of(folder / "a", "1.0")), EndedCopy(run_of(folder / "b", "1.0"))


@pytest.fixture
def other(pair, tmp_path) -> Run:
    """A run that tests may damage."""
    copy = tmp_path / "runs" / "grow" / "copy"
    shutil.copytree(pair[1].run.path, copy)
    return runs(tmp_path / "runs")[-1]


def test_two_runs_of_one_spec_do_not_differ(pair):
    assert find_difference(*pair) is None
    assert different_files(*pair) == frozenset()


def test_the_first_epoch_blob_and_element_that_differ_are_reported(pair, tmp_path):
    difference = find_difference(pair[0], EndedCopy(run_of(tmp_path / "c", "2.0")))

    assert difference is not None
    assert (difference.epoch, difference.node, difference.blob, difference.element) == (
        1,
        "local",
        "x",
        (1, 2),
    )
    assert "2.0" in difference.words
    assert "1.0" in difference.words


def test_an_epoch_that_is_not_kept_is_a_difference(pair, other):
    shutil.rmtree(other.path / "checkpoints" / "epoch-000002")

    difference = find_difference(pair[0], EndedCopy(other))

    assert difference is not None
    assert difference.words == "it keeps epochs 0, 1, 3, not 0, 1, 2, 3"


def test_another_metric_in_the_manifest_is_a_difference(pair, tmp_path, monkeypatch):
    original = DirectoryStore.manifest

    def changed(store, epoch):
        manifest = original(store, epoch)
        if "/a/" not in store.path(epoch):
            manifest.runner["metrics"] = [["loss", 0.5]]
        return manifest

    monkeypatch.setattr(DirectoryStore, "manifest", changed)

    difference = find_difference(*pair)

    assert difference is not None
    assert difference.words.startswith("metrics: it is")


def test_an_artifact_with_other_bytes_is_a_difference_unless_it_does_not_count(pair, other):
    (other.path / "artifacts" / "x.npy").write_bytes(b"")

    difference = find_difference(pair[0], EndedCopy(other))

    assert difference is not None
    assert difference.words.startswith("the file artifacts/x.npy: its bytes differ from byte 0 on")
    changed = EndedCopy(other)
    assert find_difference(pair[0], changed, ignored=frozenset({"artifacts/x.npy"})) is None
    assert find_difference(pair[0], changed, exclusions=Exclusions(("artifacts/*",))) is None


TREE = """
jobrun: 1
name: tree
init:
  - {task: begin, steps: [{call: "tree:begin", out: state}]}
epoch:
  - {task: step, steps: ["y = 1", {run: "date +%s%N > $JOBRUN_STATE_DIR/time", state_dir: kept}]}
stop: [epochs: 2]
"""
BEGIN = """
import time
def begin():
    log = {str(time.time_ns()): 1, "t": (time.time(), 2)}
    return {"log": [log], "x": 1.0}
"""


def tree_run(folder: Path) -> EndedCopy:
    folder.mkdir()
    (folder / "tree.yaml").write_text(TREE)
    (folder / "tree.py").write_text(BEGIN)
    words = ["run", str(folder / "tree.yaml"), "--run-dir", str(folder / "runs"), "--quiet"]
    assert invoke(words) == 0
    return EndedCopy(runs(folder / "runs")[-1])


@pytest.mark.parametrize(
    ("patterns", "is_equal"),
    [
        (("state/log/0", "kept/time"), True),
        (("state/log/*", "state_dirs/kept/time"), True),
        (("local.state/log", "local.state_dirs/kept"), True),
        (("state", "kept"), True),
        (("stat*", "*time"), True),
        (("state/log/0/t", "kept/time"), False),
        (("state/x", "kept/time"), False),
        (("state/log/0", "kept/tim"), False),
        (("state/log/0",), False),
        (("kept/time",), False),
    ],
)
def test_a_blob_a_path_in_it_a_file_and_a_pattern_are_excluded(tree_pair, patterns, is_equal):
    difference = find_difference(*tree_pair, exclusions=Exclusions(patterns))

    assert (difference is None) is is_equal


@pytest.fixture(scope="module")
def tree_pair(tmp_path_factory) -> tuple[EndedCopy, EndedCopy]:
    folder = tmp_path_factory.mktemp("trees")
    return tree_run(folder / "a"), tree_run(folder / "b")


def test_what_an_exclusion_excludes_is_listed(tree_pair):
    exclusions = Exclusions(("state/log/0/t", "kept/*", "nothing"))

    excluded = exclusions.excluded(tree_pair[0].names())

    assert excluded == {
        "state/log/0/t": ["state/log/0/t/0", "state/log/0/t/1"],
        "kept/*": ["state_dirs/kept/time"],
        "nothing": [],
    }


def test_a_whole_run_has_lost_nothing(pair):
    assert find_lost_epochs(pair[0].run) == ""


def test_an_acknowledged_epoch_that_is_gone_is_lost(other):
    shutil.rmtree(other.path / "checkpoints" / "epoch-000003")

    assert find_lost_epochs(other).startswith("epoch 3 was acknowledged and cannot be used")


def test_an_acknowledged_epoch_that_is_damaged_is_lost(other):
    file = other.path / "checkpoints" / "epoch-000003" / "local.h5"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)

    assert find_lost_epochs(other).startswith("epoch 3 was acknowledged and cannot be used")


def test_an_older_epoch_that_retention_took_is_not_lost(other):
    shutil.rmtree(other.path / "checkpoints" / "epoch-000001")

    assert find_lost_epochs(other) == ""


def test_a_damaged_journal_is_a_loss(other):
    journal = other.path / "committed.jsonl"
    lines = journal.read_text().splitlines()
    lines[1] = json.dumps({"kind": "epoch"})
    journal.write_text("\n".join(lines) + "\n")

    assert "committed.jsonl is damaged" in find_lost_epochs(other)


NESTED = """
jobrun: 1
name: grow
init:
  - {task: begin, steps: ["x = zeros(3)", "c = counter(0)"]}
epoch:
  - task: step
    steps:
      - loop: 3
        steps: ["x += rng.random(3)", "count_up(c)"]
      - "y = sum(x)"
stop: [epochs: 3]
"""


@pytest.mark.parametrize(
    ("blob", "path"),
    [("x", "epoch/step/steps[0]/steps[0]"), ("c", "epoch/step/steps[0]/steps[1]"), ("z", "")],
)
def test_the_last_step_that_writes_a_blob_is_found(tmp_path, blob, path):
    spec = tmp_path / "grow.yaml"
    spec.write_text(NESTED)

    last_path = last_writer(jobrun.prepare(spec).job, "local", blob)

    assert last_path.replace(".steps[", "/steps[") == path
