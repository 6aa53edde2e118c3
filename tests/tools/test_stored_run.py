from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jobrun
from jobrun.core.errors import CheckpointError, JobrunError, UsageError
from jobrun.tools.runs.metrics import Metrics
from jobrun.tools.stored_run import MetricTable, build_column

SPEC = """\
jobrun: 1
name: NAME
params: {rate: 0.5, where: abc}
nodes: {n1: {}OTHER}
init:
  - task: start
    node: n1
    steps: ["x = arange(400000.0)", "h = [1, [2.5, 'a']]", "w = rate", "n = 0"]
MORE
epoch:
  - {task: step, node: n1, steps: ["x += rate", "n += 1", {log: "x is {x[0]}"}]}
metrics: {first: "n1.x[0]", count: n1.n, word: "'good'"}
checkpoint: {every: 1ep, keep: {last: 2}}
stop: [{epochs: 3}]
"""


def _spec(folder: Path, name="walk", nodes=1) -> Path:
    more = '  - {task: other, node: n2, steps: ["x = 7"]}' if nodes > 1 else ""
    text = (
        SPEC.replace("NAME", name).replace("OTHER", ", n2: {}" * (nodes - 1)).replace("MORE", more)
    )
    (folder / f"{name}.yaml").write_text(text)
    return folder / f"{name}.yaml"


def _run(folder: Path, name="walk", nodes=1) -> Path:
    return Path(jobrun.run(_spec(folder, name, nodes), _at(folder)).run_path)


def _at(folder):
    return jobrun.RunOptions(run_dir=folder / "runs")


@pytest.fixture(scope="module")
def run_path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("read")
    return _run(folder)


@pytest.fixture
def run(run_path):
    return jobrun.runs(run_path.parent.parent)["latest"]


@pytest.fixture
def copied(run_path, tmp_path):
    """Return a copy of the run, to be damaged."""
    path = tmp_path / "runs" / "walk" / run_path.name
    shutil.copytree(run_path, path)
    return path


def test_runs_are_listed_oldest_first_and_found_by_name(tmp_path):
    first, second = _run(tmp_path, "one"), _run(tmp_path, "two")

    listed = jobrun.runs(tmp_path / "runs")

    assert [run.path for run in listed] == [first, second]
    assert listed[-1].path == listed["two"].path == listed[1].path == second
    assert [run.job for run in jobrun.runs(tmp_path / "runs", "one")] == ["one"]


def test_a_directory_or_a_job_that_is_not_there_is_an_error(run, tmp_path):
    with pytest.raises(UsageError, match=r"E351.*no directory"):
        jobrun.runs(tmp_path / "rnus")
    with pytest.raises(UsageError, match="did you mean 'walk'"):
        jobrun.runs(run.path.parent.parent, "wlak")


def test_params_are_those_that_the_run_ran_with(run):
    assert run.params == {"rate": 0.5, "where": "abc"}


def test_metrics_are_arrays_of_the_type_that_was_measured(run):
    metrics = run.metrics()

    assert list(metrics) == ["first", "count", "word"]
    assert metrics.epochs.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(metrics["first"], np.array([0.5, 1.0, 1.5]), strict=True)
    np.testing.assert_array_equal(metrics["count"], np.array([1, 2, 3]), strict=True)
    assert metrics["word"].tolist() == ["good"] * 3
    assert list(run.metrics("count")) == ["count"]
    with pytest.raises(UsageError, match="did you mean 'first'"):
        run.metrics("frst")


def test_the_metrics_file_holds_metrics_only(run):
    lines = (run.path / "metrics.jsonl").read_text().splitlines()
    assert {json.loads(line)["event"] for line in lines} == {"Measured"}


def test_broken_lines_of_metrics_are_counted_and_other_lines_are_read(copied):
    with (copied / "metrics.jsonl").open("a") as file:
        file.write('{"event": "Measured", "name": "fi')
    run = jobrun.runs(copied.parent.parent)[0]

    with pytest.warns(RuntimeWarning, match="1 line of .*metrics.jsonl cannot be read"):
        metrics = run.metrics()

    assert (metrics.damaged, len(metrics.epochs)) == (1, 3)


def test_blobs_are_what_tasks_have_left(run):
    blobs = run.blobs(2)

    assert list(blobs) == ["h", "n", "w", "x"]
    assert run.epochs == (0, 2, 3)
    np.testing.assert_array_equal(blobs["x"], np.arange(400000.0) + 1, strict=True)
    assert blobs["h"] == [1, [2.5, "a"]]
    assert type(blobs["w"]) is float
    assert run.blobs()["x"][0] == 1.5
    with pytest.raises(KeyError, match="did you mean"):
        blobs["xx"]
    with pytest.raises(CheckpointError, match="E408"):
        run.blobs(1)


def test_blobs_of_several_nodes_are_named_with_their_node(tmp_path):
    run = jobrun.runs(_run(tmp_path, nodes=2).parent.parent)[0]

    assert list(run.blobs()) == ["n1.h", "n1.n", "n1.w", "n1.x", "n2.x"]
    assert run.blobs()["n2.x"] == 7


def test_a_damaged_blob_raises_by_name_when_it_is_asked_for(copied):
    run = jobrun.runs(copied.parent.parent)[0]
    path = copied / "checkpoints" / "epoch-000003" / "n1.h5"
    data = bytearray(path.read_bytes())
    data[data.index((np.arange(400000.0) + 1.5).tobytes()) + 1_600_000] ^= 1
    path.write_bytes(data)
    blobs = run.blobs(3)

    assert blobs["n"] == 3
    with pytest.raises(CheckpointError, match=r"blob 'x' of epoch 3: .*n1\.h5"):
        blobs["x"]


def test_a_file_of_another_epoch_is_not_taken_for_this_one(copied):
    folder = copied / "checkpoints"
    shutil.copy(folder / "epoch-000002" / "n1.h5", folder / "epoch-000003" / "n1.h5")

    with pytest.raises(CheckpointError, match="manifest"):
        jobrun.runs(copied.parent.parent)[0].blobs(3)


def test_an_epoch_is_kept_while_its_blobs_are_read(copied, tmp_path):
    longer = _spec(tmp_path)
    longer.write_text(longer.read_text().replace("epochs: 3", "epochs: 6"))
    run = jobrun.runs(copied.parent.parent)[0]
    blobs = run.blobs(2)

    jobrun.resume(copied, longer)

    assert run.epochs[-1] == 6
    assert blobs["x"][0] == 1.0


def test_logs_are_lines_of_tasks(run):
    assert run.logs("step") == ["[1] x is 0.5", "[2] x is 1.0", "[3] x is 1.5"]
    assert run.logs()[0] == "step [1] x is 0.5"
    with pytest.raises(UsageError, match="E428"):
        run.logs("stpe")


def test_a_run_that_disappears_is_an_error_that_says_so(copied):
    run = jobrun.runs(copied.parent.parent)[0]
    shutil.rmtree(copied)

    with pytest.raises(JobrunError, match="not a jobrun run directory"):
        run.status()


def test_frames_of_pandas_have_the_same_values(run):
    frame = run.metrics().to_pandas()
    table = jobrun.runs(run.path.parent.parent).to_pandas()

    assert frame.loc[2, "first"] == 1.0
    assert frame.index.name == "epoch"
    row = table.loc[run.name]
    assert (row["status"], row["params.rate"], row["metrics.count"]) == ("finished", 0.5, 3)
    assert isinstance(table, pd.DataFrame)


def test_a_notebook_shows_runs_metrics_and_curves(run):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shown = run._repr_html_()
        listed = jobrun.runs(run.path.parent.parent)._repr_html_()

    assert "<polyline" in shown
    assert "abc" in shown
    assert run.name in listed
    assert "<th" in run.metrics()._repr_html_()


def test_a_notebook_shows_what_is_readable_of_a_damaged_run(copied):
    (copied / "metrics.jsonl").unlink()
    (copied / "metrics.jsonl").mkdir()
    with pytest.warns(RuntimeWarning, match=r"cannot read metrics.jsonl"):
        shown = jobrun.runs(copied.parent.parent)[0]._repr_html_()

    assert "finished" in shown
    assert "not readable" in shown


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], np.array([1, 2], np.int64)),
        ([True, False], np.array([True, False])),
        ([0.5, 2], np.array([0.5, 2.0])),
        ([1, None], np.array([1.0, np.nan])),
        ([None, 1.5], np.array([np.nan, 1.5])),
        ([2**53 + 1, 0.5], np.array([2**53 + 1, 0.5], object)),
        ([2**53 + 1, None], np.array([2**53 + 1, None], object)),
        ([2**63, 1], np.array([2**63, 1], object)),
        ([True, 2], np.array([True, 2], object)),
        ([True, None], np.array([True, None], object)),
        (["a", None], np.array(["a", None], object)),
        ([], np.array([], np.float64)),
    ],
)
def test_a_column_has_a_type_that_loses_nothing(values, expected):
    column = build_column(values)

    np.testing.assert_array_equal(column, expected, strict=True)
    assert [type(value) for value in column] == [type(value) for value in expected]


def test_an_unknown_metric_is_named_with_the_nearest_one():
    table = MetricTable(Metrics(("loss",), ((1, (0.5,)),)))

    assert "los" not in table
    assert table.get("los") is None
    with pytest.raises(KeyError, match="no metric 'los': did you mean 'loss'"):
        table["los"]
