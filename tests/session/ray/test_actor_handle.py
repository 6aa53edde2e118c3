# Ray is imported where it is used: the tests that are not long go without it.
# ruff: noqa: PLC0415

from __future__ import annotations

import pytest

from jobrun.session.wire.codec import decode_frame, encode_frame

pytestmark = pytest.mark.long


class Call:
    """A method of an actor that is asked at once; what it returns is its answer."""

    def __init__(self, work):
        self.remote = work


class Actor:
    """What a host needs of an actor, without a cluster."""

    def __init__(self, begun, *told):
        self.heard = []
        told = iter(told)
        self.begin = Call(lambda start: begun)
        self.deliver = Call(lambda number, frame: self.heard.append((number, decode_frame(frame))))
        self.poll = Call(lambda: next(told))


@pytest.fixture
def host(monkeypatch):
    import ray

    from jobrun.session.ray.actor_handle import RayWorker

    def got(answer, timeout):
        del timeout
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(ray, "get", got)
    monkeypatch.setattr(ray, "kill", lambda actor, no_restart: None)
    left = []

    def make(actor):
        made = RayWorker(actor, {}, lambda one, is_sound: left.append(is_sound))
        made.left = left
        return made

    return make


def test_what_is_said_before_a_node_has_begun_reaches_it_in_order(host):
    actor = Actor({"pid": 7, "wrong": ""}, [encode_frame(("a",)), encode_frame(("b",))], [])
    one = host(actor)
    one.channel.send("first")
    one.channel.send("second")

    heard = [one.channel.receive(), one.channel.receive()]
    one.channel.send("third")

    assert heard == [("a",), ("b",)]
    assert actor.heard == [(0, ("first",)), (1, ("second",)), (2, ("third",))]
    assert one.channel.receive() is None
    assert (one.pid, one.join(), one.refusal("n")) == (7, "was closed", None)
    one.channel.close()
    with pytest.raises(BrokenPipeError):
        one.channel.send("fourth")
    one.release()
    assert one.left == [True]


def test_a_loss_is_told_in_short(host):
    from ray.exceptions import RayError

    one = host(Actor({"pid": 7, "wrong": ""}, RayError("why\n gone. Some common causes: x")))

    assert one.channel.receive() is None

    assert one.join() == "has ended (gone)"
    one.release()
    assert one.left == [False]


def test_a_place_that_will_not_do_is_a_refusal(host):
    one = host(Actor({"pid": 7, "wrong": "has no room"}))

    assert one.channel.receive() is None

    (fault,) = one.refusal("n").faults
    assert fault.code == "E396"
    assert "node 'n' could not be started: its machine has no room" in fault.message


def test_a_node_that_does_not_begin_in_time_is_a_refusal(host, monkeypatch):
    from ray.exceptions import GetTimeoutError

    monkeypatch.setattr("jobrun.session.ray.actor_handle.START_S", 3.0)
    one = host(Actor(GetTimeoutError()))

    assert one.channel.receive() is None

    assert "has not started within 3 s" in one.refusal("n").faults[0].message


def test_a_node_that_ends_before_it_begins_is_refused_at_first_and_lost_if_it_replaces_one(host):
    from ray.exceptions import RayError

    one = host(Actor(RayError("it was cancelled before it started running")))

    assert one.channel.receive() is None

    assert "cancelled before it started" in one.refusal("n").faults[0].message
    assert one.refusal("n", again=True) is None
