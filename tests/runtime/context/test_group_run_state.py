from __future__ import annotations

import threading

import pytest

from jobrun.runtime.context.group_run_state import run_all
from tests.support.step_bench import Bench


@pytest.fixture
def bench():
    with Bench() as step_bench:
        yield step_bench


def test_an_error_is_noted_once_and_cancels(bench):
    error = ValueError("a")

    bench.run.fail(error)
    bench.run.fail(error)
    bench.run.fail(ValueError("a"))

    assert len(bench.run.errors) == 2
    assert bench.run.body.cancelled
    assert not bench.run.cleanup.cancelled


def test_a_task_apart_shares_the_run_but_not_its_errors_and_scope(bench):
    task_run = bench.run.for_task("t", bench.run)

    task_run.outputs["made"] = 1
    task_run.fail(ValueError("broken"))

    assert bench.run.outputs["made"] == 1
    assert bench.run.failed == ["t"]
    assert bench.run.body.cancelled
    assert task_run.cleanup is bench.run.cleanup


def test_a_failure_of_a_task_apart_may_stay_its_own(bench):
    task_run = bench.run.for_task("", None)

    task_run.fail(ValueError("broken"))

    assert task_run.body.cancelled
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
