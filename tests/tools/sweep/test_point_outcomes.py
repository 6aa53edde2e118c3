from __future__ import annotations

import pytest

from jobrun.cli.run_command import invoke
from jobrun.core.errors import UsageError
from jobrun.runner.rundir.run_directories import newest_run
from jobrun.tools.sweep.axes import enumerate_points, parse_axes
from jobrun.tools.sweep.point_outcomes import (
    Objective,
    apply_attempt,
    is_over,
    outcome_values,
    outcomes_csv,
    parse_objective,
    rank_outcomes,
    read_outcome,
    score,
)
from jobrun.tools.sweep.process_pool import PointEnded
from jobrun.tools.sweep.sweep_design import SweepBase, design_sweep
from tests.support.sweeps import grow_spec, outcome


def points(folder, *texts, extra=""):
    axes = parse_axes(texts)
    base = SweepBase(str(grow_spec(folder, extra)))
    return design_sweep(base, axes, enumerate_points(axes, None, 0)).points


def run(folder, point, *words):
    spec = str(folder / "grow.yaml")
    return invoke(["run", spec, "--run-dir", str(folder), "--quiet", *words, *point.words])


def test_a_point_without_a_run_is_not_started(tmp_path):
    (point,) = points(tmp_path, "k=1")

    assert read_outcome(point, tmp_path).state == "not started"
    assert not is_over(point, tmp_path)


def test_a_finished_run_is_over_until_what_would_run_is_another(tmp_path):
    (point,) = points(tmp_path, "k=2")
    run(tmp_path, point)

    ended = read_outcome(point, tmp_path)
    assert (ended.state, ended.epoch, dict(ended.metrics)) == ("finished", 3, {"x": 6.0})
    assert is_over(point, tmp_path)
    assert not is_over(point, tmp_path, epochs=5)
    (later,) = points(tmp_path, "k=2", extra="description: other\n")
    assert later.job == point.job
    assert not is_over(later, tmp_path)


def test_a_failed_run_is_not_over_and_says_why(tmp_path):
    (point,) = points(tmp_path, "k=40")
    run(tmp_path, point)

    ended = read_outcome(point, tmp_path)
    assert (ended.state, ended.epoch, ended.exit_code) == ("failed", 2, 1)
    assert "assertion" in ended.reason
    assert not is_over(point, tmp_path)


def test_a_run_that_is_not_as_expected_is_over_all_the_same(tmp_path):
    (point,) = points(tmp_path, "k=1", extra="expect: [x > 5]\n")
    run(tmp_path, point)

    assert read_outcome(point, tmp_path).state == "unexpected"
    assert is_over(point, tmp_path)


def test_a_run_recorded_as_running_without_an_owner_was_killed(tmp_path):
    (point,) = points(tmp_path, "k=1")
    run(tmp_path, point)
    newest_run(tmp_path, point.job).write(status="running", exit_code=None)

    assert read_outcome(point, tmp_path).state == "killed"
    assert not is_over(point, tmp_path)


def test_the_best_is_the_least_or_the_greatest_of_those_that_finished():
    outcomes = [outcome(x=2.0, k=1), outcome(x=1.0, k=2), outcome("failed", 0.5, k=3), outcome(k=4)]
    outcomes.append(outcome(x=float("nan"), k=5))

    assert [ranked.point.values["k"] for ranked in rank_outcomes(outcomes, Objective("x"))] == [
        2,
        1,
    ]
    assert [
        ranked.point.values["k"] for ranked in rank_outcomes(outcomes, Objective("x", "max"))
    ] == [1, 2]
    assert rank_outcomes(outcomes, Objective("")) == []
    assert score(outcomes[4], Objective("x")) is None


def test_what_is_best_is_read_from_the_option_or_the_spec():
    known, default = ["loss", "accuracy"], ("accuracy", "max")

    assert parse_objective("", known, default) == Objective("accuracy", "max")
    assert parse_objective("loss", known, default) == Objective("loss", "min")
    assert parse_objective("accuracy", known, default) == Objective("accuracy", "max")
    assert parse_objective("min:accuracy", known, default) == Objective("accuracy", "min")
    with pytest.raises(UsageError, match=r"E424.*did you mean 'loss'"):
        parse_objective("max:los", known, default)


def test_csv_has_all_digits_and_a_line_per_point():
    lines = outcomes_csv([outcome(x=0.1 + 0.2, k=1), outcome("not started", k=2)]).splitlines()

    assert lines == [
        "k,state,epoch,x,outdated,run",
        "1,finished,3,0.30000000000000004,,grow.k1/2026-one",
        "2,not started,,,,",
    ]
    assert outcome_values(outcome("not started", k=2))["run"] is None


@pytest.mark.parametrize(
    ("code", "started", "state"),
    [(0, True, "finished"), (9, True, "unexpected"), (75, True, "stopped"),
     (130, True, "interrupted"), (1, True, "failed"), (5, False, "failed"),
     (6, False, "failed"), (3, False, "failed"),
     (70, False, "failed"), (-9, True, "killed"), (-9, False, "killed")],
)  # fmt: skip
def test_an_attempt_counts_more_than_what_an_earlier_one_left(code, started, state):
    earlier = outcome("finished", x=1.0, k=1)
    last_lines = ("the last words",)

    applied = apply_attempt(earlier, PointEnded(earlier.point, code, (), last_lines, started))

    assert applied.state == state
    assert applied.exit_code == code
    assert dict(applied.metrics) == ({"x": 1.0} if started else {})
    if not started:
        assert applied.reason == "the last words"
