"""Time limits, failures that are only told, and where a run is."""

from __future__ import annotations

import os
import threading

import pytest
from msgspec.structs import replace

from jobrun.core.errors import TaskFailedError
from jobrun.core.events import Noted, TaskLimited
from jobrun.graph.steps import Parallel
from jobrun.graph.types import Node, Retry
from jobrun.runtime.codegen.compiler import compile_block
from jobrun.runtime.codegen.liveness import BlockNames
from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.task_limits import current_locations, has_own_scope, run_in_own_scope
from jobrun.testing.graphs import log, steps, task
from tests.support.step_bench import Bench

NODE = Node("local")
PLAIN = task("t", "x = 1")
LIMITED = replace(PLAIN, timeout_s=0.01)
TOLERANT = replace(PLAIN, on_error="warn")
RETRIED = replace(PLAIN, retry=Retry(1))
BROKEN = TaskFailedError.of("E200", "it broke", path="e/t/steps[0]")


@pytest.fixture
def bench():
    with Bench() as step_bench:
        yield step_bench


def until_cancelled(task_run):
    """Work that only a cancel ends."""
    woken = threading.Event()
    with task_run.body.waking(woken.set):
        woken.wait()
    raise CancelledError


def ending(work):
    """Work as a task does it: what goes wrong is noted."""

    def run(task_run):
        try:
            return work(task_run)
        except CancelledError:
            task_run.interrupted = True
        except TaskFailedError as error:
            task_run.fail(error)
        return False

    return run


def fails(task_run):
    raise BROKEN


def test_only_tasks_with_limits_have_a_separate_scope():
    assert [has_own_scope(task) for task in (PLAIN, LIMITED, TOLERANT, RETRIED)] == [
        False,
        True,
        True,
        True,
    ]


def test_a_task_within_its_limit_ends_well(bench):
    assert run_in_own_scope(
        replace(PLAIN, timeout_s=3600.0), NODE, bench.run, lambda task_run: True
    )

    assert bench.run.errors == []
    assert not bench.run.body.cancelled


def test_the_limit_of_a_task_is_reported_when_it_begins(bench):
    seen = []
    limited = replace(PLAIN, timeout_s=3600.0)
    run_in_own_scope(limited, NODE, bench.run, lambda task_run: seen.extend(bench.events) or True)

    (reported,) = seen
    assert isinstance(reported, TaskLimited)
    assert (reported.task, reported.node, reported.epoch, reported.limit_s) == (
        "t",
        "local",
        3,
        3600.0,
    )
    assert reported.pid == os.getpid()


def test_a_task_that_takes_too_long_fails_the_group(bench):
    assert not run_in_own_scope(LIMITED, NODE, bench.run, ending(until_cancelled))

    (error,) = bench.run.errors
    (fault,) = error.faults
    assert fault.code == "E220"
    assert "limit of 0.01 s (task t, node local, epoch 3)" in fault.message
    assert fault.path == "e/t"
    assert bench.run.body.cancelled
    assert not bench.run.body.at_once


def test_a_task_that_ends_after_its_limit_has_failed_all_the_same(bench):
    def late(task_run):
        ending(until_cancelled)(task_run)
        return True

    assert not run_in_own_scope(LIMITED, NODE, bench.run, late)
    assert len(bench.run.errors) == 1


def test_programs_of_an_overdue_task_are_killed_at_once(bench):
    seen = []

    def work(task_run):
        try:
            until_cancelled(task_run)
        finally:
            seen.append(task_run.body.at_once)

    run_in_own_scope(LIMITED, NODE, bench.run, ending(work))

    assert seen == [True]


def test_a_failure_of_a_tolerant_task_is_reported_and_ends_nothing_else(bench):
    assert not run_in_own_scope(TOLERANT, NODE, bench.run, ending(fails))

    assert bench.run.errors == []
    assert not bench.run.body.cancelled
    assert not bench.run.interrupted
    (noted,) = bench.events
    assert noted == Noted(
        "task 't' failed on node local, and the group continues: e/t/steps[0]: it broke", "warning"
    )


def test_a_tolerant_task_whose_other_instances_were_ended_does_not_interrupt_the_group(bench):
    def work(task_run):
        task_run.fail(BROKEN)
        raise CancelledError

    run_in_own_scope(TOLERANT, NODE, bench.run, ending(work))

    assert not bench.run.interrupted


def test_a_tolerant_task_may_have_a_limit(bench):
    run_in_own_scope(replace(TOLERANT, timeout_s=0.01), NODE, bench.run, ending(until_cancelled))

    assert bench.run.errors == []
    assert "took longer than its limit" in bench.events[-1].text


def test_an_interrupt_is_never_only_a_warning(bench):
    defect = KeyboardInterrupt()

    run_in_own_scope(TOLERANT, NODE, bench.run, lambda task_run: bool(task_run.fail(defect)))

    assert bench.run.errors == [defect]


def test_a_tolerant_task_that_does_not_end_fails_the_group(bench):
    bench.run.grace_s = 0.01
    group_hears = threading.Event()

    def stuck(task_run):
        task_run.fail(BROKEN)
        assert group_hears.wait(60)
        return False

    with bench.run.body.waking(group_hears.set):
        run_in_own_scope(TOLERANT, NODE, bench.run, stuck)

    assert bench.run.errors == [BROKEN]
    assert bench.events == []


def test_a_cancel_of_the_group_reaches_the_task_and_is_no_failure(bench):
    bench.run.body.cancel()

    assert not run_in_own_scope(TOLERANT, NODE, bench.run, ending(until_cancelled))

    assert bench.run.interrupted
    assert bench.run.errors == []
    assert bench.events == []


def test_failures_of_tasks_with_retry_are_noted_by_name(bench):
    run_in_own_scope(RETRIED, NODE, bench.run, ending(fails))
    bench.run.fail(TaskFailedError.of("E200", "another"))

    assert bench.run.failed == ["t", ""]


def test_a_retry_alone_needs_no_thread(bench):
    counts = [threading.active_count()]

    run_in_own_scope(
        RETRIED, NODE, bench.run, lambda task_run: bool(counts.append(threading.active_count()))
    )

    assert counts[0] == counts[1]


def test_a_run_is_in_the_step_of_each_of_its_threads(bench):
    seen = []

    def action(step):
        return lambda frame: seen.append(
            [location.path for location in current_locations(frame.run)]
        )

    body = steps("x = 1", log("a"), "y = x")
    block = compile_block(body, "e/t", BlockNames(), action)

    block.run(bench.frame)

    assert seen == [[body[1].path]]
    assert current_locations(bench.run) == ()


def test_the_innermost_block_counts_and_all_branches_do(bench):
    first, second = threading.Event(), threading.Event()
    seen = []

    def meet():
        first.set()
        assert second.wait(60)

    def look():
        assert first.wait(60)
        seen.extend(location.path for location in current_locations(bench.run))
        second.set()

    branches = []
    for number, work in enumerate((meet, look)):
        created = (log("here"),)
        created = (replace(created[0], path=f"e/t/parallel[{number}].steps[0]"),)
        action = lambda step, work=work: lambda frame: work()  # noqa: E731
        branches.append(compile_block(created, f"e/t/parallel[{number}]", BlockNames(), action))

    def together(step):
        def run(frame):
            threads = [threading.Thread(target=branch.run, args=(frame,)) for branch in branches]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        return run

    outer = compile_block((Parallel((), "e/t/parallel"),), "e/t", BlockNames(), together)

    outer.run(bench.frame)

    assert seen == ["e/t/parallel", "e/t/parallel[0].steps[0]", "e/t/parallel[1].steps[0]"]
