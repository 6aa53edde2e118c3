from __future__ import annotations

import inspect
import threading

import pytest

from jobrun.session.base import NodeLostError
from jobrun.session.wire.codec import SocketChannel
from jobrun.session.wire.launch import LocalProcess
from jobrun.session.wire.partition_group import partition_group
from jobrun.session.wire.peer_transfer import PeerConnections, PeerReader
from jobrun.session.wire.worker_handle import MessageChannel, WorkerHandle, WorkerProcess
from jobrun.testing.graphs import cluster, group, log, task


class Listener:
    """Keeps what is heard."""

    def __init__(self):
        self.lost_nodes = []
        self.is_lost = threading.Event()

    def worker_lost(self, node):
        self.lost_nodes.append(node)
        self.is_lost.set()


@pytest.fixture
def opened(tmp_path):
    events, hearer = [], Listener()
    link = WorkerHandle("n", hearer, events.append)
    (node,) = cluster("n")
    link.rpc.call("open", node, (7, str(tmp_path), str(tmp_path)), 5.0).wait()
    yield link, hearer, events
    link.request_close()
    link.close()
    link.close()


@pytest.mark.long
def test_a_node_is_asked_and_heard(opened):
    link, hearer, events = opened
    share = partition_group(group(task("t", log("hello"), node="n"))).by_node["n"]
    link.send_partition(1, share)
    link.send_partition(1, share)

    made = link.rpc.call("run", 1, 1, 1, {}, None).wait()
    link.forget_partition(1)
    with pytest.raises(KeyError):
        link.rpc.call("read", ("w",)).wait()

    assert made == {}
    # What its process uses is reported beside them.
    assert [type(event).__name__ for event in events[:2]] == ["Logged", "TaskEnded"]
    assert hearer.lost_nodes == []


@pytest.mark.long
def test_a_worker_that_cannot_read_a_message_ends_and_is_lost(opened):
    link, hearer, _ = opened

    link.send("no_such_message")

    assert hearer.is_lost.wait(100)
    with pytest.raises(NodeLostError, match="70"):
        link.rpc.call("names").wait()


@pytest.mark.long
def test_a_node_that_was_killed_is_lost_for_all_who_ask(opened):
    link, hearer, _ = opened

    link.kill()
    assert hearer.is_lost.wait(100)

    with pytest.raises(NodeLostError, match="SIGKILL"):
        link.rpc.call("names").wait()
    assert link.loss is not None
    assert hearer.lost_nodes == ["n"]
    link.send("close")


def test_processes_and_sockets_do_what_the_protocols_say():
    for protocol, cls in (
        (WorkerProcess, LocalProcess),
        (MessageChannel, SocketChannel),
        (PeerReader, PeerConnections),
    ):
        for name, member in vars(protocol).items():
            if not name.startswith("_") and inspect.isfunction(member):
                said = list(inspect.signature(member).parameters)
                assert list(inspect.signature(getattr(cls, name)).parameters) == said, name
