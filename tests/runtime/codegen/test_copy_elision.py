from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from jobrun.graph.steps import If, Loop, Net
from jobrun.runtime.codegen.copy_elision import find_moves
from jobrun.runtime.codegen.liveness import BlockNames, collect_usage
from jobrun.testing.graphs import expr, net, steps
from tests.support.step_bench import Bench
from tests.support.tables import each_case


def moved(*parts, temporaries=("t",)):
    body = steps(*parts)
    move_plan = find_moves(body, frozenset(temporaries))
    nets = [step for step in body if hasattr(step, "ops")]
    return [i for net in nets for i, op in enumerate(net.ops) if id(op) in move_plan.ops]


@each_case(
    ("text", "positions"),
    [
        ("t = x + 1; x = t", [1]),
        ("t = x + 1; y = t * 2; x = t", [2]),
        ("t = x + 1; x = t; y = t", [2]),
        ("t = x + 1; x = t; t[0] = 1", []),
        ("x = t; t = x + 1", []),
        ("t = t + 1; x = t", []),
        ("t = x + 1; x[0] = t", []),
        ("t = x + 1; x = t[0]", []),
        ("u = x + 1; x = u", []),
        ("a, b = b, a", [0]),
    ],
)
def test_a_temporary_is_handed_on_at_its_last_use(text, positions):
    assert moved(text) == positions


def test_a_name_that_other_steps_use_is_not_handed_on():
    assert moved("t = x + 1; x = t", If(((expr("t > 0"), ()),))) == []
    assert moved("t = x + 1; x = t", "y = t") == []
    assert moved(Loop(expr("t"), ()), "t = x + 1; x = t") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t = x + 1; y = t * 2; z = t + y", {2: ("t",)}),
        ("t = x + 1; u = t + 1; y = t * u", {2: ("t", "u")}),
        ("t = x + 1; t = t + 1; y = t", {2: ("t",)}),
        ("t = x + 1", {0: ("t",)}),
        ("t = t + 1; y = t", {}),
        ("y = t; t = x + 1", {}),
        ("t = x + 1; del t", {}),
    ],
)
def test_a_temporary_ends_with_its_last_use(text, expected):
    body = net(text)
    last_used = find_moves((body,), frozenset({"t", "u"})).last_used

    assert {
        body.ops.index(op): last_used[id(op)] for op in body.ops if id(op) in last_used
    } == expected


def test_an_operator_that_occurs_twice_has_no_last_use():
    op = net("t = x + 1; y = t").ops

    assert not find_moves((Net((*op, *op)),), frozenset({"t"})).last_used


def run(text, **blobs):
    body = (net(text),)
    with Bench(**blobs) as bench:
        names = BlockNames(
            {}, frozenset(), frozenset(blobs), frozenset(collect_usage(body).changed)
        )
        from jobrun.runtime.codegen.compiler import compile_block  # noqa: PLC0415

        compile_block(body, "e/t", names, lambda step: None).run(bench.frame)
        return bench.blobs


def test_a_former_view_is_never_moved_as_an_owned_array():
    blobs = run("t = M[0]; x = t; x += 1", M=np.zeros((2, 2)), x=np.zeros(2))

    assert blobs["M"].tolist() == [[0, 0], [0, 0]]


def test_a_view_of_a_moved_temporary_keeps_its_values():
    blobs = run("t = x + 1; y = t[:1]; x = t; x += 1", x=np.zeros(2), y=np.zeros(1))

    assert blobs["y"].tolist() == [1]
    assert blobs["x"].tolist() == [2, 2]


def test_memory_of_a_temporary_is_free_after_its_last_use():
    million = np.ones(1 << 20)
    tracemalloc.start()
    try:
        run("t = x + 1; y = sum(t); u = x + 2; z = sum(u)", x=million, y=0.0, z=0.0)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert most < 1.5 * million.nbytes
