from __future__ import annotations

import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.core.events import Noted, TaskEnded, TaskLimited, TasksGivenUp
from jobrun.session import flight as module
from jobrun.session.cancel import GroupCancelledError, TasksStuckError
from jobrun.session.flight import Flight
from jobrun.session.lost import NodeLostError
from jobrun.session.share import shares_of
from tests.support.graphs import group, ref, task

WHOLE = group(*(task("t", "x = 1", node=node, outputs={"x": "x"}) for node in "abc"))


@pytest.fixture
def flight():
    return Flight(1, shares_of(WHOLE), 0.01)


def failed(said, *tasks):
    error = TaskFailedError.of("E200", said)
    error.tasks = tasks
    return (False, error)


def nothing(*_):
    return None


CANCELLED = (False, GroupCancelledError("epoch"))


def test_outputs_come_in_the_order_of_the_tasks(flight):
    for node in "cab":
        flight.came(node, (True, {ref("t", "x", node): node}))

    assert list(flight.wait(nothing, nothing).items()) == [(ref("t", "x", n), n) for n in "abc"]


def test_the_first_failure_cancels_the_others_and_comes_first(flight):
    cancels = []
    flight.came("b", None)
    flight.came("a", failed("later", "t"))
    flight.came("b", failed("first", "u"))
    flight.came("c", CANCELLED)

    with pytest.raises(TaskFailedError) as caught:
        flight.wait(lambda: cancels.append(1), nothing)

    assert [fault.message for fault in caught.value.faults] == ["first", "later"]
    assert caught.value.tasks == ("t", "u")
    assert cancels == [1]
    assert flight.scope.cancelled


def test_a_failure_of_a_task_without_retry_is_none_that_can_be_tried_again(flight):
    flight.came("a", failed("one", "t"))
    flight.came("b", failed("two"))
    flight.came("c", CANCELLED)

    with pytest.raises(TaskFailedError) as caught:
        flight.wait(nothing, nothing)

    assert caught.value.tasks == ()


def test_a_lost_node_matters_more_than_what_came_of_its_loss(flight):
    flight.came("a", failed("cannot fetch from b"))
    flight.came("b", (False, NodeLostError.of_node("b", "was ended by SIGKILL")))
    flight.came("c", (True, {}))

    with pytest.raises(NodeLostError) as caught:
        flight.wait(nothing, nothing)

    assert caught.value.node == "b"


def test_a_stop_request_cancels(flight):
    flight.request_stop()
    for node in "abc":
        flight.came(node, CANCELLED if node != "c" else (True, {}))

    with pytest.raises(GroupCancelledError):
        flight.wait(nothing, nothing)


def test_a_node_that_does_not_say_anything_any_more_is_killed(flight, monkeypatch):
    monkeypatch.setattr("jobrun.session.flight._UNHEARD_S", 0.0)
    monkeypatch.setattr("jobrun.session.flight.LAST_S", 0.0)
    killed = []
    flight.came("a", failed("broken"))
    flight.came("b", CANCELLED)

    with pytest.raises(TasksStuckError) as caught:
        flight.wait(nothing, killed.append)

    assert killed == ["c"]
    assert [fault.code for fault in caught.value.faults] == ["E200", "E215"]


@pytest.fixture
def at_once(monkeypatch):
    for name in ("LAST_S", "_UNHEARD_S", "_CONTINUING_S"):
        monkeypatch.setattr(module, name, 0.0)


LIMITED = TaskLimited("t", "b", 3, "epoch/t", "a.yaml", 7, 5, 0.01, 0.0, 1)


def test_a_node_that_says_nothing_after_the_limit_of_its_task_is_ended(flight, at_once):
    killed = []
    flight.heard("b", LIMITED)
    flight.came("a", (True, {}))

    with pytest.raises(TasksStuckError) as caught:
        flight.wait(nothing, killed.append)

    (fault,) = caught.value.faults
    assert (fault.code, str(fault.where), fault.path) == ("E220", "a.yaml:7:5", "epoch/t")
    assert killed == ["b"]


@pytest.mark.parametrize(
    "event", [TaskEnded("t", "b", 3, 0.1, failed=False), TasksGivenUp(("b/t",), 3, 1)]
)
def test_what_ends_a_task_takes_its_limit_back(event, flight, at_once):
    flight.heard("b", LIMITED)
    flight.heard("b", event)
    flight.heard("b", Noted("this does not matter"))
    for node in "abc":
        flight.came(node, (True, {}))

    assert flight.wait(nothing, pytest.fail) == {}
