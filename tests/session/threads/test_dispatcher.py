from __future__ import annotations

import contextlib
import os
import threading

import pytest

from jobrun.core.events import TasksGivenUp
from jobrun.runtime.context.child_processes import ChildReaper
from jobrun.runtime.context.group_run_state import GroupRun
from jobrun.session.base import TasksStuckError
from jobrun.session.threads.dispatcher import Dispatcher
from jobrun.session.threads.thread_pool import ThreadPool
from jobrun.session.threads.work_items import ExternalDeps, WorkItem
from tests.support.group_listener import GroupListener


@pytest.fixture
def pool():
    one = ThreadPool(contextlib.nullcontext)
    yield one
    one.close()


@pytest.fixture
def run(pool):
    return GroupRun("epoch", 1, 0, "", "", lambda _: None, {}, pool.start, ChildReaper())


def test_a_part_that_follows_one_elsewhere_starts_when_that_is_told(run, pool):
    deps = ExternalDeps({}, None, ["first"], (), GroupListener())
    said = []
    part = WorkItem("a/then", lambda: said.append("then"))
    part.run_after(deps.items_for("first")[0])
    threading.Timer(0.02, lambda: (said.append("told"), deps.mark_ended("first", {}))).start()

    Dispatcher(run, pool, 5.0, deps).run([part])

    assert said == ["told", "then"]


def test_after_a_cancel_nobody_waits_for_parts_elsewhere(run, pool):
    deps = ExternalDeps({}, None, ["first"], (), GroupListener())
    said = []
    part = WorkItem("a/then", lambda: said.append("then"))
    part.run_after(deps.items_for("first")[0])
    threading.Timer(0.02, run.body.cancel).start()

    Dispatcher(run, pool, 5.0, deps).run([part])

    assert said == []
    assert run.interrupted


def test_a_part_that_does_not_end_is_an_error_and_told(run, pool):
    never = threading.Event()
    told = []
    run.emit = told.append
    part = WorkItem("a/stuck", never.wait)
    run.body.cancel()
    part.always = True

    with pytest.raises(TasksStuckError, match="a/stuck"):
        Dispatcher(run, pool, 0.01, ExternalDeps({}, None)).run([part])

    assert told == [TasksGivenUp(("a/stuck",), 1, os.getpid())]
    never.set()
