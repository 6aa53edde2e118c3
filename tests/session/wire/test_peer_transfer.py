from __future__ import annotations

import socket
import threading

import numpy as np
import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.runtime.context.cancel import CancelledError, CancelScope
from jobrun.runtime.context.frame import Blobs, MissingBlobError
from jobrun.session.wire.peer_transfer import ASK, SERVE, PeerConnections, send_connection


class Town:
    """Nodes in one process, and a master that connects them."""

    def __init__(self, *nodes):
        self.blobs = {node: Blobs() for node in nodes}
        self.doors = {}
        self.peers = {}
        self.meetings = []
        self._insides = []
        for node in nodes:
            self.doors[node], inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._insides.append(inside)
            self.peers[node] = PeerConnections(
                inside, self._meeting(node), self.blobs[node].__getitem__
            )

    def _meeting(self, asker):
        def meet(owner, cancel):
            self.meetings.append((asker, owner))
            asking, serving = socket.socketpair()
            with asking, serving:
                if owner in self.doors:
                    send_connection(self.doors[owner], SERVE, asker, serving)
                send_connection(self.doors[asker], ASK, owner, asking)

        return meet

    def fetch(self, asker, name, *nodes):
        return list(self.peers[asker].fetch(nodes, name, CancelScope()))

    def close(self):
        for peer in (*self.doors.values(), *self._insides):
            peer.close()


@pytest.fixture
def town():
    town = Town(*"abcdefg")
    yield town
    town.close()


def test_values_come_from_the_nodes_in_their_order(town):
    for number, node in enumerate("bcdefg"):
        town.blobs[node]["w"] = np.full(10_000, number)

    values = town.fetch("a", "w", *"gfedcb")

    assert [value[0] for value in values] == [5, 4, 3, 2, 1, 0]


def test_nodes_connect_once(town):
    town.blobs["b"]["w"] = 1

    assert [town.fetch("a", "w", "b") for _ in range(3)] == [[1]] * 3
    assert town.meetings == [("a", "b")]


def test_two_nodes_can_send_each_other_large_values_at_the_same_time(town):
    for node in "ab":
        town.blobs[node]["w"] = np.zeros(4_000_000)
    threads = [
        threading.Thread(target=lambda pair=pair: town.fetch(pair[0], "w", *[pair[1]] * 3))
        for pair in ("ab", "ba")
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)

    assert not any(thread.is_alive() for thread in threads)


def test_missing_blob_is_an_error_and_the_connection_stays_open(town):
    with pytest.raises(MissingBlobError):
        town.fetch("a", "w", "b")
    town.blobs["b"]["w"] = 2

    assert town.fetch("a", "w", "b") == [2]


def test_value_that_cannot_be_encoded_is_an_error_and_the_connection_stays_open(town):
    town.blobs["b"].update(w=object(), v=1)

    with pytest.raises(TypeError, match="cannot cross"):
        town.fetch("a", "w", "b")

    assert town.fetch("a", "v", "b") == [1]


def test_lost_node_is_an_error(town):
    with pytest.raises(EnvironmentFaultError, match="node 'z' is lost"):
        town.fetch("a", "w", "z")


def test_cancel_ends_the_wait_for_a_value(town):
    asked = threading.Event()
    never = threading.Event()

    def read_blob(name):
        asked.set()
        never.wait()

    town.peers["b"]._read_blob = read_blob
    scope = CancelScope()
    threading.Thread(target=lambda: (asked.wait(), scope.cancel()), daemon=True).start()

    with pytest.raises(CancelledError):
        list(town.peers["a"].fetch(("b",), "w", scope))

    never.set()
