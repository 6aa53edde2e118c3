"""All that a report shows, gathered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import jobrun
from jobrun.api import prepare
from jobrun.graph.drawing import mermaid
from jobrun.runner.rundir.run_directories import open_run
from jobrun.runner.rundir.spec_folder import plan_text
from jobrun.tools.report.report_data import read_report, strip_job
from tests.support.command import SPECS
from tests.support.reports import a_report, make_report


def test_a_finished_run_says_what_held():
    report = a_report()

    assert [(expectation.words, expectation.held) for expectation in report.expectations] == [
        ("x < 1", True),
        ("x < 0.25", False),
    ]


def test_an_unfinished_run_says_how_to_continue(tmp_path):
    report = make_report(tmp_path, "--max-epochs", "2")

    assert [expectation.held for expectation in report.expectations] == [None, None]
    assert report.following[-1].startswith("jobrun resume ")
    assert report.metrics_last["x"] == 2.0


def test_the_newest_checkpoint_is_looked_into():
    stored = a_report().stored

    assert (stored.epochs, stored.newest.epoch) == ((0, 1, 2, 3, 4), 4)
    assert [blob.facts.name for blob in stored.blobs] == ["t", "w", "x"]


def test_a_damaged_checkpoint_is_reported_and_the_report_is_complete_otherwise(tmp_path):
    run = make_report(tmp_path).run
    file = run.path / "checkpoints" / "epoch-000004" / "local.h5"
    file.write_bytes(file.read_bytes()[:-1] + b"\xff\xff")
    report = read_report(run, tmp_path / "runs")

    assert "damaged" in report.stored.fault
    assert report.stored.newest is None
    assert report.metrics_last["x"] == 0.5


def test_a_run_whose_spec_does_not_compile_any_more_still_has_its_tasks(tmp_path):
    run = make_report(tmp_path).run
    (run.path / "spec" / "resolved.yaml").write_text("jobrun: 1\nname: x\n")
    report = read_report(run, tmp_path / "runs")

    assert [task.name for group in report.job.groups for task in group.tasks] == [
        "begin",
        "halve",
        "done",
    ]
    assert "does not compile here" in report.faults[0]


def test_a_run_with_hardly_a_file_has_a_report(tmp_path):
    run = make_report(tmp_path).run
    for name in ("events.jsonl", "metrics.jsonl", "spec/plan.json", "spec/resolved.yaml"):
        (run.path / name).unlink()
    report = read_report(run, tmp_path / "runs")

    assert (report.job, report.spec, report.history.invocations) == (None, "", ())


def test_a_killed_run_is_called_so(tmp_path):
    run = make_report(tmp_path, "--max-epochs", "2").run
    record = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps(record | {"status": "running"}))
    report = read_report(open_run(run.path), tmp_path / "runs")

    assert report.status.status == "killed"
    assert report.following[-1].startswith("jobrun resume ")


def test_the_newest_profile_is_read():
    report = a_report("--profile")

    assert "epoch/halve/steps[0]" in [row["path"] for row in report.profile["steps"]]


def test_a_run_of_a_job_built_in_python_shows_its_graph(tmp_path):
    job = jobrun.Job(
        "count",
        jobrun.Cluster((jobrun.Node("local"),)),
        init=jobrun.TaskGroup("init", (jobrun.Task("start", "local", jobrun.steps("n = 0")),)),
        epoch=jobrun.TaskGroup("epoch", (jobrun.Task("add", "local", jobrun.steps("n += 1")),)),
        stop=(jobrun.StopAfterEpochs(2),),
    )
    result = jobrun.run(job, jobrun.RunOptions(run_dir=tmp_path))
    report = read_report(open_run(Path(result.run_path)), tmp_path)

    assert [task.name for task in report.job.epoch.tasks] == ["add"]
    assert "local/add" in report.spec
    assert (report.whole, report.faults) == (False, ())


def test_where_many_runs_share_a_page_fewer_blobs_of_each_are_drawn(tmp_path):
    run = make_report(tmp_path).run
    blobs = read_report(run, tmp_path / "runs", runs=120).stored.blobs

    assert [blob.histogram for blob in blobs] == [None, None, None]


def test_it_looks_like_the_job():
    job = prepare(str(SPECS / "digits-kmeans.yaml")).job

    assert mermaid(strip_job(json.loads(plan_text(job)))) == mermaid(job)


@pytest.mark.parametrize("plan", [{}, {"job": 1, "nodes": [], "groups": {}, "seed": 0}])
def test_a_plan_of_another_form_is_refused(plan):
    with pytest.raises(KeyError):
        strip_job(plan)
