from __future__ import annotations

import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.core.events import Noted, TaskEnded, TaskLimited, TasksGivenUp
from jobrun.session.base import GroupCancelledError, NodeLostError, TasksStuckError
from jobrun.session.processes import group_run as module
from jobrun.session.processes.group_run import RemoteGroupRun
from jobrun.session.wire.partition_group import partition_group
from jobrun.testing.graphs import group, ref, task

WHOLE = group(*(task("t", "x = 1", node=node, outputs={"x": "x"}) for node in "abc"))


@pytest.fixture
def run():
    return RemoteGroupRun(1, partition_group(WHOLE), 0.01)


def failed(message, *tasks):
    error = TaskFailedError.of("E200", message)
    error.tasks = tasks
    return (False, error)


def nothing(*_):
    return None


CANCELLED = (False, GroupCancelledError("epoch"))


def test_outputs_come_in_the_order_of_the_tasks(run):
    for node in "cab":
        run.receive_outcome(node, (True, {ref("t", "x", node): node}))

    assert list(run.wait(nothing, nothing).items()) == [(ref("t", "x", n), n) for n in "abc"]


def test_the_first_failure_cancels_the_others_and_comes_first(run):
    cancels = []
    run.receive_outcome("b", None)
    run.receive_outcome("a", failed("later", "t"))
    run.receive_outcome("b", failed("first", "u"))
    run.receive_outcome("c", CANCELLED)

    with pytest.raises(TaskFailedError) as caught:
        run.wait(lambda: cancels.append(1), nothing)

    assert [fault.message for fault in caught.value.faults] == ["first", "later"]
    assert caught.value.tasks == ("t", "u")
    assert cancels == [1]
    assert run.scope.cancelled


def test_failure_of_a_task_without_retry_is_not_retried(run):
    run.receive_outcome("a", failed("one", "t"))
    run.receive_outcome("b", failed("two"))
    run.receive_outcome("c", CANCELLED)

    with pytest.raises(TaskFailedError) as caught:
        run.wait(nothing, nothing)

    assert caught.value.tasks == ()


def test_lost_node_error_takes_precedence_over_its_consequences(run):
    run.receive_outcome("a", failed("cannot fetch from b"))
    run.receive_outcome("b", (False, NodeLostError.of_node("b", "was ended by SIGKILL")))
    run.receive_outcome("c", (True, {}))

    with pytest.raises(NodeLostError) as caught:
        run.wait(nothing, nothing)

    assert caught.value.node == "b"


def test_a_stop_request_cancels(run):
    run.request_stop()
    for node in "abc":
        run.receive_outcome(node, CANCELLED if node != "c" else (True, {}))

    with pytest.raises(GroupCancelledError):
        run.wait(nothing, nothing)


@pytest.mark.long
def test_unresponsive_node_is_killed(run, monkeypatch):
    monkeypatch.setattr("jobrun.session.processes.group_run._UNRESPONSIVE_S", 0.0)
    monkeypatch.setattr("jobrun.session.processes.group_run.EXIT_GRACE_S", 0.0)
    killed = []
    run.receive_outcome("a", failed("broken"))
    run.receive_outcome("b", CANCELLED)

    with pytest.raises(TasksStuckError) as caught:
        run.wait(nothing, killed.append)

    assert killed == ["c"]
    assert [fault.code for fault in caught.value.faults] == ["E200", "E215"]


@pytest.fixture
def at_once(monkeypatch):
    for name in ("EXIT_GRACE_S", "_UNRESPONSIVE_S", "_AFTER_STOP_S"):
        monkeypatch.setattr(module, name, 0.0)


LIMITED = TaskLimited("t", "b", 3, "epoch/t", "a.yaml", 7, 5, 0.01, 0.0, 1)


def test_silent_node_is_killed_after_the_limit_of_its_task(run, at_once):
    killed = []
    run.receive_event("b", LIMITED)
    run.receive_outcome("a", (True, {}))

    with pytest.raises(TasksStuckError) as caught:
        run.wait(nothing, killed.append)

    (fault,) = caught.value.faults
    assert (fault.code, str(fault.where), fault.path) == ("E220", "a.yaml:7:5", "epoch/t")
    assert killed == ["b"]


@pytest.mark.parametrize(
    "event", [TaskEnded("t", "b", 3, 0.1, failed=False), TasksGivenUp(("b/t",), 3, 1)]
)
def test_end_of_a_task_removes_its_limit(event, run, at_once):
    run.receive_event("b", LIMITED)
    run.receive_event("b", event)
    run.receive_event("b", Noted("this does not matter"))
    for node in "abc":
        run.receive_outcome(node, (True, {}))

    assert run.wait(nothing, pytest.fail) == {}
