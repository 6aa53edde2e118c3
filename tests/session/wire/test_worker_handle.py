from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.session.base import NodeLostError
from jobrun.session.wire.codec import SocketChannel
from jobrun.session.wire.partition_group import partition_group
from jobrun.session.wire.peer_transfer import PeerConnections, PeerReader
from jobrun.session.wire.worker_handle import (
    LocalProcess,
    MessageChannel,
    WorkerHandle,
    WorkerProcess,
)
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
    link.rpc.call("open", node, (7, str(tmp_path), str(tmp_path), None), 5.0).wait()
    yield link, hearer, events
    link.request_close()
    link.close()
    link.close()


@pytest.mark.long
def test_worker_answers_rpc_and_sends_events(opened):
    link, hearer, events = opened
    share = partition_group(group(task("t", log("hello"), node="n"))).by_node["n"]
    link.send_partition(1, share)
    link.send_partition(1, share)

    outputs = link.rpc.call("run", 1, 1, 1, {}, None).wait()
    link.forget_partition(1)
    with pytest.raises(KeyError):
        link.rpc.call("read", ("w",)).wait()

    assert outputs == {}
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
                parameters = list(inspect.signature(member).parameters)
                assert list(inspect.signature(getattr(cls, name)).parameters) == parameters, name


@pytest.mark.long
def test_a_process_ends_when_its_master_closes_the_connection():
    process = LocalProcess("trainer_1")

    process.channel.close()
    # However long that takes: to end it by force is another matter.
    process.wait_for_exit()
    ending = process.join()
    process.release()

    # For whoever looks at the list of processes.
    assert process._process.args[-1] == "trainer_1"
    assert ending == "ended with exit code 1"


@pytest.mark.long
def test_signals_to_the_process_group_do_not_end_a_worker():
    process = LocalProcess("n")
    # Also before it has begun.
    os.kill(process.pid, signal.SIGINT)
    process.channel.send("names", 1)
    # The answer, an error since nothing is open, comes when it has begun.
    assert process.channel.receive()[0] == "answer"

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        os.kill(process.pid, number)
    process.channel.send("names", 2)

    assert process.channel.receive()[:2] == ("answer", 2)
    os.kill(process.pid, signal.SIGKILL)
    assert process.join() == "was ended by SIGKILL"
    process.channel.close()
    process.release()


@pytest.mark.long
def test_process_that_was_stopped_and_continued_is_not_killed():
    process = LocalProcess("n")
    watching = threading.Thread(target=process.wait_for_exit)
    watching.start()

    os.kill(process.pid, signal.SIGSTOP)
    while Path("/proc", str(process.pid), "stat").read_text().rpartition(") ")[2][0] != "T":
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGCONT)
    process.channel.send("names", 1)

    assert process.channel.receive()[:2] == ("answer", 1)
    process.channel.close()
    watching.join()
    assert process.join() == "ended with exit code 1"
    process.release()


def test_a_process_that_cannot_be_started_is_a_fault_of_the_machine(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")

    with pytest.raises(EnvironmentFaultError) as caught:
        LocalProcess("n")

    assert caught.value.faults[0].code == "E396"
