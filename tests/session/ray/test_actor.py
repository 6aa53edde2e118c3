# Ray is imported where it is used: the tests that are not long go without it.
# ruff: noqa: PLC0415

from __future__ import annotations

import os
import sys
import threading

import numpy as np
import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.events import TaskLimited
from jobrun.runtime.context.cancel import CancelScope
from jobrun.session.wire.codec import decode_frame, encode_frame
from jobrun.testing.graphs import cluster
from jobrun.version import __version__

pytestmark = pytest.mark.long


@pytest.fixture
def wire():
    from jobrun.session.ray.actor import ActorChannel

    return ActorChannel()


@pytest.fixture
def node(tmp_path):
    """An actor that is an object of this process; nobody else calls it."""
    from jobrun.session.ray.actor import NodeActor

    node = NodeActor()
    code = (str(tmp_path), "")
    mask = os.umask(0)
    os.umask(mask)
    paths = list(sys.path)
    begun = node.begin(
        {
            "version": __version__,
            "environment": {},
            "paths": paths,
            "umask": mask,
            "code": code,
            "shows": True,
        }
    )
    assert begun == {"pid": os.getpid(), "wrong": ""}
    (placed,) = cluster("n")
    for number, message in enumerate(
        (("open", 1, placed, (7, str(tmp_path), str(tmp_path), None), 5.0), ("names", 2))
    ):
        node.deliver(number, encode_frame(message))
    node.answers = []
    while len(node.answers) < 2:
        node.answers += map(decode_frame, node.poll())
    yield node
    node.deliver(2, encode_frame(("close",)))
    while node.poll():
        pass


def test_messages_are_polled_in_order_and_copied(wire):
    array = np.zeros(10_000)
    wire.send("one", array)
    array += 1
    wire.send("two")

    first, second = map(decode_frame, wire.poll())

    assert (first[0], first[1].sum(), second) == ("one", 0.0, ("two",))


def test_sender_blocks_until_messages_are_polled(wire, monkeypatch):
    monkeypatch.setattr("jobrun.session.ray.actor._UNSENT_BYTES", 1)
    wire.send("first")
    speaking = threading.Thread(target=wire.send, args=("second",))
    speaking.start()

    taken = [wire.poll(), wire.poll()]

    speaking.join()
    assert [decode_frame(frame) for (frame,) in taken] == [("first",), ("second",)]


def test_a_limit_is_known_to_the_master_before_the_task_begins(wire):
    event = TaskLimited("t", "n", 1, "e/t", "", 0, 0, 0.1, 0.1, 1)
    begins = threading.Event()

    def work():
        wire.send("event", event)
        begins.set()

    working = threading.Thread(target=work)
    working.start()
    ((kind, payload),) = map(decode_frame, wire.poll())
    assert (kind, payload) == ("event", event)
    # It may be on its way still.
    assert not begins.is_set()
    coming = threading.Thread(target=wire.poll)
    coming.start()
    working.join()
    assert begins.is_set()
    wire.close()
    coming.join()


def test_closed_channel_neither_polls_nor_sends(wire):
    wire.send("last")
    wire.close()

    assert [len(wire.poll()), len(wire.poll())] == [1, 0]
    assert wire.receive() is None
    with pytest.raises(BrokenPipeError):
        wire.send("more")


def test_actor_answers_as_the_requested_node(node):
    assert [answer[:2] for answer in node.answers] == [("answer", 1), ("answer", 2)]
    assert node.answers[1][2] == (True, ())


def test_missing_blob_for_another_node_is_an_error(node):
    is_well, error = decode_frame(node.copy_blob("nothing"))

    assert not is_well
    assert "nothing" in error.message


def test_another_version_does_not_begin():
    from jobrun.session.ray.actor import NodeActor

    begun = NodeActor().begin({"version": "0.0.0"})

    assert begun["wrong"] == f"has jobrun {__version__}, and not 0.0.0 as here"


def test_a_node_whose_handle_never_comes_is_lost(monkeypatch):
    from jobrun.session.ray.actor import ActorPeers

    monkeypatch.setattr("jobrun.session.ray.actor._MEET_S", 0.01)
    ways = ActorPeers(lambda node, cancel: None)

    with pytest.raises(EnvironmentFaultError, match="'b' is lost"):
        next(ways.fetch(["b"], "w", CancelScope()))


class Call:
    """A method of an actor that is asked at once; what it returns is its answer."""

    def __init__(self, work):
        self.remote = work


class Actor:
    """What a host needs of an actor, without a cluster."""

    def __init__(self, begun, *frames):
        self.heard = []
        frames = iter(frames)
        self.begin = Call(lambda start: begun)
        self.deliver = Call(lambda number, frame: self.heard.append((number, decode_frame(frame))))
        self.poll = Call(lambda: next(frames))


@pytest.fixture
def host(monkeypatch):
    import ray

    from jobrun.session.ray.actor import RayWorker

    def got(answer, timeout):
        del timeout
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(ray, "get", got)
    monkeypatch.setattr(ray, "kill", lambda actor, no_restart: None)
    released = []

    def make(actor):
        worker = RayWorker(actor, {}, lambda actor_, is_sound: released.append(is_sound))
        worker.released = released
        return worker

    return make


def test_messages_before_the_start_arrive_in_order(host):
    actor = Actor({"pid": 7, "wrong": ""}, [encode_frame(("a",)), encode_frame(("b",))], [])
    worker = host(actor)
    worker.channel.send("first")
    worker.channel.send("second")

    heard = [worker.channel.receive(), worker.channel.receive()]
    worker.channel.send("third")

    assert heard == [("a",), ("b",)]
    assert actor.heard == [(0, ("first",)), (1, ("second",)), (2, ("third",))]
    assert worker.channel.receive() is None
    assert (worker.pid, worker.join(), worker.refusal("n")) == (7, "was closed", None)
    worker.channel.close()
    with pytest.raises(BrokenPipeError):
        worker.channel.send("fourth")
    worker.release()
    assert worker.released == [True]


def test_loss_of_an_actor_has_a_short_reason(host):
    from ray.exceptions import RayError

    worker = host(Actor({"pid": 7, "wrong": ""}, RayError("why\n gone. Some common causes: x")))

    assert worker.channel.receive() is None

    assert worker.join() == "has ended (gone)"
    worker.release()
    assert worker.released == [False]


def test_unsuitable_machine_refuses_the_node(host):
    worker = host(Actor({"pid": 7, "wrong": "has no room"}))

    assert worker.channel.receive() is None

    (fault,) = worker.refusal("n").faults
    assert fault.code == "E396"
    assert "node 'n' could not be started: its machine has no room" in fault.message


def test_node_that_does_not_start_in_time_is_refused(host, monkeypatch):
    from ray.exceptions import GetTimeoutError

    monkeypatch.setattr("jobrun.session.ray.actor.START_S", 3.0)
    worker = host(Actor(GetTimeoutError()))

    assert worker.channel.receive() is None

    assert "has not started within 3 s" in worker.refusal("n").faults[0].message


def test_a_node_that_ends_before_it_begins_is_refused_at_first_and_lost_if_it_replaces_one(host):
    from ray.exceptions import RayError

    worker = host(Actor(RayError("it was cancelled before it started running")))

    assert worker.channel.receive() is None

    assert "cancelled before it started" in worker.refusal("n").faults[0].message
    assert worker.refusal("n", again=True) is None


def test_frames_that_overtook_others_wait_for_them():
    from jobrun.session.ray.actor import Resequencer

    received = []
    line = Resequencer(received.append)
    frames = [encode_frame(number) for number in range(4)]

    for number in (2, 0, 3, 1):
        line.receive(number, frames[number])

    assert [decode_frame(frame) for frame in received] == [0, 1, 2, 3]
