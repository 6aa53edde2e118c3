"""Texts of a spec in their place: names of loops and nets resolved."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.compile.lowering.expressions import is_never_bool, parse_text
from jobrun.core.errors import SpecError
from jobrun.graph.expressions import (
    Attribute,
    Binary,
    Builtin,
    Compare,
    Const,
    Hole,
    Index,
    LoopIndex,
    Name,
    Sequence,
    Slice,
    Text,
    Unary,
)
from jobrun.graph.steps import Assign, Loop, Net
from tests.support.compiling import codes_of, fault_of, job_of, task_of
from tests.support.expressions import ORIGIN, fault, faults
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


def read(text, *, holes=True, **params):
    return parse_text(text, ORIGIN, "epoch/t/steps[0]", params, holes=holes)


X = Name("x")


@each_case(
    ("text", "parts"),
    [
        ("", ()),
        ("plain", ("plain",)),
        ("{x}", (Hole(X),)),
        ("{ x }", (Hole(X),)),
        ("a {x:.3g} b", ("a ", Hole(X, ".3g"), " b")),
        ("{x}{x}", (Hole(X), Hole(X))),
        ("{{x}}", ("{x}",)),
        ("{{{x}}}", ("{", Hole(X), "}")),
        ("${epoch}: {x}", (Builtin("epoch"), ": ", Hole(X))),
        ("$$ $${x} $x", ("$ $", Hole(X), " $x")),
        ("{x[1:2]:>8}", (Hole(Index(X, Slice(Const(1), Const(2))), ">8"),)),
        ("{x['a:}']}", (Hole(Index(X, Const("a:}"))),)),
        ("{x.shape}", (Hole(Attribute(X, "shape")),)),
        ("{x != 1}", (Hole(Compare(X, ("!=",), (Const(1),))),)),
        ("{x == 1}", (Hole(Compare(X, ("==",), (Const(1),))),)),
        ("{k:d}", (Hole(Const(3), "d"),)),
        ("100%", ("100%",)),
    ],
)
def test_a_text_with_holes_is_read(text, parts):
    assert read(text, k=3) == Text(parts)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("{x}", ("{x}",)),
        ("}{", ("}{",)),
        ("a/${node}.${epoch}", ("a/", Builtin("node.name"), ".", Builtin("epoch"))),
        ("echo $HOME $${HOME} $$$$", ("echo $HOME ${HOME} $$",)),
        ("awk '{print $1}'", ("awk '{print $1}'",)),
    ],
)  # fmt: skip
def test_without_holes_braces_are_braces(text, parts):
    assert read(text, holes=False) == Text(parts)


@each_case(
    "spec", [".3g", ">8", "*^10", "+.2e", "08.3f", ",", "_d", "#x", ".1%", "<5", "d", "z.2f", " "]
)  # fmt: skip
def test_formats_are_pythons(spec):
    assert read(f"{{x:{spec}}}") == Text((Hole(X, spec),))


@each_case("spec", ["zzz", ".3g!", "{w}", "8.{p}f", "99999d", ".9999f", "x.y", "{0}"])
def test_other_formats_are_refused(spec):
    code, at, _, _ = fault(read, f"{{x:{spec}}}")

    assert (code, at) == ("E113", 3)


@each_case(
    ("text", "code", "at", "mend"),
    [
        ("a {x", "E113", 2, "{{"),
        ("a } b", "E113", 2, "}}"),
        ("{}", "E113", 0, "{{}}"),
        ("{ }", "E113", 0, "{{}}"),
        ("{:.3f}", "E113", 0, "{{}}"),
        ("{x!r}", "E113", 1, "remove it"),
        ("{x!s:>3}", "E113", 1, "remove it"),
        ("{x=}", "E113", 1, "x {x}"),
        ("{'a", "E113", 0, "{{"),
        ("{x[0}", "E113", 0, "{{"),
        ("v {x +}", "E100", 5, "Python"),
        ("v {foo(x)}", "E104", 3, "floor"),
        ("v {x.sum()}", "E103", 3, "sum(x)"),
        ("v {x.__class__}", "E107", 3, "another name"),
        ("v {lambda: 0}", "E100", 8, "Python"),
        ("${epohc}", "E112", 0, "epoch"),
        ("a ${HOME}", "E112", 2, "$${HOME}"),
        ("a ${x", "E112", 2, "close"),
        ("{x + ${epoch}}", "E112", 5, "epoch"),
        ("{{{x:{y}}}}", "E113", 5, "{x:.3f}"),
    ],
)
def test_an_invalid_placeholder_has_its_fault_and_position(text, code, at, mend):
    reported = fault(read, text)

    assert reported[:2] == (code, at)
    assert mend in reported[3]


def test_all_faults_of_a_text_are_reported_together():
    reported = faults(read, "{x:q} ${a} } {foo(1)} {")

    assert [(code, at) for code, at, *_ in reported] == [
        ("E113", 3),
        ("E112", 6),
        ("E113", 11),
        ("E104", 14),
        ("E113", 22),
    ]


def test_a_text_has_a_limit():
    assert fault(read, "x" * 70_000)[0] == "E108"
    assert fault(read, "{" + "(" * 100 + "x" + ")" * 100 + "}")[0] == "E113"


@given(st.text("{}$x:[]()'\" .3!=\\", max_size=30), st.booleans())
def test_any_text_is_a_text_or_a_fault(text, holes):
    with suppress(SpecError):
        parsed = read(text, holes=holes)
        assert all(isinstance(part, str | Hole | Builtin) and part != "" for part in parsed.parts)
