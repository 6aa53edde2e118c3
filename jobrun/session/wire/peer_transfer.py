"""Transfer blobs directly between the processes of two nodes, bypassing the master.

For each direction there is a connection of its own, made by the master when it is first wanted:
one side only receives blobs there and the other only sends them, so that two nodes which
send each other large arrays at the same time never wait for one another. ::

    asker     "meet b", to the master
    master    makes a pair of sockets; hands one end to b, to serve, and one to a, to ask
    asker     asks b, again and again, until one of them ends
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from jobrun.core.errors import EnvironmentFaultError
from jobrun.runtime.context.cancel import CancelScope
from jobrun.session.wire.codec import SocketChannel, serialize_error
from jobrun.session.wire.rpc import Reply, RpcClient
from jobrun.values.blob_kinds import Value

ASK, SERVE = "ask", "serve"
# How many nodes are asked in parallel: more would only take memory.
_AHEAD = 4
_NAME_BYTES = 4096
# A short limit will do: the descriptor is sent before this wait begins.
_MEET_S = 10.0
# Asks the master for a connection to a node.
RequestConnection = Callable[[str, CancelScope], None]
# Gives a copy of a blob of this node.
ReadOwnBlob = Callable[[str], Value]


class PeerReader(Protocol):
    """Reads blobs of other nodes, for one node."""

    def fetch(self, nodes: Sequence[str], name: str, cancel: CancelScope) -> Iterator[Value]:
        """Iterate over the values of a blob that peer nodes send directly, not via the master.

        Raises:
            EnvironmentFaultError: E395, a node is lost.
            MissingBlobError: A node has no such blob.
            CancelledError: The scope was cancelled.
        """


def send_connection(handoff: socket.socket, role: str, node: str, end: socket.socket) -> None:
    """Send a process one end of a socket, for direct transfer from or to a peer process.

    Nothing happens if the process has ended: the other end is closed then.
    """
    with contextlib.suppress(OSError):
        socket.send_fds(handoff, [f"{role} {node}".encode()], [end.fileno()])


class PeerConnections:
    """The connections of one node to other nodes.

    Args:
        handoff: Where the master hands in ends of connections.
        meet: Asks the master for a connection to a node.
        own: Gives a copy of a blob of this node.
    """

    def __init__(
        self,
        handoff: socket.socket,
        meet: RequestConnection,
        read_blob: ReadOwnBlob,
    ) -> None:
        self._handoff = handoff
        self._meet = meet
        self._read_blob = read_blob
        self._known: dict[str, RpcClient] = {}
        self._arrived: Counter[str] = Counter()
        self._arrival = threading.Condition()
        _start_thread(self._accept_connections)

    def fetch(self, nodes: Sequence[str], name: str, cancel: CancelScope) -> Iterator[Value]:
        """Transfer a blob's values from several peer nodes, requesting the next few in advance.

        Raises:
            EnvironmentFaultError: E395, a node is lost.
            MissingBlobError: A node has no such blob.
            CancelledError: The scope was cancelled.
        """
        coming: deque[Reply] = deque()
        unrequested = deque(nodes)
        while unrequested or coming:
            while unrequested and len(coming) < _AHEAD:
                coming.append(self._connection_to(unrequested.popleft(), cancel).call(name))
            yield coming.popleft().wait(cancel)

    def _connection_to(self, node: str, cancel: CancelScope) -> RpcClient:
        client = self._known.get(node)
        if client is None:
            before = self._arrived[node]
            self._meet(node, cancel)
            with self._arrival:
                # Counted: the connection that has arrived may be closed again already.
                self._arrival.wait_for(lambda: self._arrived[node] > before, _MEET_S)
                client = self._known.get(node)
        if client is None:
            raise _node_lost(node)
        return client

    def _accept_connections(self) -> None:
        """Receive this process's ends of direct connections to peers, used for transfers."""
        while True:
            try:
                greeting, handed, _, _ = socket.recv_fds(self._handoff, _NAME_BYTES, 1)
            except OSError:
                return
            if not greeting:
                return
            role, _, node = greeting.decode().partition(" ")
            channel = SocketChannel(socket.socket(fileno=handed[0]))
            if role == SERVE:
                _start_thread(lambda channel=channel: self._serve(channel))  # type: ignore[misc]
            else:
                client = RpcClient(channel.send)
                with self._arrival:
                    self._known[node] = client
                    self._arrived[node] += 1
                    self._arrival.notify_all()
                _start_thread(lambda c=channel, n=node, k=client: self._receive_replies(c, n, k))  # type: ignore[misc]

    def _serve(self, channel: SocketChannel) -> None:
        while (message := channel.receive()) is not None:
            name, number = message
            try:
                outcome = (True, self._read_blob(name))
            except BaseException as error:  # noqa: BLE001 - raised again where it was asked for
                outcome = (False, serialize_error(error))
            try:
                channel.send(number, outcome)
            except OSError:
                break
            except Exception as error:  # noqa: BLE001 - the value cannot cross
                channel.send(number, (False, serialize_error(error)))
            del message, outcome
        channel.close()
        channel.release()

    def _receive_replies(self, channel: SocketChannel, node: str, client: RpcClient) -> None:
        while (message := channel.receive()) is not None:
            client.resolve(*message)
            del message
        with self._arrival:
            if self._known.get(node) is client:
                del self._known[node]
        client.fail_all(_node_lost(node))
        channel.close()
        channel.release()


def _node_lost(node: str) -> EnvironmentFaultError:
    return EnvironmentFaultError.of(
        "E395", f"node '{node}' is lost", "find out what ended its process"
    )


def _start_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="jobrun-peer", daemon=True).start()
