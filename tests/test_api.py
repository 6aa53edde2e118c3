from __future__ import annotations

import os
import subprocess
import sys

import pytest
from msgspec.structs import replace

import jobrun
from jobrun.core.errors import DriftError, SpecError, UsageError
from jobrun.graph.expressions import Name
from jobrun.graph.steps import Loop, Net
from tests.support.command import environment
from tests.support.resumable_job import SPEC


def _job(epochs=3, statement="total += epoch"):
    return jobrun.Job(
        "count",
        jobrun.Cluster((jobrun.Node("local"),)),
        init=jobrun.TaskGroup("init", (jobrun.Task("start", "local", jobrun.steps("total = 0")),)),
        epoch=jobrun.TaskGroup("epoch", (jobrun.Task("add", "local", jobrun.steps(statement)),)),
        stop=(jobrun.StopAfterEpochs(epochs),),
    )


def _total(run_path):
    (blob,) = jobrun.inspect(run_path).files[0].blobs
    return blob.value


def _at(path, **more):
    return jobrun.RunOptions(run_dir=path, **more)


def test_import_loads_neither_numpy_nor_yaml_nor_pydantic():
    code = (
        "import sys, jobrun; "
        "sys.exit(any(name in sys.modules for name in ('numpy', 'yaml', 'pydantic', 'h5py')))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), check=False)
    assert done.returncode == 0


def test_every_public_name_is_there_and_listed():
    assert all(getattr(jobrun, name) is not None for name in jobrun.__all__)
    assert set(dir(jobrun)) == set(jobrun.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'rnu'"):
        jobrun.rnu  # noqa: B018


def test_steps_joins_neighbouring_statements_to_one_net():
    loop = Loop(None, ())

    built = jobrun.steps("x = 1", "y = 2", loop, "del x")

    assert [type(step) for step in built] == [Net, Loop, Net]
    assert len(built[0].ops) == 2


def test_an_expression_keeps_names_as_written():
    assert jobrun.expression("x") == Name("x")
    with pytest.raises(SpecError):
        jobrun.expression("x +")


def test_prepare_of_what_is_prepared_is_the_same_thing():
    prepared = jobrun.prepare(_job())
    assert jobrun.prepare(prepared) is prepared


def test_prepare_checks_a_job_built_by_hand():
    with pytest.raises(SpecError, match="unknown blob 'totl'"):
        jobrun.prepare(_job(statement="total = totl"))


def test_a_job_built_by_hand_runs_with_checkpoints(tmp_path):
    result = jobrun.run(_job(), _at(tmp_path))

    assert result.exit_code == 0
    assert result.epoch == 3
    assert _total(result.run_path) == 6
    assert type(_total(result.run_path)) is int


def test_a_stopped_python_job_continues_with_the_job(tmp_path):
    stopped = jobrun.run(_job(), _at(tmp_path, max_epochs=1))

    ended = jobrun.resume(stopped.run_path, _job(), _at(tmp_path))

    assert (stopped.exit_code, ended.exit_code) == (75, 0)
    assert _total(ended.run_path) == 6


def test_a_job_of_another_graph_is_drift(tmp_path):
    stopped = jobrun.run(_job(), _at(tmp_path, max_epochs=1))
    other = _job(statement="total += 2 * epoch")

    with pytest.raises(DriftError, match=r"graph\.local/add"):
        jobrun.resume(stopped.run_path, other)
    accepted = jobrun.resume(stopped.run_path, other, _at(tmp_path, accept=("graph",)))

    assert _total(accepted.run_path) == 1 + 4 + 6


def test_a_later_end_is_no_drift(tmp_path):
    first = jobrun.run(_job(), _at(tmp_path))
    more = jobrun.resume(first.run_path, _job(epochs=4))
    assert _total(more.run_path) == 10


@pytest.mark.long
def test_the_command_line_refuses_a_run_made_in_python(tmp_path):
    stopped = jobrun.run(_job(), _at(tmp_path, max_epochs=1))

    done = subprocess.run(
        [sys.executable, "-m", "jobrun", "resume", stopped.run_path],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == UsageError.exit_code
    assert "was started from Python" in done.stderr
    assert "jobrun.resume(" in done.stderr


def test_a_fork_begins_after_the_epoch_it_is_taken_from(tmp_path):
    first = jobrun.run(_job(), _at(tmp_path))

    other = jobrun.fork(
        first.run_path, _job(statement="total += 10 * epoch"), _at(tmp_path, epoch=1)
    )

    assert other.run_path != first.run_path
    assert (_total(first.run_path), _total(other.run_path)) == (6, 1 + 20 + 30)


def test_a_fork_that_takes_over_some_blobs_begins_with_epoch_1(tmp_path):
    first = jobrun.run(_job(), _at(tmp_path))

    other = jobrun.fork(first.run_path, _job(), _at(tmp_path), blobs=["tot*"])

    assert _total(other.run_path) == 6 + 6


def test_a_fork_of_a_run_made_from_a_spec_needs_no_job(tmp_path):
    spec = tmp_path / "walk.yaml"
    spec.write_text(SPEC)
    first = jobrun.run(spec, _at(tmp_path, max_epochs=1))

    assert jobrun.fork(first.run_path, options=_at(tmp_path)).epoch == 4


def test_a_fork_of_a_run_made_in_python_needs_the_job(tmp_path):
    first = jobrun.run(_job(), _at(tmp_path))

    with pytest.raises(UsageError, match="was started from Python"):
        jobrun.fork(first.run_path, options=_at(tmp_path))


def test_a_run_made_from_a_spec_continues_without_a_job(tmp_path):
    spec = tmp_path / "walk.yaml"
    spec.write_text(SPEC)
    stopped = jobrun.run(spec, _at(tmp_path, max_epochs=1))

    with pytest.raises(UsageError, match="made from a spec"):
        jobrun.resume(stopped.run_path, _job())
    ended = jobrun.resume(stopped.run_path)

    assert ended.epoch == 4


def test_a_prepared_job_keeps_the_folder_it_was_prepared_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prepared = jobrun.prepare(_job())
    assert prepared.authored.folder == os.fspath(tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        jobrun.RunOptions(max_epochs=-1),
        jobrun.RunOptions(epochs=-1),
        jobrun.RunOptions(time_s=float("nan")),
        jobrun.RunOptions(grace_s=-0.5),
    ],
)
def test_a_limit_that_cannot_be_meant_is_refused_before_anything_is_made(tmp_path, options):
    options = replace(options, run_dir=tmp_path / "runs")

    with pytest.raises(UsageError, match="cannot be"):
        jobrun.run(_job(), options)

    assert not (tmp_path / "runs").exists()


def test_a_word_for_resume_that_there_is_not_is_refused(tmp_path):
    with pytest.raises(UsageError, match="one of 'auto', 'must', 'never'"):
        jobrun.run(_job(), jobrun.RunOptions(run_dir=tmp_path), resume="always")


def test_where_runs_live_may_be_text(tmp_path):
    options = jobrun.RunOptions(run_dir=str(tmp_path / "runs"), max_epochs=1)

    stopped = jobrun.run(_job(), options)

    assert jobrun.resume("latest", _job(), replace(options, max_epochs=0)).epoch == 3
    assert stopped.epoch == 1
