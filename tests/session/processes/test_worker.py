"""What a node's process does is the contract's matter; here is how it ends and what it refuses."""

from __future__ import annotations

import socket
import threading
from functools import partial

import pytest

from jobrun.session.processes.worker import Worker, main, prepare_worker
from jobrun.session.wire.codec import SerializedError, SocketChannel, deserialize_error
from jobrun.session.wire.peer_transfer import PeerConnections
from jobrun.session.wire.rpc import unwrap_outcome
from jobrun.testing.graphs import cluster


@pytest.fixture
def master():
    """A channel to a worker in a thread of this process."""
    ours, theirs = map(SocketChannel, socket.socketpair())
    door, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    worker = Worker(theirs, partial(PeerConnections, inside))
    thread = threading.Thread(target=worker.serve)
    thread.start()
    yield ours
    ours.send("close")
    thread.join()
    door.close()
    inside.close()
    for channel in (ours, theirs):
        channel.close()
        channel.release()


def asked(channel, kind, number, *arguments):
    channel.send(kind, number, *arguments)
    kind_, answered, (is_well, value) = channel.receive()
    assert (kind_, answered) == ("answer", number)
    return unwrap_outcome(
        (is_well, deserialize_error(value) if isinstance(value, SerializedError) else value)
    )


def test_worker_becomes_the_requested_node(master, tmp_path):
    (node,) = cluster("n")

    asked(master, "open", 1, node, (7, str(tmp_path), str(tmp_path), None), 5.0)

    assert asked(master, "names", 2) == ()


def test_events_of_an_ended_run_are_ignored(master, tmp_path):
    (node,) = cluster("n")
    asked(master, "open", 1, node, (7, str(tmp_path), str(tmp_path), None), 5.0)

    master.send("cancel", 17)
    master.send("ended", 17, "t", {})
    master.send("answer", 99, (True, None))
    master.send("drop", 5)

    assert asked(master, "names", 2) == ()


def test_a_worker_without_a_master_does_nothing(monkeypatch):
    monkeypatch.setattr("jobrun.session.processes.worker.prepare_worker", lambda *_: None)

    assert main(["3", "4", "1", "n"]) == 1


def test_a_process_whose_master_died_before_it_began_ends(monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: type("C", (), {"prctl": lambda *_: 0})())

    assert prepare_worker(0, master=-1) is None
