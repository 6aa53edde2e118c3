from __future__ import annotations

import contextlib
import os
import threading

import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.core.events import TasksGivenUp
from jobrun.graph.types import OutputRef
from jobrun.runtime.context.child_processes import ChildReaper
from jobrun.runtime.context.frame import GroupRun
from jobrun.session.base import TasksStuckError
from jobrun.session.threads.thread_pool import ThreadPool
from jobrun.session.threads.work_items import (
    Dispatcher,
    ExternalDeps,
    WorkItem,
    find_ready,
    iter_released,
    require_valid_needs,
)
from jobrun.testing.graphs import task
from tests.support.group_listener import GroupListener


def test_work_item_waits_for_all_its_predecessors():
    a, b, c = (WorkItem(name, lambda: None) for name in "abc")
    c.run_after(a)
    c.run_after(b)

    assert find_ready([a, b, c]) == [a, b]
    assert list(iter_released(a)) == []
    assert list(iter_released(b)) == [c]


def test_needs_that_can_be_met_are_accepted():
    require_valid_needs(
        [task("a", needs=("b", "c")), task("b", needs=("c",)), task("c"), task("c", node="n")]
    )


@pytest.mark.parametrize(
    "tasks",
    [
        [task("a", needs=("a",))],
        [task("a", needs=("b",)), task("b", needs=("c",)), task("c", needs=("a",)), task("d")],
        [task("a", needs=("gone",))],
    ],
)
def test_needs_that_can_not_are_refused(tasks):
    with pytest.raises(TaskFailedError) as caught:
        require_valid_needs(tasks)

    assert caught.value.faults[0].code == "E219"


REF = OutputRef("t", "a", "x")


def group_run(outputs=None):
    return GroupRun("epoch", 1, 0, "", "", lambda _: None, outputs or {}, None, ChildReaper())


def test_external_task_ends_when_notified():
    deps = ExternalDeps({}, None, ["t", "u"], (), GroupListener())

    deps.mark_ended("t", {REF: 5})

    part = deps.completions.get_nowait()
    assert deps.items_for("t") == [part]
    assert deps.items_for("v") == []
    assert deps.is_awaited(part)
    assert deps.outputs == {REF: 5}


def test_notification_without_waiters_only_stores_outputs():
    deps = ExternalDeps({}, None, (), (), GroupListener())

    deps.mark_ended("t", {REF: 5})

    assert deps.completions.empty()
    assert deps.outputs == {REF: 5}


def test_end_of_an_awaited_task_is_announced_with_outputs():
    deps = ExternalDeps({}, None, (), ("t",), news := GroupListener())
    run = group_run()
    awaited, other = (task(name, "x = 1", node="a", outputs={"x": "x"}) for name in ("t", "u"))

    deps.wrap_work(awaited, lambda: run.outputs.update({REF: 5}), run)()
    deps.wrap_work(other, lambda: None, run)()

    assert news.sent == [("t", {REF: 5})]


def test_cancel_of_the_run_is_sent_once():
    deps = ExternalDeps({}, None, (), (), news := GroupListener())
    run = group_run()

    with deps.attach(run):
        run.body.cancel()
        run.body.cancel()

    assert news.sent == ["failing"]


def test_external_cancel_reaches_the_run_and_is_not_sent_back():
    deps = ExternalDeps({}, None, (), (), news := GroupListener())
    run, late = group_run(), group_run()

    with deps.attach(run):
        deps.cancel()
    with deps.attach(late):
        pass

    assert (run.body.cancelled, late.body.cancelled) == (True, True)
    assert news.sent == []


@pytest.fixture
def pool():
    pool = ThreadPool(contextlib.nullcontext)
    yield pool
    pool.close()


@pytest.fixture
def run(pool):
    return GroupRun("epoch", 1, 0, "", "", lambda _: None, {}, pool.start, ChildReaper())


@pytest.mark.parametrize("count", [1, 2])
def test_a_work_item_that_raises_fails_the_run_and_keeps_nothing_waiting(run, pool, count):
    def work() -> None:
        raise KeyError("seed")

    items = [WorkItem(f"a/{number}", work) for number in range(count)]
    Dispatcher(run, pool, 5.0, ExternalDeps({}, None, (), (), GroupListener())).run(items)

    assert isinstance(run.errors[0], KeyError)
    assert run.body.cancelled


def test_work_after_an_external_task_starts_when_notified(run, pool):
    deps = ExternalDeps({}, None, ["first"], (), GroupListener())
    order = []
    part = WorkItem("a/then", lambda: order.append("then"))
    part.run_after(deps.items_for("first")[0])
    threading.Timer(0.02, lambda: (order.append("told"), deps.mark_ended("first", {}))).start()

    Dispatcher(run, pool, 5.0, deps).run([part])

    assert order == ["told", "then"]


def test_cancelled_run_does_not_wait_for_external_tasks(run, pool):
    deps = ExternalDeps({}, None, ["first"], (), GroupListener())
    started = []
    part = WorkItem("a/then", lambda: started.append("then"))
    part.run_after(deps.items_for("first")[0])
    threading.Timer(0.02, run.body.cancel).start()

    Dispatcher(run, pool, 5.0, deps).run([part])

    assert started == []
    assert run.interrupted


def test_work_that_does_not_end_is_an_error_and_an_event(run, pool):
    never = threading.Event()
    events = []
    run.emit = events.append
    part = WorkItem("a/stuck", never.wait)
    run.body.cancel()
    part.always = True

    with pytest.raises(TasksStuckError, match="a/stuck"):
        Dispatcher(run, pool, 0.01, ExternalDeps({}, None)).run([part])

    assert events == [TasksGivenUp(("a/stuck",), 1, os.getpid())]
    never.set()
