from __future__ import annotations

import numpy as np
import pytest

from jobrun.blobs.counter import Counter
from jobrun.blobs.values import same_bits
from jobrun.checkpoint.store import StoredFile
from jobrun.core.errors import TaskFailedError
from jobrun.core.events import Logged, Measured
from jobrun.graph.steps import Assert, LoadState, Parallel, Record, SaveState
from jobrun.runtime.actions import number
from jobrun.runtime.cancel import CancelledError
from tests.support.graphs import expr, log, steps, text
from tests.support.running import Bench


@pytest.fixture
def bench(tmp_path):
    with Bench(str(tmp_path), x=np.arange(3.0), n=2) as one:
        yield one


def test_a_log_step_says_who_and_where(bench):
    bench.do(log("x is ", ("x[1]", ".2f"), ", n ", ("n", "")))

    assert bench.events == [Logged("x is 1.00, n 2", "t", "local", 0, 3, "e/t/log")]


def test_metrics_are_told_all_or_none(bench):
    bench.do(Record((("a", expr("sum(x)")), ("b", expr("n"))), "e/t/metric"))
    assert bench.events == [
        Measured("a", 3.0, 3, "t", "local", 0),
        Measured("b", 2, 3, "t", "local", 0),
    ]

    with pytest.raises(TaskFailedError) as caught:
        bench.do(Record((("a", expr("n")), ("b", expr("x"))), "e/t/metric"))
    assert caught.value.faults[0].code == "E212"
    assert len(bench.events) == 2


@pytest.mark.parametrize(
    ("value", "expected"),
    [(np.float32(0.5), 0.5), (np.array([[3]]), 3), (np.bool_(True), True), (Counter(2), 2),
     ("a", "a")],
)  # fmt: skip
def test_a_metric_becomes_a_python_value(value, expected):
    assert number(value, "m") == expected
    assert type(number(value, "m")) is type(expected)


@pytest.mark.parametrize("value", [1j, np.zeros(2), [1.0]])
def test_what_is_no_metric_is_refused(value):
    with pytest.raises(TaskFailedError, match="metric 'm'"):
        number(value, "m")


def test_an_assertion_that_holds_says_nothing(bench):
    bench.do(Assert(expr("n == 2"), text(("1 / 0", "")), "n == 2", "e/t/assert"))


def test_an_assertion_that_fails_says_what_it_was_told_to(bench):
    step = Assert(expr("n > 2"), text("n is ", ("n", "")), "n > 2", "e/t/assert")

    with pytest.raises(TaskFailedError) as caught:
        bench.do(step)

    fault = caught.value.faults[0]
    assert (fault.code, fault.path) == ("E205", "e/t/assert")
    assert fault.message.startswith("the assertion 'n > 2' does not hold: n is 2 (")


def test_an_assertion_wants_a_bool(bench):
    with pytest.raises(TaskFailedError) as caught:
        bench.do(Assert(expr("n"), text(""), "n", "e/t/assert"))

    assert caught.value.faults[0].code == "E203"


def test_state_is_held_written_and_read(bench, tmp_path):
    bench.node.update(w=np.arange(4.0), k=Counter(3), lr=0.5, scratch=1)
    path = str(tmp_path / "local.h5")
    bench.do(SaveState("local.h5", ("k", "lr", "w"), "run", "checkpoint/save"))
    stored = bench.run.savings.persist(bench.frame.results["ticket"], str(tmp_path)).file
    assert isinstance(stored, StoredFile)
    before = dict(bench.node)
    bench.node.clear()

    bench.do(LoadState(path, ("k", "lr", "w"), 3, "run", stored.digest, "checkpoint/load"))

    assert set(bench.node) == {"k", "lr", "w"}
    assert all(same_bits(bench.node[name], before[name]) for name in bench.node)


def test_branches_have_their_own_stream_and_go_on_in_it(bench):
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
    bench.frame = bench.frame.cleaning("e/t", failed=False)
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
