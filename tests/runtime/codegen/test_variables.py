"""Steps of other kinds see the blobs of the code around them, and it sees theirs."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.graph.effects import Assert
from jobrun.graph.expressions import Const, Name
from jobrun.graph.steps import CallPython, If, Loop, Parallel
from jobrun.testing.graphs import expr, log, steps, text
from tests.support.step_bench import Bench

LOOP = "e/t/loop"


def doubled(x):
    return x * 2


def raised(x):
    x += 1


def call(target, *outputs, writable=()):
    where = f"tests.runtime.codegen.test_variables:{target}"
    return CallPython(where, (("x", Name("x")),), writable, outputs, path="e/t/call")


@pytest.fixture
def bench():
    with Bench(x=1, n=3) as step_bench:
        yield step_bench


def test_an_action_sees_what_the_code_has_bound(bench):
    bench.do("x = 2", log(("x", "")), "x += 1", log(("x", "")), "y = x")

    assert [event.text for event in bench.events] == ["2", "3"]
    assert bench.blobs["y"] == 3


def test_the_code_sees_what_an_action_has_bound(bench):
    body = steps("x += 1", call("doubled", "x"))
    blobs = bench.do(Loop(Const(3), body, LOOP), "y = x")

    assert blobs["y"] == blobs["x"] == 22


def test_an_array_that_an_action_changes_is_the_codes(bench):
    blobs = bench.do("x = zeros(2)", call("raised", writable=("x",)), "y = x + 0", "x += 1")

    assert blobs["y"].tolist() == [1, 1]
    assert blobs["x"].tolist() == [2, 2]


def test_a_deleted_blob_does_not_exist_for_an_action(bench):
    with pytest.raises(TaskFailedError) as caught:
        bench.do("x = 2", "del x", log(("x", "")))

    assert caught.value.faults[0].code == "E201"
    assert "x" not in bench.blobs


def test_a_blob_that_an_action_never_bound_does_not_exist_for_the_code(bench):
    bound = If(((expr("n > 5"), (call("doubled", "z"),)),))

    with pytest.raises(TaskFailedError) as caught:
        bench.do(bound, "y = z")

    assert caught.value.faults[0].code == "E201"
    assert "'z'" in caught.value.faults[0].message


def test_after_a_failure_both_are_as_they_were_left(bench):
    failing = Assert(expr("n == 4"), text(), "n == 4", path="e/t/assert")
    branches = Parallel((steps("x = 7"), (failing,)), "e/t/parallel")

    with pytest.raises(TaskFailedError):
        bench.do("x = 2; n = 5", branches, "x = 9")

    assert (bench.blobs["x"], bench.blobs["n"]) == (7, 5)


def test_blobs_that_an_action_reads_share_no_memory(bench):
    bench.blobs["M"] = np.zeros((2, 2))
    blobs = bench.do("x = M[0]", log("a"), call("doubled", "y"), "M2 = M + 1")

    assert not np.shares_memory(blobs["x"], blobs["M"])


CHAIN = "x = (x + 1) * 2 - x / 4"


def test_what_the_code_gives_a_new_value_is_in_the_workspace_again_when_it_ends(bench):
    bench.run.is_alone = True

    bench.do(CHAIN)

    assert dict(bench.blobs) == {"x": 3.75, "n": 3}


@pytest.mark.parametrize("is_alone", [False, True])
def test_an_error_before_a_new_value_leaves_the_old_one(bench, is_alone):
    bench.run.is_alone = is_alone

    with pytest.raises(TaskFailedError, match="nothing"):
        bench.do("y = nothing", CHAIN)

    assert dict(bench.blobs) == {"x": 1, "n": 3}


def test_blobs_are_released_only_if_no_other_task_reads_them(bench):
    bench.frame.take(bench.blobs, "x")
    assert bench.blobs["x"] == 1

    bench.run.is_alone = True
    bench.frame.take(bench.blobs, "x", "nothing")
    assert dict(bench.blobs) == {"n": 3}
