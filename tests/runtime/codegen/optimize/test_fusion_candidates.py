"""What a chain of elementwise operators is, as a program."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.graph.expressions import Binary, Draw, Name
from jobrun.runtime.codegen.optimize.fusion_candidates import build_chain, elementwise, is_fusible
from jobrun.testing.graphs import expr
from tests.support.tables import each_case


def program(text):
    chain = build_chain(expr(text))
    leaves = [getattr(leaf, "name", type(leaf).__name__) for leaf in chain.leaves]
    return leaves, [(one.ufunc.__name__, one.operands) for one in chain.instructions]


def test_a_chain_is_a_program_over_its_leaves():
    leaves, instructions = program("exp(-x) * a + x")

    assert leaves == ["x", "a"]
    assert instructions == [
        ("negative", (0,)),
        ("exp", (2,)),
        ("multiply", (3, 1)),
        ("add", (4, 0)),
    ]


def test_what_is_written_twice_is_computed_once():
    assert len(program("(x - m) * (x - m) + (m - x)")[1]) == 4


def test_what_is_drawn_twice_is_drawn_twice():
    draw = Draw("random")
    tree = Binary(Binary(draw, "*", draw), "+", Name("x"))

    assert len(build_chain(tree).leaves) == 3


@pytest.mark.parametrize(
    ("text", "leaf"),
    [
        ("sum(x) * x + 1 - x", "Call"), ("x[0] * 2 + x - 1", "Index"), ("x.T * 2 + 1 - x", "T"),
        ("(x @ x) * 2 + 1 - x", "Binary"), ("rng.random(3) * x - x * 2", "Draw"),
    ],
)  # fmt: skip
def test_anything_else_is_a_leaf(text, leaf):
    assert leaf in program(text)[0]


@each_case(
    ("text", "is_one"),
    [
        ("x * y + 1", False), ("x * y + 1 - x", True), ("1 + 2 * 3 - 4", False),
        ("sum(x * y + 1 - x)", False), ("x ** 2 + x * y", True), ("x ** 3 + x * y", False),
        ("maximum(x, 0) * y + 1", True), ("where(x, y, x) + 1 - x", False),
        ("~(x & y) | x", True), ("x << 2 << 1 << 1", False), ("divmod(x, y)", False),
        ("(x < y) * x + 1", True), ("(0 < x < y) * x + 1", False),
    ],
)  # fmt: skip
def test_three_operators_in_a_row_are_a_chain(text, is_one):
    assert is_fusible(expr(text)) is is_one


def test_operators_with_several_results_or_whole_rows_are_none():
    assert not {"modf", "frexp", "divmod", "matmul", "vecdot"} & elementwise()
    assert {"exp", "maximum", "less", "abs"} <= elementwise()
    assert isinstance(np.exp, np.ufunc)
