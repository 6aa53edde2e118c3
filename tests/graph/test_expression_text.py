from __future__ import annotations

from hypothesis import given
from msgspec.structs import replace

from jobrun.compile.lowering.expressions import parse_text
from jobrun.graph.expression_text import render_expr, render_text
from jobrun.graph.expressions import Binary, Const, LoopIndex, Name, NodeBlob, Unary
from jobrun.graph.traversal import map_expr
from tests.support.expressions import ORIGIN, expression, trees
from tests.support.tables import each_case

AS_WRITTEN = (
    "w - lr * X.T @ (p - y) / n",
    "-x ** 2",
    "(-x) ** -y",
    "a ** b ** c",
    "(a ** b) ** c",
    "a - (b - c)",
    "not a and (b or c)",
    "not (a and b)",
    "a < b <= c",
    "(a < b) == c",
    "(a if b else c) + 1",
    "a if b else c if d else e",
    "x[1:, ::2, ..., None]",
    "x[()]",
    "x[a,]",
    "zeros((2, 3), float32)",
    "(5).T",
    "x[[1, 2]].shape[0]",
    "node.name == 'a'",
    "rng.normal(0.0, 1.0, size=(2,))",
    "fit.loss[-1]",
    "'${run.dir}/x'",
    "-1j * x",
)


@each_case("text", AS_WRITTEN)
def test_no_bracket_is_added_or_lost(text):
    assert render_expr(expression(text)) == text


@given(trees())
def test_reading_what_was_written_gives_the_same_tree(tree):
    # 1, 1.0 and True are equal, but not the same value.
    assert repr(_without_places(expression(render_expr(tree)))) == repr(_without_places(tree))


def _without_places(tree):
    return map_expr(tree, lambda part: replace(part, at=0) if hasattr(part, "at") else part)


def test_a_negative_constant_is_no_operator():
    assert render_expr(Binary(Const(-5), "**", Const(2))) == "(-5) ** 2"
    assert render_expr(Unary("-", Const(-5))) == "--5"


def test_resolved_names_are_written_as_in_the_spec():
    assert render_expr(LoopIndex("epoch/t/steps[0]")) == "iter"
    assert render_expr(NodeBlob("trainer_0", "loss")) == "trainer_0.loss"


def test_a_text_is_written_as_in_the_spec():
    written = "at ${epoch} on ${node}: {loss:.3g} {{x}} costs $$5"

    text = parse_text(written, ORIGIN, "p", {}, holes=True)

    assert render_text(text) == written


def test_a_dollar_in_a_constant_stays_one():
    assert expression(render_expr(Const("$${x}"))) == Const("$${x}")
    assert render_expr(Name("x")) == "x"
