"""Which loops need their pass number, and which counts may be read once."""

from __future__ import annotations

import ast

import pytest

from jobrun.graph.expressions import Const
from jobrun.graph.steps import If, Loop
from jobrun.runtime.codegen.expressions import Globals
from jobrun.runtime.codegen.loops import build_counted_loop, is_steady, reads_pass
from jobrun.runtime.frame.cancel import PASSES
from jobrun.testing.graphs import expr, steps
from tests.support.step_bench import Bench
from tests.support.tables import each_case


@each_case(
    ("count", "steady"),
    [
        ("3", True), ("n", True), ("n + 1", True), ("-n", True), ("len(x)", True),
        ("x.size", True), ("epoch", True), ("k", False), ("n + k", False), ("shared", False),
        ("count_up(n)", False), ("rng.integers(3)", False), ("out('t', 'o')", False),
        ("x[0]", False), ("from_a_package(n)", False),
    ],
)  # fmt: skip
def test_a_count_is_steady_if_nothing_inside_the_loop_can_change_it(count, steady):
    assert is_steady(expr(count), {"n", "k", "x"}, {"k"}) is steady


@pytest.mark.parametrize(
    ("body", "reads"), [("k = iter", True), ("k[iter] = 1", True), ("k = 1", False)]
)
def test_a_loop_reads_its_pass_if_anything_inside_does(body, reads):
    inner = If(((expr("True"), steps(body)),), ())

    assert reads_pass(Loop(Const(2), steps(body), "e/t/loop")) is reads
    assert reads_pass(Loop(Const(2), (inner,), "e/t/loop")) is reads
    assert not reads_pass(Loop(Const(2), steps(body), "another"))


@pytest.mark.parametrize(
    "count", [0, 1, PASSES - 1, PASSES, PASSES + 1, 3 * PASSES, 3 * PASSES + 7]
)
def test_a_counted_loop_makes_exactly_its_passes(count):
    with Bench(k=0) as bench:
        assert bench.do(Loop(Const(count), steps("k += 1"), "e/t/loop"))["k"] == count


def test_the_count_is_evaluated_once():
    tree = build_counted_loop(
        "r1", ast.Name("count", ast.Load()), [ast.Pass()], ast.Pass(), Globals()
    )

    assert ast.unparse(ast.fix_missing_locations(ast.Module(tree, []))).count("count") == 1
