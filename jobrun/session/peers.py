"""A node's ways to other nodes: values go from process to process, not by way of the master.

For each direction there is a connection of its own, made by the master when it is first wanted:
who asks only receives answers there, and who is asked only sends them, so that two nodes which
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

from jobrun.blobs.values import Value
from jobrun.core.errors import EnvironmentFaultError
from jobrun.runtime.cancel import CancelScope
from jobrun.session.calls import Answer, Calls
from jobrun.session.channel import Channel
from jobrun.session.crossing import form_of

ASK, SERVE = "ask", "serve"
# So many nodes are asked at a time: more would only take memory.
_AHEAD = 4
_NAME_BYTES = 4096
# An end is on its way already when it is waited for.
_MEET_S = 10.0


def introduce(door: socket.socket, role: str, node: str, end: socket.socket) -> None:
    """Hand a process one end of a connection to ask the node, or to serve it.

    Nothing happens if the process has ended: whoever has the other end hears of that.
    """
    with contextlib.suppress(OSError):
        socket.send_fds(door, [f"{role} {node}".encode()], [end.fileno()])


class Peers:
    """The connections of one node.

    Args:
        door: Where the master hands in ends of connections.
        meet: Asks the master for a connection to a node.
        own: Gives a copy of a blob of this node.
    """

    def __init__(
        self,
        door: socket.socket,
        meet: Callable[[str, CancelScope], None],
        own: Callable[[str], Value],
    ) -> None:
        self._door = door
        self._meet = meet
        self._own = own
        self._known: dict[str, Calls] = {}
        self._arrived: Counter[str] = Counter()
        self._arrival = threading.Condition()
        _start(self._admit)

    def fetch(self, nodes: Sequence[str], name: str, cancel: CancelScope) -> Iterator[Value]:
        """Copies of a blob of nodes, in their order; some are under way while one is looked at.

        Raises:
            EnvironmentFaultError: E395, a node is lost.
            MissingBlobError: A node has no such blob.
            CancelledError: The scope was cancelled.
        """
        coming: deque[Answer] = deque()
        left = deque(nodes)
        while left or coming:
            while left and len(coming) < _AHEAD:
                coming.append(self._way_to(left.popleft(), cancel).ask(name))
            yield coming.popleft().wait(cancel)

    def _way_to(self, node: str, cancel: CancelScope) -> Calls:
        calls = self._known.get(node)
        if calls is None:
            before = self._arrived[node]
            self._meet(node, cancel)
            with self._arrival:
                # Counted, since an end that has come may be of no use already.
                self._arrival.wait_for(lambda: self._arrived[node] > before, _MEET_S)
                calls = self._known.get(node)
        if calls is None:
            raise _lost(node)
        return calls

    def _admit(self) -> None:
        """Take in ends of connections until the master is gone."""
        while True:
            try:
                said, handed, _, _ = socket.recv_fds(self._door, _NAME_BYTES, 1)
            except OSError:
                return
            if not said:
                return
            role, _, node = said.decode().partition(" ")
            channel = Channel(socket.socket(fileno=handed[0]))
            if role == SERVE:
                _start(lambda channel=channel: self._serve(channel))  # type: ignore[misc]
            else:
                calls = Calls(channel.send)
                with self._arrival:
                    self._known[node] = calls
                    self._arrived[node] += 1
                    self._arrival.notify_all()
                _start(lambda c=channel, n=node, k=calls: self._hear(c, n, k))  # type: ignore[misc]

    def _serve(self, channel: Channel) -> None:
        while (message := channel.receive()) is not None:
            name, number = message
            try:
                outcome = (True, self._own(name))
            except BaseException as error:  # noqa: BLE001 - raised again where it was asked for
                outcome = (False, form_of(error))
            try:
                channel.send(number, outcome)
            except OSError:
                break
            except Exception as error:  # noqa: BLE001 - the value cannot cross
                channel.send(number, (False, form_of(error)))
            del message, outcome
        channel.close()
        channel.release()

    def _hear(self, channel: Channel, node: str, calls: Calls) -> None:
        while (message := channel.receive()) is not None:
            calls.answered(*message)
            del message
        with self._arrival:
            if self._known.get(node) is calls:
                del self._known[node]
        calls.end(_lost(node))
        channel.close()
        channel.release()


def _lost(node: str) -> EnvironmentFaultError:
    return EnvironmentFaultError.of("E395", f"node '{node}' is lost", "see what ended its process")


def _start(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="jobrun-peer", daemon=True).start()
