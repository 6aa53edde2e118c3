"""What is computed in the memory of its operand has the bits of the text, whatever it is given."""

from __future__ import annotations

import itertools
import tracemalloc
from functools import partial

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.core.events import Noted
from jobrun.graph.expressions import Binary, Call, Draw, Name
from jobrun.ops.operator_table import implementation
from jobrun.runtime.codegen.elementwise_chains import (
    build_chain,
    elementwise,
    find_reuse_chain,
    float64_constant,
    is_fusible,
)
from jobrun.runtime.codegen.fused_kernel import elides_temporaries
from jobrun.testing.graphs import expr, net
from jobrun.values.compare import same_bits
from tests.support.step_bench import Bench
from tests.support.tables import each_case
from tests.support.thinning import thinned

RNG = np.random.default_rng(3)
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-310, 1e308, 0.5, 1.0, 7.0, -1e-30)


def numbers(shape, dtype="float64"):
    actual = RNG.normal(size=shape) * 3
    flat = actual.reshape(-1)
    flat[::3] = np.resize(SPECIAL, len(flat[::3]))
    with np.errstate(all="ignore"):
        return actual.astype(dtype)


VALUES = {
    "rows": (numbers((7, 3)), numbers(3)),
    "a column": (numbers((7, 1)), numbers(1)),
    "another order": (numbers((3, 7)).T, numbers(3)),
    "nothing": (numbers((0, 3)), numbers(3)),
    "no sum": (numbers((4, 0)), numbers(0)),
    "single": (numbers((7, 3), "float32"), numbers(3, "float32")),
    "half": (numbers((2, 3), "float16"), numbers(3, "float16")),
    "complex": (numbers((7, 3), "complex128"), numbers(3)),
    "integers": (RNG.integers(-9, 9, (7, 3)), RNG.integers(-9, 9, 3)),
    "small integers": (RNG.integers(0, 9, (7, 3), "uint8"), RNG.integers(1, 9, 3, "uint8")),
    "foreign": (numbers((7, 3)).astype(">f8"), numbers(3)),
    "flags": (RNG.random((7, 3)) < 0.5, RNG.random(3) < 0.5),
    "vectors": (numbers(3), numbers(3)),
    "a matrix": (numbers((4, 4, 3)), numbers(3)),
}
SCALARS = {
    "0-d": (np.array(0.25), np.array(3.5)),
    "numpy's": (np.float64(0.25), np.float32(3.5)),
    "Python's": (0.25, 3),
}
PRODUCTS = (
    "1 / (1 + exp(-(a @ b)))", "-(a @ b)", "0.1 * (a @ b / len(b))", "(a @ b - 2) ** 2",
    "2 - (a @ b) / a.size", "maximum(a @ b, 0)", "maximum(-1.5, a @ b)", "a @ b > 0",
    "1 / (a @ b) < 3", "(a @ b) * 9007199254740993", "(a @ b) + 9007199254740992", "-0.0 * (a @ b)",
    "(a @ b) * nan", "inf - a @ b", "(a @ b) * pi * -3", "1j * (a @ b)", "True + a @ b",
    "sqrt(1 + (a @ b) ** 2) - (a @ b)", "(a @ b) ** 3 + 1", "(a @ b) // 2 + 1",
    "exp(-(a @ b)) * (1 - tanh(2 * (a @ b)))", "ldexp(a @ b, 2)", "isnan(1 + a @ b)",
)  # fmt: skip
OTHERS = (
    "1 + exp(a)", "2 * sqrt(abs(a)) - 1", "1 - exp(-a / 2) * b", "maximum(a, 0)", "minimum(2, a)",
    "1 / (1 + exp(-exp(-a) * 3))", "(sin(a) + 1) * (cos(b) - 1)", "-sin(a) ** 2",
    "hypot(a, 3) + 1", "arctan2(0, a)", "copysign(1, a)", "power(a, 2)", "sin(a) == 1",
    "(a - 8) / 4", "a * 0.5", "2 - a", "-(a + b) / 3", "(1 - a) ** 2", "(a < 0.5) * b",
    "a + 1 == b",
)  # fmt: skip
PARTS = ("a[1:] > 0", "1 - a[:, None]", "2 / a[..., 1:]", "1 / (1 - a[1:, :])", "0.5 <= a[::2]")


@pytest.fixture
def bench():
    with Bench() as step_bench:
        yield step_bench


def written(text, a, b):
    names = {name: implementation(name) for name in elementwise()}
    return eval(
        text, {**names, "len": len, "inf": np.inf, "nan": np.nan, "pi": np.pi}, {"a": a, "b": b}
    )


def check(bench, text, a, b):
    """In blocks where all names are variables, and where none is; for epochs, and for records."""
    with np.errstate(all="ignore"):
        try:
            wanted = written(text, a, b)
        except (TypeError, ValueError, IndexError, OverflowError) as error:
            wanted = error
        ways = (bench.do, partial(bench.do_record, "a"))
        for shared, do in itertools.product(("", None), ways):
            bench.blobs.update(a=a.copy(order="K") if isinstance(a, np.ndarray) else a, b=b)
            if isinstance(wanted, Exception):
                with pytest.raises(TaskFailedError) as actual:
                    do(net(f"x = {text}"), shared=shared)
                assert str(wanted).partition("\n")[0] in str(actual.value)
                continue
            created = do(net(f"x = {text}"), shared=shared)
            assert same_bits(created["x"], wanted)
            assert same_bits(created["a"], a)
            if isinstance(wanted, np.ndarray):
                assert created["x"].flags.c_contiguous == wanted.flags.c_contiguous


@pytest.mark.parametrize("text", thinned((*PRODUCTS, *OTHERS, *PARTS), 3))
def test_arrays_of_every_kind(bench, text):
    for a, b in VALUES.values():
        check(bench, text, a, b)


@pytest.mark.parametrize("text", thinned(OTHERS, 3))
def test_numbers_stay_what_numpy_makes_of_them(bench, text):
    for a, b in SCALARS.values():
        check(bench, text, a, b)


@pytest.mark.parametrize(
    ("text", "base", "ufuncs"),
    [
        ("1 / (1 + exp(-(x @ w)))", "x @ w", "negative exp add divide"),
        ("0.1 * (x @ w / len(y))", "x @ w", "divide multiply"),
        ("1 - exp(-y)", "exp(-y)", "subtract"),
        ("-tanh(x @ w + y)", "x @ w + y", "tanh negative"),
        ("sin(y) * 2 + 1", "sin(y)", "multiply add"),
    ],
)
def test_memory_without_another_reference_is_reused(text, base, ufuncs):
    spine = find_reuse_chain(expr(text))

    assert spine.reuses
    assert spine.base == expr(base)
    assert [link.ufunc.__name__ for link in spine.links] == ufuncs.split()


@pytest.mark.parametrize(
    ("text", "base"),
    [("maximum(y, 1)", "y"), ("y[1:] > 0", "y[1:]"), ("1 - y[:, 1:]", "y[:, 1:]")],
)
def test_numbers_alone_are_made_ready_where_the_memory_has_an_owner(text, base):
    spine = find_reuse_chain(expr(text))

    assert not spine.reuses
    assert spine.base == expr(base)


@each_case(
    "text",
    ["3.7 * x * (1 - x)", "x + 1", "-x", "x > 0", "x @ w", "x @ w + y", "len(x) + 1", "exp(x)",
     "x[0] + 1", "sum(x) / 2"],
)  # fmt: skip
def test_pythons_numbers_are_not_looked_at(text):
    assert find_reuse_chain(expr(text)) is None


@pytest.mark.parametrize(
    ("text", "base", "ufuncs"),
    [
        ("(x - 8) / 4", "x - 8", "divide"),
        ("x * 0.5", "x", "multiply"),
        ("(x + y) * 0.5", "x + y", "multiply"),
    ],
)
def test_names_count_as_arrays_in_record_loops(text, base, ufuncs):
    reuse_chain = find_reuse_chain(expr(text), names=True)

    assert reuse_chain.base == expr(base)
    assert [link.ufunc.__name__ for link in reuse_chain.links] == ufuncs.split()


def test_a_batch_is_scaled_in_one_array_of_its_own(bench):
    bench.blobs["x"] = np.ones((100, 100))
    block = bench.block(net("y = (x - 8) / 4"), fields="x")

    def run() -> None:
        block.run(bench.frame, iter([(0, (bench.blobs["x"],))]), (), None)

    run()
    del bench.blobs["y"]

    tracemalloc.start()
    try:
        run()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    # Numpy itself divides in the memory of large arrays only, and makes two of middle size.
    assert most < 1.5 * bench.blobs["y"].nbytes


def test_a_number_has_the_bits_it_has_in_the_text_and_stays_so():
    assert same_bits(float64_constant((-0.0).hex()), np.array(-0.0))
    with pytest.raises(ValueError, match="read-only"):
        float64_constant((1.0).hex())[()] = 2


def test_every_operator_gives_the_same_bits_in_place():
    x = numbers(1001)
    with np.errstate(all="ignore"):
        for name in sorted(elementwise()):
            arity = implementation(name).nin
            spine = find_reuse_chain(Call(name, (expr("a @ b"), expr("0.75"))[:arity]))
            if spine is None or not spine.reuses:
                continue
            (link,) = spine.links
            for size, start in itertools.product((1, 2, 7, 8, 64, 100, 997), (0, 1, 3)):
                part = x[start : start + size].copy()
                more = [np.array(0.75)][: arity - 1]
                wanted = link.ufunc(part, *more)
                assert same_bits(link.ufunc(part, *more, out=part), wanted), name


def test_numpy_warnings_have_the_location_of_the_statement(bench):
    bench.blobs.update(a=np.zeros((4, 2)), b=np.ones(2))
    with bench.notices.errstate():
        bench.do(net("x = 1 / (a @ b); y = 1 / (1 - exp(a @ b)) "))

    warnings = [event.text for event in bench.events if isinstance(event, Noted)]
    assert [text.split(";")[0] for text in warnings] == [
        "divide by zero in e/t/steps[0]",
        "divide by zero in e/t/steps[1]",
    ]


def test_a_result_in_anothers_memory_is_the_blobs_own(bench):
    bench.blobs.update(a=numbers((5, 2)), b=numbers(2))

    with np.errstate(all="ignore"):
        created = bench.do(net("x = 1 + exp(a @ b); y = x; z = 1 + exp(a @ b); x += 1"))

    assert same_bits(created["y"], created["z"])
    assert created["x"].base is None


def test_nothing_is_held_on_to(bench):
    bench.blobs.update(a=np.ones((300, 2)), b=np.ones((2, 300)), c=np.ones((300, 300)))
    block = bench.block(net("x = (1 + exp(a @ b)) * c"))
    block.run(bench.frame)
    del bench.blobs["x"]

    tracemalloc.start()
    try:
        block.run(bench.frame)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    # Numpy itself multiplies in the memory of what nobody else has, if it can.
    arrays = 1 if elides_temporaries() else 2
    assert most < (arrays + 0.5) * bench.blobs["x"].nbytes


def program(text):
    chain = build_chain(expr(text))
    leaves = [getattr(leaf, "name", type(leaf).__name__) for leaf in chain.leaves]
    return leaves, [
        (instruction.ufunc.__name__, instruction.operands) for instruction in chain.instructions
    ]


def test_a_chain_is_a_program_over_its_leaves():
    leaves, instructions = program("exp(-x) * a + x")

    assert leaves == ["x", "a"]
    assert instructions == [
        ("negative", (0,)),
        ("exp", (2,)),
        ("multiply", (3, 1)),
        ("add", (4, 0)),
    ]


def test_a_common_subexpression_is_computed_once():
    assert len(program("(x - m) * (x - m) + (m - x)")[1]) == 4


def test_two_equal_draws_are_drawn_twice():
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
