from __future__ import annotations

import pytest

from jobrun.cli.invoke import invoke
from jobrun.core.errors import UsageError
from jobrun.runner.rundir import newest_run
from jobrun.tools.sweeping.axes import parse_axes, points_of
from jobrun.tools.sweeping.design import Base, design
from jobrun.tools.sweeping.outcome import (
    Aim,
    aim_of,
    as_csv,
    as_values,
    is_over,
    outcome_of,
    ranked,
    score,
)
from tests.support.sweeps import grow_spec, outcome


def points(folder, *texts, extra=""):
    axes = parse_axes(texts)
    base = Base(str(grow_spec(folder, extra)))
    return design(base, axes, points_of(axes, None, 0)).points


def run(folder, point, *words):
    spec = str(folder / "grow.yaml")
    return invoke(["run", spec, "--run-dir", str(folder), "--quiet", *words, *point.words])


def test_a_point_without_a_run_is_not_started(tmp_path):
    (point,) = points(tmp_path, "k=1")

    assert outcome_of(point, tmp_path).state == "not started"
    assert not is_over(point, tmp_path)


def test_a_finished_run_is_over_until_what_would_run_is_another(tmp_path):
    (point,) = points(tmp_path, "k=2")
    run(tmp_path, point)

    found = outcome_of(point, tmp_path)
    assert (found.state, found.epoch, dict(found.metrics)) == ("finished", 3, {"x": 6.0})
    assert is_over(point, tmp_path)
    assert not is_over(point, tmp_path, epochs=5)
    (later,) = points(tmp_path, "k=2", extra="description: other\n")
    assert later.job == point.job
    assert not is_over(later, tmp_path)


def test_a_failed_run_is_not_over_and_says_why(tmp_path):
    (point,) = points(tmp_path, "k=40")
    run(tmp_path, point)

    found = outcome_of(point, tmp_path)
    assert (found.state, found.epoch, found.exit_code) == ("failed", 2, 1)
    assert "assertion" in found.reason
    assert not is_over(point, tmp_path)


def test_a_run_that_is_not_as_expected_is_over_all_the_same(tmp_path):
    (point,) = points(tmp_path, "k=1", extra="expect: [x > 5]\n")
    run(tmp_path, point)

    assert outcome_of(point, tmp_path).state == "unexpected"
    assert is_over(point, tmp_path)


def test_a_run_that_says_it_runs_and_is_nobody_s_was_killed(tmp_path):
    (point,) = points(tmp_path, "k=1")
    run(tmp_path, point)
    newest_run(tmp_path, point.job).write(status="running", exit_code=None)

    assert outcome_of(point, tmp_path).state == "killed"
    assert not is_over(point, tmp_path)


def test_the_best_is_the_least_or_the_greatest_of_those_that_finished():
    found = [outcome(x=2.0, k=1), outcome(x=1.0, k=2), outcome("failed", 0.5, k=3), outcome(k=4)]
    found.append(outcome(x=float("nan"), k=5))

    assert [one.point.values["k"] for one in ranked(found, Aim("x"))] == [2, 1]
    assert [one.point.values["k"] for one in ranked(found, Aim("x", "max"))] == [1, 2]
    assert ranked(found, Aim("")) == []
    assert score(found[4], Aim("x")) is None


def test_what_is_best_is_read_from_the_option_or_the_spec():
    known, default = ["loss", "accuracy"], ("accuracy", "max")

    assert aim_of("", known, default) == Aim("accuracy", "max")
    assert aim_of("loss", known, default) == Aim("loss", "min")
    assert aim_of("accuracy", known, default) == Aim("accuracy", "max")
    assert aim_of("min:accuracy", known, default) == Aim("accuracy", "min")
    with pytest.raises(UsageError, match=r"E424.*did you mean 'loss'"):
        aim_of("max:los", known, default)


def test_csv_has_all_digits_and_a_line_per_point():
    lines = as_csv([outcome(x=0.1 + 0.2, k=1), outcome("not started", k=2)]).splitlines()

    assert lines == [
        "k,state,epoch,x,run",
        "1,finished,3,0.30000000000000004,grow.k1/2026-one",
        "2,not started,,,",
    ]
    assert as_values(outcome("not started", k=2))["run"] is None
