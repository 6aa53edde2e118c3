from __future__ import annotations

import pytest
from msgspec.structs import replace

from jobrun.api import prepare, steps
from jobrun.core.errors import UsageError
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.conditions import StopAfterEpochs
from jobrun.graph.job_text import render_job
from jobrun.graph.types import Cluster, Job, Node, Retry, Task, TaskGroup
from jobrun.runner.identity.recorded_job import (
    PythonJob,
    compare_graphs,
    compile_authored,
    digest_authored,
    find_changes_since,
    install_authored,
    is_from_python,
    load_recorded,
    stage_authored,
)
from jobrun.runner.rundir.run_directories import Run
from jobrun.runner.rundir.run_json import RunRecord
from jobrun.spec.load import load_spec
from tests.support.resumable_job import SPEC


def _python(statement="x += 1", epochs=2):
    job = Job(
        "j",
        Cluster((Node("n"),)),
        TaskGroup("init", (Task("start", "n", steps("x = 0")),)),
        TaskGroup("epoch", (Task("t", "n", steps(statement)),)),
        stop=(StopAfterEpochs(epochs),),
    )
    authored = prepare(job).authored
    assert isinstance(authored, PythonJob)
    return authored


def _run(path, authored):
    (path / "spec").mkdir()
    digest = stage_authored(path, authored, compile_authored(authored))
    install_authored(path, authored)
    record = RunRecord(
        "id", "j", "now", spec_digest=digest_authored(authored), resolved_digest=digest
    )
    return Run(path, record)


def _spec(tmp_path):
    (tmp_path / "walk.yaml").write_text(SPEC)
    return load_spec(str(tmp_path / "walk.yaml"))


def test_a_python_job_has_a_digest_of_its_graph():
    assert digest_authored(_python()) == digest_authored(_python())
    assert digest_authored(_python()) != digest_authored(_python("x += 2"))


def test_run_from_python_is_distinguished_from_run_of_a_spec(tmp_path):
    python = _run(tmp_path, _python())
    assert is_from_python(python)
    with pytest.raises(UsageError, match=r"jobrun\.resume"):
        load_recorded(python)


def test_recorded_spec_of_a_run_is_loaded(tmp_path):
    loaded = _spec(tmp_path)
    run = _run(tmp_path, loaded)
    assert not is_from_python(run)
    assert digest_authored(load_recorded(run)) == digest_authored(loaded)
    with pytest.raises(UsageError, match="made from a spec"):
        find_changes_since(run, _python())


def test_the_same_job_has_not_changed(tmp_path):
    assert find_changes_since(_run(tmp_path, _python()), _python()) == ()


def test_another_statement_is_semantic_and_names_its_task(tmp_path):
    (change,) = find_changes_since(_run(tmp_path, _python()), _python("x += 2"))
    assert (change.field, change.kind) == ("graph.n/t", "semantic")
    assert (change.before, change.after) == ("x += 1", "x += 2")


def test_changed_stop_condition_is_safe(tmp_path):
    (change,) = find_changes_since(_run(tmp_path, _python()), _python(epochs=3))
    assert (change.field, change.kind) == ("graph.stop", "safe")


def test_other_threads_are_numerics():
    (change,) = compare_graphs("job j\nblas_threads 1\n", "job j\nblas_threads 2\n")
    assert change.kind == "numerics"


def _changed(**settings):
    job = _python().job
    (task,) = job.epoch.tasks
    return replace(job, epoch=replace(job.epoch, tasks=(replace(task, **settings),)))


@pytest.mark.parametrize(
    "settings", [{"timeout_s": 5.0}, {"retry": Retry(2)}, {"on_error": "warn"}]
)
def test_changed_failure_handling_is_safe(settings):
    before, after = render_job(_python().job), render_job(_changed(**settings))
    (change,) = compare_graphs(before, after)
    assert (change.field, change.kind) == ("graph.limits", "safe")


@pytest.mark.parametrize("settings", [{"instances": 2}, {"hogwild": True}])
def test_changed_execution_of_a_task_is_semantic(settings):
    before, after = render_job(_python().job), render_job(_changed(**settings))
    assert {change.kind for change in compare_graphs(before, after)} == {"semantic"}


@pytest.mark.parametrize(
    ("policy", "kind"),
    [
        (CheckpointPolicy(every_epochs=5), "safe"),
        (CheckpointPolicy(directory="there"), "semantic"),
        (CheckpointPolicy(nodes=("n",)), "semantic"),
    ],
)
def test_changed_save_interval_is_safe_but_changed_directory_is_not(policy, kind):
    job = replace(_python().job, checkpoint=CheckpointPolicy())
    after = render_job(replace(job, checkpoint=policy))
    assert [change.kind for change in compare_graphs(render_job(job), after)] == [kind]


def test_earlier_recorded_jobs_are_kept(tmp_path):
    run = _run(tmp_path, _python())
    stage_authored(run.path, _python("x += 2"), _python("x += 2").job)
    install_authored(run.path, _python("x += 2"))
    assert "x += 1" in (tmp_path / "spec" / "graph-1.txt").read_text()
    assert "x += 2" in (tmp_path / "spec" / "graph.txt").read_text()
