from __future__ import annotations

import threading
from typing import get_args

import numpy as np
import pytest

from jobrun.checkpoint.store_protocol import StoredFile
from jobrun.core.errors import TaskFailedError
from jobrun.core.events import Logged, Measured
from jobrun.graph.effects import DECLARED, Assert, DeclaredEffect, Effect, Metric, Sleep
from jobrun.graph.steps import LoadState, Parallel, SaveState, Step
from jobrun.runtime.codegen.coercion import metric_number
from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.steps.dispatch import _EFFECTS
from jobrun.testing.graphs import expr, log, steps, text
from jobrun.values.compare import same_bits
from jobrun.values.kinds.counter import Counter
from tests.support.step_bench import Bench


@pytest.fixture
def bench(tmp_path):
    with Bench(str(tmp_path), x=np.arange(3.0), n=2) as step_bench:
        yield step_bench


def test_each_kind_of_effect_can_be_carried_out():
    effects = {kind for kind in get_args(Step) if issubclass(kind, Effect)}
    assert set(_EFFECTS) == effects - {DeclaredEffect}
    assert all(kind.action is not DeclaredEffect.action for kind in DECLARED.values())


def test_a_log_step_says_who_and_where(bench):
    bench.do(log("x is ", ("x[1]", ".2f"), ", n ", ("n", "")))

    assert bench.events == [Logged("x is 1.00, n 2", "t", "local", 0, 3, "e/t/log")]


def test_metrics_are_reported_all_or_none(bench):
    bench.do(Metric((("a", expr("sum(x)")), ("b", expr("n"))), path="e/t/metric"))
    assert bench.events == [
        Measured("a", 3.0, 3, "t", "local", 0),
        Measured("b", 2, 3, "t", "local", 0),
    ]

    with pytest.raises(TaskFailedError) as caught:
        bench.do(Metric((("a", expr("n")), ("b", expr("x"))), path="e/t/metric"))
    assert caught.value.faults[0].code == "E212"
    assert len(bench.events) == 2


@pytest.mark.parametrize(
    ("value", "expected"),
    [(np.float32(0.5), 0.5), (np.array([[3]]), 3), (np.bool_(True), True), (Counter(2), 2),
     ("a", "a")],
)  # fmt: skip
def test_a_metric_becomes_a_python_value(value, expected):
    assert metric_number(value, "m") == expected
    assert type(metric_number(value, "m")) is type(expected)


@pytest.mark.parametrize("value", [1j, np.zeros(2), [1.0]])
def test_a_value_that_is_no_metric_is_refused(value):
    with pytest.raises(TaskFailedError, match="metric 'm'"):
        metric_number(value, "m")


def test_an_assertion_that_holds_says_nothing(bench):
    bench.do(Assert(expr("n == 2"), text(("1 / 0", "")), "n == 2", path="e/t/assert"))


def test_a_failed_assertion_shows_its_message(bench):
    step = Assert(expr("n > 2"), text("n is ", ("n", "")), "n > 2", path="e/t/assert")

    with pytest.raises(TaskFailedError) as caught:
        bench.do(step)

    fault = caught.value.faults[0]
    assert (fault.code, fault.path) == ("E205", "e/t/assert")
    assert fault.message.startswith("the assertion 'n > 2' does not hold: n is 2 (")


def test_an_assertion_wants_a_bool(bench):
    with pytest.raises(TaskFailedError) as caught:
        bench.do(Assert(expr("n"), text(""), "n", path="e/t/assert"))

    assert caught.value.faults[0].code == "E203"


def test_a_sleep_ends_when_the_run_is_cancelled(bench):
    bench.do(Sleep(0.0))
    threading.Timer(0.05, bench.run.body.cancel).start()

    with pytest.raises(CancelledError):
        bench.do(Sleep(3600.0))


def test_state_is_held_written_and_read(bench, tmp_path):
    bench.node.update(w=np.arange(4.0), k=Counter(3), lr=0.5, scratch=1)
    path = str(tmp_path / "local.h5")
    bench.do(SaveState("local.h5", ("k", "lr", "w"), "run", "checkpoint/save"))
    stored = bench.run.snapshots.persist(bench.frame.results["ticket"], str(tmp_path)).file
    assert isinstance(stored, StoredFile)
    before = dict(bench.node)
    bench.node.clear()

    bench.do(LoadState(path, ("k", "lr", "w"), 3, "run", stored.digest, "checkpoint/load"))

    assert set(bench.node) == {"k", "lr", "w"}
    assert all(same_bits(bench.node[name], before[name]) for name in bench.node)


def test_branches_have_separate_random_streams_that_continue(bench):
    both = Parallel((steps("a = rng.random()"), steps("b = rng.random()")), "e/t/parallel")

    first = dict(bench.do(both))
    second = dict(bench.do(both, "c = rng.random()"))

    drawn = {first["a"], first["b"], second["a"], second["b"], second["c"]}
    assert len(drawn) == 5


def test_branches_share_the_names_that_several_use(bench):
    branches = tuple(steps("n += 0", f"r{i} = n") for i in range(4))

    blobs = bench.do(Parallel(branches, "e/t/parallel"))

    assert [blobs[f"r{i}"] for i in range(4)] == [2] * 4


def test_of_several_failed_branches_the_first_in_the_text_is_raised(bench):
    branches = (steps("a = 1 / 0"), steps("b = zeros(2) @ zeros(3)"))

    with pytest.raises(TaskFailedError, match="ZeroDivision"):
        bench.do(Parallel(branches, "e/t/parallel"))

    assert bench.run.errors
    assert bench.run.body.cancelled


def test_in_an_exit_block_a_failed_branch_does_not_cancel_anything(bench):
    bench.frame = bench.frame.for_cleanup("e/t", failed=False)
    branches = (steps("a = 1 / 0"), steps("b = 1"))

    with pytest.raises(TaskFailedError):
        bench.do(Parallel(branches, "e/t/parallel"))

    assert not bench.run.cleanup.cancelled
    assert not bench.run.body.cancelled
    assert bench.blobs["b"] == 1


def test_cancelled_branches_end_cancelled(bench):
    bench.run.body.cancel()
    block = bench.block(Parallel((steps("a = 1"), steps("b = 1")), "e/t/parallel"))

    with pytest.raises(CancelledError):
        block.run(bench.frame)
