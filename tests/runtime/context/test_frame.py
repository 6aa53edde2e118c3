from __future__ import annotations

import threading

import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.runtime.context.frame import run_all
from jobrun.runtime.context.rng import StreamKey, make_stream
from jobrun.testing.graphs import ref
from tests.support.step_bench import Bench


@pytest.fixture
def bench():
    with Bench() as one:
        yield one


def test_a_stream_is_that_of_the_place_and_made_once(bench):
    frame = bench.frame.at("e/t/report[0]")
    expected = make_stream(7, StreamKey("epoch", 3, "local", "t", 0, "e/t/report[0]")).random(2)

    assert [frame.rng.random(), frame.rng.random()] == expected.tolist()
    assert set(frame.streams) == {"e/t/report[0]"}


def test_a_block_that_runs_again_goes_on_in_its_stream(bench):
    first = bench.frame.at("e/t/x").rng.random()

    assert bench.frame.at("e/t/x").rng.random() != first


def test_the_view_of_another_block_shares_workspaces_but_not_pass_numbers(bench):
    bench.frame.loops["l"] = 1
    other = bench.frame.at("else")
    other.loops["l"] = 2

    assert (bench.frame.loops, other.place) == ({"l": 1}, "else")
    assert other.t is bench.frame.t


def test_cleaning_goes_on_after_a_cancel(bench):
    bench.run.body.cancel()
    frame = bench.frame.for_cleanup("exit", failed=True)

    assert not frame.cancel.cancelled
    assert frame.failed


def test_an_output_that_is_not_there_says_what_to_do(bench):
    bench.run.outputs[ref("a", "x")] = 1
    assert bench.frame.output(ref("a", "x")) == 1

    with pytest.raises(TaskFailedError) as caught:
        bench.frame.output(ref("b", "x"))

    assert "needs: [b]" in caught.value.faults[0].mend


def test_an_error_is_noted_once_and_cancels(bench):
    error = ValueError("a")

    bench.run.fail(error)
    bench.run.fail(error)
    bench.run.fail(ValueError("a"))

    assert len(bench.run.errors) == 2
    assert bench.run.body.cancelled
    assert not bench.run.cleanup.cancelled


def test_a_task_apart_shares_the_run_but_not_its_errors_and_scope(bench):
    own = bench.run.for_task("t", bench.run)

    own.outputs["made"] = 1
    own.fail(ValueError("broken"))

    assert bench.run.outputs["made"] == 1
    assert bench.run.failed == ["t"]
    assert bench.run.body.cancelled
    assert own.cleanup is bench.run.cleanup


def test_a_failure_of_a_task_apart_may_stay_its_own(bench):
    own = bench.run.for_task("", None)

    own.fail(ValueError("broken"))

    assert own.body.cancelled
    assert bench.run.errors == []
    assert not bench.run.body.cancelled


def test_all_overlap_and_the_first_stays_in_this_thread(bench):
    meeting = threading.Barrier(3)
    threads: dict[int, int] = {}

    def work(index: int):
        def run() -> None:
            meeting.wait()
            threads[index] = threading.get_ident()

        return run

    outcomes = run_all(bench.run.start, [work(index) for index in range(3)])

    assert outcomes == [None] * 3
    assert threads[0] == threading.get_ident()
    assert len(set(threads.values())) == 3


def test_errors_are_handed_back_in_order(bench):
    def fail(error: BaseException):
        def run() -> None:
            raise error

        return run

    errors = [ValueError("a"), SystemExit(1)]

    outcomes = run_all(bench.run.start, [fail(errors[0]), lambda: None, fail(errors[1])])

    assert outcomes == [errors[0], None, errors[1]]


def test_nothing_to_do_is_done_at_once(bench):
    assert run_all(bench.run.start, []) == []
