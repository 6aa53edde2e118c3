"""Texts of a spec in their place: names of loops and nets resolved."""

from __future__ import annotations

import pytest

from jobrun.compile.lowering.expressions import is_never_bool
from jobrun.graph.expressions import Binary, Compare, Const, LoopIndex, Name, Sequence, Unary
from jobrun.graph.steps import Assign, Loop, Net
from tests.support.compiling import codes_of, fault_of, job_of, task_of
from tests.support.tables import each_case


def _value(loop: Loop) -> object:
    net = loop.steps[0]
    assert isinstance(net, Net)
    op = net.ops[0]
    assert isinstance(op, Assign)
    return op.value


def test_iter_is_the_innermost_loop_and_as_names_an_outer_one(tmp_path):
    job = job_of(
        tmp_path,
        """\
        epoch:
          - task: t
            steps:
              - loop: 2
                as: i
                steps: [{loop: 3, steps: ['x = iter + i']}]
        """,
    )

    outer = task_of(job, "t").steps[0]
    assert isinstance(outer, Loop)
    inner = outer.steps[0]
    assert isinstance(inner, Loop)
    assert _value(inner) == Binary(LoopIndex(inner.path), "+", LoopIndex(outer.path))


def test_iter_in_a_net_is_the_callers_loop(tmp_path):
    job = job_of(
        tmp_path,
        """\
        nets: {f: ['x = iter']}
        epoch: [{task: t, steps: [{loop: 2, steps: [{net: f}]}]}]
        """,
    )

    loop = task_of(job, "t").steps[0]
    assert isinstance(loop, Loop)
    assert "epoch/t/steps[0]" in repr(loop.steps[0])


def test_iter_outside_of_a_loop_is_a_fault(tmp_path):
    assert fault_of(tmp_path, "epoch: [{task: t, steps: ['x = iter']}]").code == "E154"


def test_a_pass_number_cannot_be_written(tmp_path):
    text = "epoch: [{task: t, steps: [{loop: 2, as: i, steps: [i = 3]}]}]"

    assert fault_of(tmp_path, text).code == "E153"


def test_a_statement_that_cannot_be_read_hides_no_other_fault(tmp_path):
    text = "epoch: [{task: t, steps: ['x = (1', 'y = x', 'z = nothing']}]"

    assert codes_of(tmp_path, text) == ["E101", "E180"]


@pytest.mark.parametrize(
    "step",
    [
        "{if: w + 1, then: [x = 1]}",
        "{while: 1, steps: [x = 1]}",
        "{stop_if: -w}",
        "{assert: 2.5}",
        "{if: true, then: [x = 1], elif: [{if: 'w * 2', then: [x = 1]}]}",
    ],
)
def test_a_condition_must_not_obviously_be_a_number(tmp_path, step):
    assert fault_of(tmp_path, f"epoch: [{{task: t, steps: [{step}]}}]").code == "E152"


@each_case(
    ("expr", "expected"),
    [
        (Const(True), False),
        (Const(1), True),
        (Const(None), True),
        (Name("x"), False),
        (Binary(Name("x"), "-", Const(1)), True),
        (Binary(Name("x"), "&", Name("y")), False),
        (Unary("not", Name("x")), False),
        (Unary("-", Name("x")), True),
        (Sequence((Const(1),)), True),
        (Compare(Name("x"), ("<",), (Const(1),)), False),
    ],
)
def test_what_is_certainly_no_bool(expr, expected):
    assert is_never_bool(expr) is expected
