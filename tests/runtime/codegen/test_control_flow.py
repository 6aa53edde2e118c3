"""Loops, branches and stops. What ``stop`` leaves is the block with its target's path."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.graph.expressions import Const
from jobrun.graph.steps import Guard, If, Loop, Parallel, Stop, UseNet, While
from jobrun.runtime.codegen.control_flow import StopBlock, called_steps, inlined_steps
from jobrun.runtime.context.cancel import CancelledError
from jobrun.testing.graphs import expr, log, steps
from tests.support.step_bench import Bench

LOOP, INNER = "e/t/loop", "e/t/inner"


@pytest.fixture(params=[None, ""], ids=["shared names", "private names"])
def shared(request):
    return request.param


@pytest.fixture
def bench():
    with Bench(n=3, k=0, seen=np.zeros(9, np.int64)) as step_bench:
        yield step_bench


def loop(count, *parts, path=LOOP):
    return Loop(None if count is None else expr(count), steps(*parts), path)


def stop(condition, target):
    return Stop(None if condition is None else expr(condition), target, "e/t/stop")


@pytest.mark.parametrize(
    ("count", "passes"), [("3", 3), ("0", 0), ("-2", 0), ("n", 3), ("n + 1", 4)]
)
def test_a_loop_counts(bench, shared, count, passes):
    assert bench.do(loop(count, "k += 1"), shared=shared)["k"] == passes


def test_the_count_is_read_again_at_each_pass(bench, shared):
    blobs = bench.do(loop("n", "k += 1; n = n + 1 if n < 6 else n"), shared=shared)
    assert blobs["k"] == 6

    blobs = bench.do("n = 5; k = 0", loop("n", "k += 1; n -= 1"), shared=shared)
    assert blobs["k"] == 3


@pytest.mark.parametrize("count", ["2.0", "True", "seen", "'2'"])
def test_a_count_that_is_no_integer_is_refused(bench, count):
    with pytest.raises(TaskFailedError) as caught:
        bench.do(loop(count, "k += 1"))

    assert (caught.value.faults[0].code, caught.value.faults[0].path) == ("E204", LOOP)


@pytest.mark.parametrize("count", [np.int8(2), np.array(2)])
def test_numpy_integers_are_counts(bench, count):
    bench.blobs["n"] = count

    assert bench.do(loop("n", "k += 1"))["k"] == 2


def test_the_pass_number_counts_from_zero_again_in_inner_loops(bench, shared):
    inner = Loop(Const(2), steps("seen[k] = iter; k += 1"), "e/t/loop")
    outer = Loop(Const(2), (inner,), "e/t/outer")

    assert bench.do(outer, shared=shared)["seen"].tolist() == [0, 1, 0, 1, 0, 0, 0, 0, 0]


def test_an_action_finds_the_pass_number(bench):
    bench.do(loop("3", log(("iter", ""))))

    assert [event.text for event in bench.events] == ["0", "1", "2"]


def test_while_looks_before_each_pass(bench, shared):
    assert bench.do(While(expr("k < n"), steps("k += 1"), LOOP), shared=shared)["k"] == 3
    assert bench.do(While(expr("k < n"), steps("k += 1"), LOOP), shared=shared)["k"] == 3


@pytest.mark.parametrize("value", [1, 0.5, "yes", None, np.ones(2, bool), np.int64(1)])
def test_a_condition_is_a_bool_and_nothing_else(bench, value):
    if value is not None:
        bench.blobs["k"] = value
    for step in (
        While(expr("k"), steps("n = 0"), "e/t/c"),
        If(((expr("k"), steps("n = 0")),), (), "e/t/c"),
        Stop(expr("k"), "e/t", "e/t/c"),
    ):
        if value is None:
            bench.blobs["k"] = 0
        with pytest.raises(TaskFailedError) as caught:
            bench.do(step)
        assert (caught.value.faults[0].code, caught.value.faults[0].path) == ("E203", "e/t/c")


@pytest.mark.parametrize("value", [np.bool_(True), np.array(True)])
def test_numpy_bools_are_conditions(bench, value):
    bench.blobs["k"] = value

    assert bench.do(If(((expr("k"), steps("n = 0")),)))["n"] == 0


def test_the_first_branch_that_holds_runs_and_later_conditions_are_not_looked_at(bench, shared):
    branches = (
        (expr("k > 0"), steps("n = 1")),
        (expr("k == 0"), steps("n = 2")),
        (expr("1 / k > 0"), steps("n = 3")),
    )
    assert bench.do(If(branches, steps("n = 4")), shared=shared)["n"] == 2


def test_else_runs_when_nothing_holds(bench, shared):
    step = If(((expr("k > 0"), steps("n = 1")), (expr("k > 1"), steps("n = 2"))), steps("n = 4"))

    assert bench.do(step, shared=shared)["n"] == 4
    assert bench.do(If(((expr("k > 0"), steps("n = 1")),)), shared=shared)["n"] == 4


def test_stop_leaves_the_innermost_loop_or_the_named_one(bench, shared):
    inner = loop("5", "k += 1", stop("k == 2", INNER), path=INNER)
    assert bench.do(loop("3", inner), shared=shared)["k"] == 12

    outer = loop("5", "k += 1", stop("k == 2", LOOP), "k += 0", path=INNER)
    assert bench.do("k = 0", loop("3", outer, "k += 100"), shared=shared)["k"] == 2


def test_stop_inside_an_if_leaves_the_loop(bench, shared):
    branch = If(((expr("k == 2"), (stop(None, LOOP),)),))

    assert bench.do(loop(None, "k += 1", branch), shared=shared)["k"] == 2


def test_stop_ends_the_task_from_within_loops(bench, shared):
    blobs = bench.do(
        loop("3", loop("3", "k += 1", stop("k == 4", "e/t"), path=INNER)), "k = 99", shared=shared
    )

    assert blobs["k"] == 4


def test_stop_in_a_plain_body_ends_it_once(bench, shared):
    assert bench.do("k += 1", stop("True", "e/t"), "k = 99", shared=shared)["k"] == 1


def test_a_guard_flag_is_true_after_a_stop(bench, shared):
    body = steps("k += 1", stop("n == 3", "e/t/guard"), "k = 99")
    blobs = bench.do(Guard("was", body, "e/t/guard"), "k += 10", shared=shared)
    assert (blobs["was"], blobs["k"]) == (True, 11)

    blobs = bench.do("n = 4", Guard("was", body, "e/t/guard"), shared=shared)
    assert (blobs["was"], blobs["k"]) == (False, 99)


def test_a_stop_through_a_guard_leaves_what_it_names(bench, shared):
    guard = Guard("was", steps("k += 1", stop("k == 2", LOOP)), "e/t/guard")

    blobs = bench.do(loop("9", guard, "k += 0"), "n = 7", shared=shared)

    assert (blobs["k"], blobs["was"], blobs["n"]) == (2, True, 7)


def test_a_loop_inside_a_guard_can_be_left(bench, shared):
    guard = Guard("was", (loop(None, "k += 1", stop("k == 3", LOOP)),), "e/t/guard")

    blobs = bench.do(guard, shared=shared)

    assert (blobs["k"], blobs["was"]) == (3, False)


def test_a_guard_that_ends_the_task_writes_names_back(bench):
    guard = Guard("was", steps("k = 5", stop(None, "e/t")), "e/t/guard")

    blobs = bench.do(guard, "k = 99")

    assert (blobs["k"], blobs["was"]) == (5, True)


def test_a_stop_of_an_outer_block_passes_through(bench):
    with pytest.raises(StopBlock) as caught:
        bench.do(loop("2", stop(None, "somewhere/else")))

    assert caught.value.target == "somewhere/else"


def test_a_stop_in_a_branch_of_parallel_leaves_the_branch(bench):
    branches = (steps("a = 1", stop(None, "e/t/parallel[0]"), "a = 2"), steps("b = 1"))

    blobs = bench.do(Parallel(branches, "e/t/parallel"), "c = a + b")

    assert (blobs["a"], blobs["b"], blobs["c"]) == (1, 1, 2)


def test_a_stop_in_a_branch_may_leave_the_loop_around(bench):
    branches = (steps("a = iter", stop("iter == 2", LOOP)), steps("b = iter"))

    blobs = bench.do(loop("9", Parallel(branches, "e/t/parallel")), "k = 7")

    assert (blobs["a"], blobs["b"], blobs["k"]) == (2, 2, 7)


def test_a_net_is_no_block(bench, shared):
    used = UseNet("f", steps("k += 1", stop("k == 2", LOOP)), "e/t/net")

    assert bench.do(loop(None, used, used), shared=shared)["k"] == 2


def test_blocks_may_be_nested_deeper_than_python_allows(bench, shared):
    body = steps("k += 1", stop("k == 3", "e/t/l39"), log(("iter", "")))
    for depth in range(40):
        path = f"e/t/l{depth}" if depth else LOOP
        body = (Loop(Const(2 if depth in {0, 39} else 1), body, path),)

    blobs = bench.do(*body, "n = 8", shared=shared)

    assert (blobs["k"], blobs["n"]) == (3, 8)


@pytest.mark.parametrize("depth", range(12))
def test_the_pass_of_any_loop_around_can_be_read_however_deep(bench, shared, depth):
    # 'iter' is that of the loop with the path LOOP, which runs three times.
    body = steps("k += iter")
    for level in reversed(range(12)):
        chosen = level == depth
        body = (Loop(Const(3 if chosen else 1), body, LOOP if chosen else f"e/t/l{level}"),)

    assert bench.do(*body, shared=shared)["k"] == 3


FOREVER = {
    "forever": Loop(None, steps("k += 1"), LOOP),
    "forever, without a step": Loop(None, (), LOOP),
    "counted": Loop(Const(10**15), steps("k += 1"), LOOP),
    "numbered": Loop(Const(10**15), steps("k = iter"), LOOP),
    "counted anew": Loop(expr("n"), steps("n += 1"), LOOP),
    "while": While(expr("k >= 0"), steps("k += 1"), LOOP),
    "inside a loop": Loop(None, (Loop(Const(2), steps("k += 1"), INNER),), LOOP),
    "around a loop": Loop(None, (Loop(None, steps("k += 1"), INNER),), LOOP),
    "with an action": Loop(None, steps("k += 1", log("a")), LOOP),
}


@pytest.mark.parametrize("step", FOREVER.values(), ids=FOREVER)
def test_a_cancelled_loop_ends(bench, step, shared):
    timer = threading.Timer(0.02, bench.run.body.cancel)
    timer.start()

    with pytest.raises(CancelledError):
        bench.do(step, shared=shared)

    timer.join()


@pytest.mark.parametrize("count", ["10", "1000", "n"])
def test_a_loop_of_expressions_sees_a_cancel_before_the_next_pass(bench, count):
    # Numpy calls this in the middle of a pass.
    note = np.errstate(divide="call", call=lambda *_: bench.run.body.cancel())
    bench.blobs.update(n=1000, low=np.float64(3))

    with note, pytest.raises(CancelledError):
        bench.do(loop(count, "k += 1; low -= 1; t = 1 / low"))

    assert bench.blobs["k"] == 3


def test_steps_after_a_cancelled_loop_do_not_run(bench):
    bench.run.body.cancel()

    with pytest.raises(CancelledError):
        bench.do(loop("3", "k += 1"), "n = 9")

    assert (bench.blobs["k"], bench.blobs["n"]) == (0, 3)


def test_a_cancelled_run_ends_between_steps(bench):
    bench.run.body.cancel()

    with pytest.raises(CancelledError):
        bench.do("k += 1")

    assert bench.blobs["k"] == 0


def test_every_step_is_inside_or_outside_of_the_code():
    body = steps("x = 1", loop("2", log("a"), If(((expr("True"), steps(log("b"))),))))

    assert len(list(inlined_steps(body))) == 3
    assert [step.text.parts for step in called_steps(body)] == [("a",), ("b",)]
