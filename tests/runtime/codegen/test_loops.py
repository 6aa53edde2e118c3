"""Which loops need their pass number, and which counts may be read once."""

from __future__ import annotations

import ast
import copy

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.graph.expressions import Const
from jobrun.graph.steps import If, Loop
from jobrun.runtime.codegen import coercion
from jobrun.runtime.codegen.compiler import compile_block
from jobrun.runtime.codegen.control_flow import (
    build_counted_loop,
    find_inputs,
    is_steady,
    reads_pass,
)
from jobrun.runtime.codegen.expressions import Globals
from jobrun.runtime.codegen.liveness import BlockNames
from jobrun.runtime.codegen.step_meter import Meter
from jobrun.runtime.context.cancel import PASSES
from jobrun.testing.graphs import expr, steps
from jobrun.values.compare import same_bits
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


@pytest.mark.parametrize("meter", [None, Meter()], ids=["plain", "profiled"])
@pytest.mark.parametrize("body", ["x = x * y", "x = 3.7 * x * (1 - x)"], ids=["short", "chain"])
def test_a_loop_of_floats_checks_no_operand(monkeypatch, body, meter):
    checked = []
    monkeypatch.setattr(coercion, "require_bounded", lambda value: checked.append(value) or value)
    loop = Loop(Const(300), steps(body), "e/t/loop")
    names = BlockNames(elsewhere=frozenset({"x", "y"}), meter=meter)

    with Bench(x=0.5, y=0.75) as bench:
        compile_block((loop,), "e/t", names, lambda _: None).run(bench.frame)

    assert bench.blobs["x"] != 0.5
    assert checked == []


_TEN = "x += one; y = x * one; y -= one; x = x - y / 2; y = y + x; x *= 1.5; y = -y; z = y"


def _by_hand(values, passes):
    names = dict(values)
    for _ in range(passes):
        exec(_TEN.replace("; ", "\n"), {}, names)
    return names


@pytest.mark.parametrize(
    "values",
    [
        {"x": 0.25, "one": 1.0},
        {"x": 3, "one": 1},
        {"x": 2, "one": 1.0},
        {"x": np.float32(0.1), "one": np.float64(1.0)},
        {"x": np.arange(4.0), "one": np.ones(4)},
        {"x": np.arange(6).reshape(2, 3).astype("f4").T, "one": 2.0},
        {"x": np.array(1.5), "one": np.array(1)},
        {"x": 1 + 2j, "one": 0.5},
    ],
    ids=repr,
)
def test_arithmetic_in_a_loop_gives_what_plain_python_gives(values):
    expected = _by_hand(copy.deepcopy(values), 5)

    with Bench(**values) as bench:
        bench.do(Loop(Const(5), steps(_TEN), "e/t/loop"))

    assert bench.blobs.keys() == expected.keys()
    assert all(same_bits(bench.blobs[name], expected[name]) for name in expected)
    assert bench.blobs["z"] is not bench.blobs["y"] or not isinstance(bench.blobs["y"], np.ndarray)


@pytest.mark.parametrize(
    ("body", "values", "code"),
    [
        ("x += y", {"x": [1], "y": [2]}, "E248"),
        ("x = x + y", {"x": [1], "y": [2]}, "E248"),
        ("x += y", {"y": 1.0}, "E201"),
        ("x = x * x", {"x": 3}, "bits"),
        ("x *= x", {"x": 3}, "bits"),
    ],
)
def test_operands_that_are_no_numbers_are_refused_in_a_loop(body, values, code):
    with Bench(**values) as bench, pytest.raises(TaskFailedError, match=code):
        bench.do(Loop(Const(40), steps(body), "e/t/loop"))


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("x += y", ("x", "y")),
        ("t = x * 2.5; x = t - y", ("x", "y")),
        ("x = t; t = -x", ("t",)),
        ("x = sqrt(y)", None),
        ("x **= y", None),
        ("x[0] += y", None),
        ("x = foreign + 1", None),
        ("x = 'text'", None),
    ],
)
def test_the_inputs_of_arithmetic_are_what_it_reads_first(body, inputs):
    assert find_inputs(steps(body), {"x", "y", "t"}) == inputs
