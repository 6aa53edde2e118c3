from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.compile.lowering.text_templates import parse_text
from jobrun.core.errors import SpecError
from jobrun.graph.expressions import (
    Attribute,
    Builtin,
    Compare,
    Const,
    Hole,
    Index,
    Name,
    Slice,
    Text,
)
from tests.support.expressions import ORIGIN, fault, faults
from tests.support.tables import each_case


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
def test_what_cannot_be_filled_in_has_its_fault_and_place(text, code, at, mend):
    found = fault(read, text)

    assert found[:2] == (code, at)
    assert mend in found[3]


def test_all_faults_of_a_text_are_told_together():
    found = faults(read, "{x:q} ${a} } {foo(1)} {")

    assert [(code, at) for code, at, *_ in found] == [
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
        found = read(text, holes=holes)
        assert all(isinstance(part, str | Hole | Builtin) and part != "" for part in found.parts)
