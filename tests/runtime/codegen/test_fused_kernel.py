"""A chain in pieces gives the bits of the expression, whatever it is given."""

from __future__ import annotations

import itertools
import tracemalloc
from contextlib import nullcontext
from types import SimpleNamespace
from weakref import ref

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.graph.expression_text import render_expr
from jobrun.graph.expressions import Const
from jobrun.ops.operator_table import implementation
from jobrun.runtime.codegen.elementwise_chains import build_chain, elementwise
from jobrun.runtime.codegen.fused_kernel import SMALLEST, FusedKernel
from jobrun.session.threads.thread_pool import ThreadPool
from jobrun.testing.graphs import expr
from jobrun.values.compare import same_bits
from tests.support.step_bench import COUNTS_REFERENCES, Bench
from tests.support.tables import each_case
from tests.support.thinning import thinned

COUNT = SMALLEST + 1237
RNG = np.random.default_rng(5)
TEXT = "(x - m) * (x - m) / s + x ** 2 - m"
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310, -1e-310, 1e308, 0.5, 1.0, 7.0, 1e-30)


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


# What a frame is to a chain.
FRAME = SimpleNamespace(run=SimpleNamespace(start_thread=None, is_alone=False))


def computed(text, *, start_thread=None, **values):
    """The value, and whether it was computed in pieces."""
    chain, worth = (
        build_chain(expr(text)),
        [SimpleNamespace(start_thread=start_thread, is_alone=False)],
    )
    leaves = [leaf.value if isinstance(leaf, Const) else values[leaf.name] for leaf in chain.leaves]
    return FusedKernel(chain)(worth, *leaves), bool(worth)


def computed_with_parts(text, **values):
    """As ``computed``, where leaves may be parts of the values."""
    chain, worth = build_chain(expr(text)), [SimpleNamespace(start_thread=None, is_alone=False)]
    leaves = [eval(render_expr(leaf), {}, values) for leaf in chain.leaves]
    return FusedKernel(chain)(worth, *leaves), bool(worth)


def written(text, **values):
    names = {name: implementation(name) for name in elementwise()}
    return eval(text, names, values)


def numbers(shape, dtype="float64"):
    actual = RNG.normal(size=shape) * 3
    flat = actual.reshape(-1)
    flat[::997] = np.resize(SPECIAL, len(flat[::997]))
    if np.dtype(dtype).kind in "iu":
        return RNG.integers(1, 100, size=shape).astype(dtype)
    return actual.astype(dtype)


def check(text, *, in_pieces=True, **values):
    actual, was = computed(text, **values)
    assert same_bits(actual, written(text, **values))
    assert was is in_pieces
    if isinstance(actual, np.ndarray):
        assert actual.base is None
    return actual


@each_case("dtype", ["float64", "float32", "float16", "complex128"])
@each_case("m", [2, 0.5, True, np.float32(0.1), np.float64(0.1), np.array(0.1)])
def test_numbers_beside_a_large_array(dtype, m):
    check("(x - m) * x / 3 + m * x", x=numbers(COUNT, dtype), m=m)


@pytest.mark.parametrize("m", [1e300, -float("inf"), float("nan"), 2**70])
def test_a_number_that_a_dtype_cannot_hold_is_what_numpy_makes_of_it(m):
    x = numbers(COUNT, "float32")
    with np.errstate(all="ignore"):
        actual, _ = computed("x * m + 1 - m", x=x, m=m)
        assert same_bits(actual, written("x * m + 1 - m", x=x, m=m))


@each_case(
    ("shape", "other"),
    [
        ((COUNT,), (COUNT,)), ((COUNT,), (1,)), ((SMALLEST // 8 + 3, 8), (8,)),
        ((SMALLEST // 8 + 3, 8), (1, 8)), ((SMALLEST // 8 + 3, 8), (SMALLEST // 8 + 3, 1)),
        ((SMALLEST // 8 + 3, 8), ()), ((700, 3, 70), (70,)), ((700, 3, 70), (3, 1)),
        ((700, 3, 70), (700, 1, 1)), ((700, 3, 70), (700, 3, 70)), ((3, SMALLEST), (3, 1)),
        ((1, COUNT), (1, COUNT)), ((2, SMALLEST), (SMALLEST,)),
    ],
)  # fmt: skip
def test_shapes_that_numpy_broadcasts(shape, other):
    check(TEXT, x=numbers(shape), m=numbers(other), s=1.5)


@each_case(
    ("first", "second"),
    list(itertools.combinations(["float64", "float32", "int64", "int8", "bool", "complex64"], 2)),
)
def test_dtypes_are_numpys(first, second):
    x, m = numbers(COUNT, first), numbers(COUNT, second)

    check("(x * m + 1) / (m * m + 2)", x=x, m=m)
    if "float" in first:
        check("(x < m) & (m >= 1) | (x == m)", x=x, m=m)


def test_results_of_several_dtypes_take_turns():
    check("(x > m) * 1.0 + (x < m) * 2 - (x > 0) * (m > 0)", x=numbers(COUNT), m=numbers(COUNT))


@pytest.mark.long
@each_case("name", sorted(elementwise()))
@pytest.mark.parametrize("dtype", thinned(["float64", "float32", "int64", "bool"], 4))
def test_every_operator_gives_an_item_the_same_bits_in_a_piece(name, dtype):
    x, m = numbers(COUNT, dtype), numbers(COUNT, dtype)
    arguments = "(x, m)" if implementation(name).nin == 2 else "(x)"
    item = f"{name}{arguments}"
    text = f"{item} & x | m" if dtype == "bool" else f"maximum({item}, 0) * 1 + 0 * x"
    try:
        written(text, x=x, m=m)
    except TypeError:
        with pytest.raises(TypeError):
            computed(text, x=x, m=m)
        return
    actual, _ = computed(text, x=x, m=m)
    assert same_bits(actual, written(text, x=x, m=m))


@each_case(
    "values",
    [
        {"x": 2.0, "m": 1, "s": 2}, {"x": numbers(50), "m": 1, "s": 2},
        {"x": numbers((400, 400)).T, "m": 1, "s": 2},
        {"x": numbers(2 * COUNT)[::2], "m": 1, "s": 2},
        {"x": numbers(COUNT, ">f8"), "m": 1, "s": 2},
        {"x": numbers(COUNT, "int64"), "m": 1, "s": 2},
        {"x": numbers(COUNT), "m": numbers(5)[:1].astype(">f8"), "s": 2},
        {"x": numbers((1, COUNT)), "m": numbers((2, 1)), "s": 2},
    ],
)  # fmt: skip
def test_a_chain_that_does_not_fit_is_computed_unfused(values):
    check(TEXT, in_pieces=False, **values)


@each_case("k", [0.5, 3, 2j, True])
def test_the_square_of_a_number_within_a_chain_is_python_s(k):
    check("x * k ** 2 + 1", in_pieces=False, x=numbers(COUNT), k=k)
    check("exp(-(x - 5) ** 2 / (2 * k ** 2))", in_pieces=False, x=numbers(COUNT), k=k)


def test_shapes_that_do_not_fit_are_numpys_error():
    with pytest.raises(ValueError, match="broadcast"):
        computed(TEXT, x=numbers(COUNT), m=numbers(COUNT - 1), s=1.0)


def test_integers_that_do_not_fit_are_numpys_error():
    with pytest.raises(OverflowError):
        computed("x * m + 1 - x", x=numbers(COUNT, "int8"), m=1000)


def test_the_leaves_are_not_changed():
    x, m = numbers(COUNT), numbers(COUNT)
    before = x.copy(), m.copy()

    check(TEXT, x=x, m=m, s=2.0)

    assert same_bits(x, before[0])
    assert same_bits(m, before[1])


def test_results_in_between_take_little_memory():
    x = np.ones(16 * SMALLEST)
    pieces, values = FusedKernel(build_chain(expr("(x - 1) * (x + 2) / (x * 3) - x"))), (x, 1, 2, 3)
    tracemalloc.start()
    try:
        result = pieces([None], *values)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert result.nbytes <= most < 1.1 * result.nbytes


def test_a_chain_of_arrays_in_two_axis_orders_gives_the_order_of_the_expression():
    texts = (
        "x * 2 - m * 3", "m * 2 - x * 3", "m * 2 + m - 1", "m * 2 - x + 1", "x * 2 - m + 1",
        "x - m * 2 + 1", "x + m * 2 - 1", "x / (m * 2) * 3", "x * (m * 2) + x * 2",
        "(m * 2 - x) + m * 2",
    )  # fmt: skip
    # From some size on numpy writes into what has no name.
    for size, kinds, text in itertools.product((40, 400), ("dd", "df", "fd", "di"), texts):
        x, m = numbers((size, 300), kinds[0]), numbers((300, size), kinds[1]).T
        actual, _ = computed(text, x=x, m=m)
        assert same_bits(actual, written(text, x=x, m=m)), text
        assert actual.strides == written(text, x=x, m=m).strides, text


def test_a_chain_that_did_not_fit_is_looked_at_again_after_a_while():
    pieces = FusedKernel(build_chain(expr("x * x + x - 1")))
    assert pieces.begin(FRAME)

    pieces(pieces.begin(FRAME), 2.0, 1)

    assert not pieces.begin(FRAME)
    assert any(pieces.begin(FRAME) for _ in range(100))


def test_a_chain_that_never_fits_is_looked_at_ever_more_rarely():
    pieces = FusedKernel(build_chain(expr("x * x + x - 1")))
    tries = 0
    for _ in range(10_000):
        worth = pieces.begin(FRAME)
        if worth:
            pieces(worth, 2.0, 1)
            tries += 1

    assert tries < 60


def test_a_small_chain_keeps_no_more_results_than_it_needs():
    x = np.ones(SMALLEST - 1)
    pieces = FusedKernel(build_chain(expr("x * 2 + 1 - 3 * 4 + 5 - 6 + 7 - 8")))
    tracemalloc.start()
    try:
        pieces([None], x, 2, 1, 3, 4, 5, 6, 7, 8)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert most < 1.1 * x.nbytes


@pytest.mark.parametrize("kinds", ["dd", "df", "di", "fd", "id", "ff", "dD"])
def test_a_chain_over_arrays_with_gaps_gives_the_bits_of_the_expression(kinds):
    x, m = (numbers((40, 30), np.dtype(kind))[:, 1:-1] for kind in kinds)
    before = x.copy(), m.copy()

    for text in (TEXT, "(x + 1) * m - (x + 1) / 3", "(x * 2 < m * 3) + x - m", "-(x - m) + m[0]"):
        actual, _ = computed_with_parts(text, x=x, m=m, s=2.0)
        assert same_bits(actual, written(text, x=x, m=m, s=2.0)), text
    assert same_bits(x, before[0])
    assert same_bits(m, before[1])


@pytest.mark.parametrize("kinds", ["dd", "df", "di", "fd", "dD"])
def test_rows_with_gaps_between_them_are_computed_in_pieces(kinds):
    x, m = (numbers((1030, 410), np.dtype(kind)) for kind in kinds)
    lhs, rhs, row = x[1:-1, :-2], m[2:, 1:-1], m[0, :-2]

    actual = check(TEXT, x=lhs, m=rhs, s=2.0)
    check("(x + m) * 2 - x * s", x=lhs, m=row, s=rhs)

    assert actual.flags.c_contiguous


@pytest.mark.parametrize("part", [np.s_[::-1, 1:-1], np.s_[:, ::-1], np.s_[:, ::2]])
def test_other_gaps_leave_a_chain_as_it_is_written(part):
    x = numbers((1030, 410))[part]

    actual, was = computed(TEXT, x=x, m=x, s=2.0)

    assert same_bits(actual, written(TEXT, x=x, m=x, s=2.0))
    assert actual.strides == written(TEXT, x=x, m=x, s=2.0).strides
    assert not was


def test_the_pieces_of_one_thread_fit_in_its_cache():
    x, m = numbers((1 << 20,)), numbers((1 << 20,))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        computed("x * m + x * 2 - m", x=x, m=m)
        most = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()

    # The result, and one buffer.
    assert most - x.nbytes < 1 << 18


REPLACING = (
    "0.9 * m + 0.1 * x", "m * m * m - x / (m + 2.0)", "(x - m) * (m - x) + sqrt(x * x)",
    "-(-(-m))", "x * x + x - m", "m - s * m / (x + 1e-8) * x", "(m > x) * 2.0 + 0.5 - x",
    "exp(m / s) * x - c * m", "r * m + c - x",
)  # fmt: skip


@pytest.mark.parametrize("text", REPLACING)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(COUNT,), (1031, 257)])
def test_a_result_in_the_memory_of_the_replaced_array(crew, text, dtype, shape):
    more = {"s": 3.0, "c": numbers((shape[0], 1) if len(shape) > 1 else (1,)),
            "r": numbers(shape[-1:]).astype(dtype), "x": numbers(shape, dtype)}  # fmt: skip
    for start_thread in (None, crew.start):
        with Bench(m=numbers(shape, dtype), **more) as bench:
            bench.run.is_alone, bench.run.start_thread = True, start_thread
            before = id(bench.blobs["m"])
            values = {name: np.copy(value) for name, value in bench.blobs.items()} | {"s": 3.0}
            wanted = written(text, **values)

            bench.do(f"m = {text}")

            assert same_bits(bench.blobs["m"], wanted)
            fits = wanted.dtype == values["m"].dtype
            assert (id(bench.blobs["m"]) == before) is (fits and COUNTS_REFERENCES)
            assert all(same_bits(bench.blobs[name], values[name]) for name in "xcr")


def test_an_array_with_another_reference_is_not_overwritten():
    x, m = numbers((COUNT,)), numbers((COUNT,))
    keep = m.copy()
    for holder in (lambda: m, lambda: [m], lambda: m[1:], lambda: memoryview(m), lambda: ref(m)):
        with Bench(m=m.copy(), x=x) as bench:
            bench.run.is_alone = True
            bench.blobs["m"] = m
            held = holder()

            bench.do("m = 0.9 * m + 0.1 * x")

            assert bench.blobs["m"] is not m
            assert same_bits(m, keep)
            del held


@pytest.mark.parametrize("text", ["x * x + x * 0.5 - c", "-(-(-x))", "(x > c) * 1.5 + x"])
def test_a_result_in_the_memory_of_its_names_old_array(crew, text):
    x, c = numbers((COUNT,)), numbers((1,))
    for old in (numbers((COUNT,)), numbers((COUNT,), "float32"), numbers((5,)), 3.5, "text"):
        for start_thread in (None, crew.start):
            with Bench(x=x.copy(), c=c) as bench:
                bench.run.is_alone, bench.run.start_thread = True, start_thread
                bench.blobs["y"] = old.copy() if isinstance(old, np.ndarray) else old
                before = id(bench.blobs["y"])

                bench.do(f"y = {text}")

                assert same_bits(bench.blobs["y"], written(text, x=x, c=c))
                assert same_bits(bench.blobs["x"], x)
                fits = np.asarray(old).dtype == x.dtype and np.shape(old) == x.shape
                assert (id(bench.blobs["y"]) == before) is (fits and COUNTS_REFERENCES)


def test_the_old_value_is_restored_if_no_result_was_assigned():
    with Bench(x=numbers((COUNT,)), y=3) as bench:
        bench.run.is_alone = True

        with pytest.raises(TaskFailedError):
            bench.do("z = nothing", "y = x * x + x * 0.5 - 1.0")

        assert bench.blobs["y"] == 3


def test_no_array_is_overwritten_that_is_visible_after_a_failure():
    with Bench(m=numbers((COUNT,)), x=numbers((COUNT,))) as bench:
        before, keep = id(bench.blobs["m"]), bench.blobs["m"].copy()

        with pytest.raises(TaskFailedError):
            bench.do("m = 0.9 * m + 0.1 * x", "y = nothing")

        assert id(bench.blobs["m"]) != before
        assert not same_bits(bench.blobs["m"], keep)


def test_a_copy_of_a_replaced_array_keeps_its_value():
    with Bench(m=numbers((COUNT,)), x=numbers((COUNT,))) as bench:
        bench.run.is_alone = True
        old, x = bench.blobs["m"].copy(), bench.blobs["x"].copy()

        bench.do("a = m; row = m[5:]; m = 0.9 * m + 0.1 * x; b = m; m = 0.5 * m - x * m")

        first = 0.9 * old + 0.1 * x
        assert same_bits(bench.blobs["a"], old)
        assert same_bits(bench.blobs["row"], old[5:])
        assert same_bits(bench.blobs["b"], first)
        assert same_bits(bench.blobs["m"], 0.5 * first - x * first)


@pytest.fixture
def crew():
    pool = ThreadPool(nullcontext)
    yield pool
    pool.close()


@pytest.mark.parametrize("shape", [(1_000_003,), (1009, 997), (3, 333_333)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_two_threads_make_the_same_bits(crew, shape, dtype):
    values = {"x": numbers(shape, dtype), "m": numbers(shape, dtype), "s": 3}
    started = []

    def start(work, done):
        started.append(work)
        crew.start(work, done)

    actual, was = computed(TEXT, start_thread=start, **values)

    assert was
    assert started
    assert same_bits(actual, written(TEXT, **values))


def test_little_is_not_worth_another_thread():
    def start(work, done):
        raise AssertionError("started")

    computed("x * x - 1.0 + x", start_thread=start, x=numbers((SMALLEST,)))


def test_the_run_says_whether_there_is_another_thread():
    assert FusedKernel(build_chain(expr(TEXT))).begin(FRAME) == [FRAME.run]
