from __future__ import annotations

from jobrun.graph.expressions import (
    Binary,
    Builtin,
    Call,
    Compare,
    Conditional,
    Const,
    Draw,
    Index,
    Logical,
    Name,
    Sequence,
    Slice,
    Text,
    Unary,
)
from tests.support.expressions import expression, fault, faults
from tests.support.tables import each_case

A, B, C = Name("a"), Name("b"), Name("c")


@each_case(
    ("text", "tree"),
    [
        ("1", Const(1)),
        ("1.5e3", Const(1500.0)),
        ("2j", Const(2j)),
        ("True", Const(True)),
        ("None", Const(None)),
        ("'a' 'b'", Const("ab")),
        ("-5", Const(-5)),
        ("-5.0", Const(-5.0)),
        ("-True", Unary("-", Const(True))),
        ("--5", Unary("-", Const(-5))),
        ("-a", Unary("-", A)),
        ("+a", Unary("+", A)),
        ("~a", Unary("~", A)),
        ("not a", Unary("not", A)),
        ("-2 ** 2", Unary("-", Binary(Const(2), "**", Const(2)))),
        ("a if b else c", Conditional(B, A, C)),
        ("a and b and c", Logical("and", (A, B, C))),
        ("a and b or c", Logical("or", (Logical("and", (A, B)), C))),
        ("a < b <= c != a", Compare(A, ("<", "<=", "!="), (B, C, A))),
        ("a > b", Compare(A, (">",), (B,))),
        ("a >= b == c", Compare(A, (">=", "=="), (B, C))),
        ("()", Sequence(())),
        ("a,", Sequence((A,))),
        ("[a, [b]]", Sequence((A, Sequence((B,), "list")), "list")),
        ("a[1]", Index(A, Const(1))),
        ("a[b, 1]", Index(A, Sequence((B, Const(1))))),
        ("a[:]", Index(A, Slice())),
        ("a[1:b:2]", Index(A, Slice(Const(1), B, Const(2)))),
        ("a[..., None]", Index(A, Sequence((Const(None, ellipsis=True), Const(None))))),
        ("a[...]", Index(A, Const(None, ellipsis=True))),
        ("exp(a)", Call("exp", (A,))),
        ("sum(a, axis=0)", Call("sum", (A,), (("axis", Const(0)),))),
        ("rng.normal(a, size=3)", Draw("normal", (A,), (("size", Const(3)),))),
    ],
)
def test_a_form_of_the_language_becomes_its_tree(text, tree):
    parsed = expression(text)

    assert parsed == tree
    assert repr(expression(text)) == repr(parsed)


@each_case("sign", ["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>"])
def test_every_operator_is_known(sign):
    assert expression(f"a {sign} b") == Binary(A, sign, B)


def test_a_text_may_hold_what_only_the_run_knows():
    assert expression("'${run.dir}/x'") == Text((Builtin("run.dir"), "/x"))
    assert expression("'$$5'") == Const("$5")
    assert fault(expression, "a == '${foo}'")[:2] == ("E112", 5)


def test_a_list_has_a_limit():
    assert len(expression("[" + "1," * 1000 + "]").items) == 1000
    assert fault(expression, "[" + "1," * 1001 + "]")[0] == "E108"


def test_a_wide_expression_has_a_limit():
    assert fault(expression, "[" + ",".join(["[a,a,a]"] * 500) + "]")[0] == "E108"


@each_case(
    ("text", "code"),
    [
        ("'%d' % a", "E116"), ("'a' * 3", "E116"), ("3 * 'a'", "E116"), ("[a] * b", "E116"),
        ("'${run.dir}' * 2", "E116"), ("2 ** 100", "E109"), ("1e400", "E109"), ("...", "E102"),
        ("b'a'", "E102"), ("a[::b'']", "E102"), ("a(b)", "E104"), ("a[0](b)", "E104"),
        ("'a'.b", "E103"), ("a.b.c", "E103"), ("rng.foo()", "E115"), ("sum(**a)", "E102"),
    ],
)  # fmt: skip
def test_an_unsupported_expression_has_its_code(text, code):
    assert code in {fault[0] for fault in faults(expression, text)}


def test_short_lists_may_be_repeated_and_joined():
    assert expression("zeros((2,) * 3 + a.shape)").function == "zeros"


def test_reading_continues_after_a_fault():
    reported = faults(expression, "a.foo() + [x for x in a] + exp(rng, b'')")

    assert [code for code, *_ in reported] == ["E103", "E102", "E106", "E102", "E105"]


def test_fifty_levels_are_allowed():
    assert expression("-" * 49 + "a")
    assert fault(expression, "-" * 50 + "a")[0] == "E108"
