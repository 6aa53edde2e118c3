from __future__ import annotations

import pytest

import jobrun
from jobrun.core.errors import CheckpointError
from jobrun.tools.diff.run_diff import compare_run_with_spec, compare_runs
from tests.support.sample_runs import make_run


def test_runs_of_one_spec_do_not_differ(tmp_path):
    found = compare_runs(make_run(tmp_path), make_run(tmp_path))

    assert (found.spec, found.code, found.environment) == ((), (), ())
    assert found.state_is_equal
    assert found.epochs == (4, 4)
    assert found.metrics == (("x", 0.5, 0.5),)


def test_specs_states_and_metrics_of_others_do(tmp_path):
    found = compare_runs(make_run(tmp_path), make_run(tmp_path, "other", limit=3.0))

    assert {change.field for change in found.spec} >= {"name"}
    assert not found.state_is_equal
    assert found.epochs == (4, 1)
    assert found.metrics == (("x", 0.5, 4.0),)


def test_named_epochs_are_compared(tmp_path):
    run = make_run(tmp_path)

    assert compare_runs(run, run, ("2", "2")).state_is_equal
    assert compare_runs(run, run, ("1", "2")).state[0].apart.largest == 2.0
    with pytest.raises(CheckpointError):
        compare_runs(run, run, ("1", "9"))


def test_a_run_is_compared_with_its_spec_as_it_is_now(tmp_path):
    run = make_run(tmp_path)
    spec = tmp_path / "shrink.yaml"
    assert compare_run_with_spec(run, jobrun.load(spec)).spec == ()
    spec.write_text(spec.read_text().replace("x / 2", "x / 3"))

    (change,) = compare_run_with_spec(run, jobrun.load(spec)).spec

    assert change.kind == "semantic"
    assert "x / 3" in change.after
