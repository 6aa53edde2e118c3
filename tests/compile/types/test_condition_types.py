"""Conditions that are not bools and metrics that are not numbers are reported before a run."""

from __future__ import annotations

import pytest

from jobrun.compile.pipeline import compile_job
from jobrun.core.errors import SpecError
from jobrun.spec.load import load_spec

_SPEC = """jobrun: 1
name: t
init: [{task: start, steps: ["w = zeros(3)", "n = 0", "z = 1j", "done = False", "who = w"]}]
epoch:
  - task: work
    outputs: [{total: sum(w)}, {all: w}]
    steps: ["w += 1", "n += 1", "done = n > 3", {call: "lib:f", out: who}]
"""


@pytest.fixture
def compiled(tmp_path):
    def compiled(more):
        path = tmp_path / "t.yaml"
        path.write_text(_SPEC + more + "\n")
        return compile_job(load_spec(str(path)))

    return compiled


@pytest.mark.parametrize(
    ("condition", "part"),
    [
        ("w < 3", r"array of shape \(3,\)"),
        ("n", "this is int64"),
        ("sum(w)", "this is float64"),
        ("work.total", "this is float64"),
        ("w[0]", "this is float64"),
        ("work.all > 2", r"array of shape \(3,\)"),
    ],
)
def test_a_condition_that_is_no_bool_is_refused(compiled, condition, part):
    with pytest.raises(SpecError, match=part) as caught:
        compiled(f"stop: [{{when: '{condition}'}}]")

    (fault,) = caught.value.faults
    assert (fault.code, fault.path, fault.where.line) == ("E291", "stop[0].when", 8)


@pytest.mark.parametrize(
    ("metric", "part"),
    [("w", r"array of shape \(3,\)"), ("z", "one real number"), ("work.all * 2", "one number")],
)
def test_a_metric_that_is_no_number_is_refused(compiled, metric, part):
    with pytest.raises(SpecError, match=part) as caught:
        compiled(f"metrics: {{m: {metric}}}\nstop: [{{epochs: 1}}]")

    assert [fault.code for fault in caught.value.faults] == ["E291"]


def test_a_condition_to_fail_by_is_checked_as_well(compiled):
    with pytest.raises(SpecError, match="must be true or false"):
        compiled("fail_if: [n]\nstop: [{epochs: 1}]")


def test_a_metric_that_cannot_be_computed_is_refused(compiled):
    with pytest.raises(SpecError, match="cannot be multiplied"):
        compiled("metrics: {m: 'w @ ones(4)'}\nstop: [{epochs: 1}]")


@pytest.mark.parametrize(
    "more",
    [
        "stop: [{when: done}, {when: all(w > 3)}, {when: 'w[0] > 2'}, {when: work.total > 5}]",
        "stop: [{when: who}, {when: who > 3}, {when: 'not n'}]",
        "metrics: {n: n, w: max(w), who: who, done: done, one: 'w[:1]'}\nstop: [{epochs: 1}]",
        "expect: [who]\nstop: [{when: {of: done, nodes: local, reduce: any}}]",
    ],
)
def test_what_may_be_right_is_taken(compiled, more):
    compiled(more)
