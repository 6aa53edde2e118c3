"""Control one node's process from the master: send it requests and dispatch its messages."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from jobrun.core.events import Listener
from jobrun.graph.types import OutputRef
from jobrun.runtime.codegen.step_times import BlockTime
from jobrun.runtime.context.cancel import CancelScope
from jobrun.session.group_errors import NodeLostError
from jobrun.session.wire.launch import LocalProcess
from jobrun.session.wire.partition_group import Partition
from jobrun.session.wire.rpc import RpcClient
from jobrun.session.wire.serialized_errors import serialize_error
from jobrun.values.blob_kinds import Value

# Asks the master for a connection to a node.
RequestConnection = Callable[[str, CancelScope], None]
# Gives a copy of a blob of this node.
ReadOwnBlob = Callable[[str], Value]


class WorkerListener(Protocol):
    """Receives what a node sends unasked, in the handle's own thread; must not wait for nodes."""

    def part_failed(self, node: str, run: int) -> None:
        """Receive that a worker's part of a group run has failed (worker listener protocol)."""

    def task_ended(
        self, node: str, run: int, task: str, outputs: Mapping[OutputRef, Value]
    ) -> None:
        """Receive that a task ended on a worker's node (worker listener protocol)."""

    def handle_request(
        self, link: WorkerHandle, number: int, run: int, what: str, given: tuple[Any, ...]
    ) -> None:
        """Receive a worker's request, to answer it through its handle (worker listener protocol).

        ``WorkerHandle.answer`` sends the reply.
        """

    def add_step_times(self, reporter: str, times: Sequence[BlockTime]) -> None:
        """Receive step times that a worker has measured (worker listener protocol).

        See ``Instrumenter.merge_times``.
        """

    def worker_lost(self, node: str) -> None:
        """Receive that a worker's process ended unexpectedly (worker listener protocol)."""


class WorkerHandle:
    """Owns a node's process, from its start to its end.

    Args:
        node: Its name.
        listener: Receives what it sends unasked.
        emit: Receives its events.
        start: Starts the process.
        incarnation: Counts the processes of the session, from 1.
    """

    def __init__(
        self,
        node: str,
        listener: WorkerListener,
        emit: Listener,
        start: Callable[[str], WorkerProcess] = LocalProcess,
        incarnation: int = 0,
    ) -> None:
        self.node = node
        self.incarnation = incarnation
        self._listener = listener
        self._emit = emit
        self._process = start(node)
        self.rpc = RpcClient(self._process.channel.send)
        self.loss: NodeLostError | None = None
        self._known: set[int] = set()
        self._is_closing = False
        self._threads = [
            threading.Thread(target=work, name=f"jobrun-{node}", daemon=True)
            for work in (self._receive_messages, self._wait_for_exit)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """The process ID of the worker that this handle controls."""
        return self._process.pid

    def send(self, *message: Any) -> None:
        """Send the worker process a message without a reply, unless it has ended."""
        with contextlib.suppress(OSError):
            self._process.channel.send(*message)

    def send_partition(self, key: int, partition: Partition) -> None:
        """Send the worker process its part of a group, unless the process has that part already."""
        if key not in self._known:
            self._known.add(key)
            self.send("partition", key, partition)

    def forget_partition(self, key: int) -> None:
        """Send the handle's worker the command to delete its part of a group, not needed again."""
        if key in self._known:
            self._known.remove(key)
            self.send("forget", key)

    def answer(self, number: int, *, value: Any = None, error: BaseException | None = None) -> None:
        """Reply through this worker handle to a request, with a value or an error."""
        if error is not None:
            self.send("answer", number, (False, serialize_error(error)))
        else:
            self.send("answer", number, (True, value))

    def connect_to(self, other: WorkerHandle) -> None:
        """Connect the worker of this handle with that of another, to request blobs from it."""
        self._process.connect_peer(self.node, other.node, other._process)

    def kill(self) -> None:
        """Kill the process that this ``WorkerHandle`` controls; its listener is notified."""
        self._process.kill()

    def abort(self) -> None:
        """Kill this worker handle's unresponsive process in a way that prints its stacks."""
        self._process.abort()

    def request_close(self) -> None:
        """Ask the worker process by a message to end, unless it has ended."""
        self._is_closing = True
        self.send("close")

    def close(self, *, at_once: bool = False) -> None:
        """Wait for the handle's worker to end, and free what it used; may be called again."""
        self._is_closing = True
        if at_once:
            self._process.kill()
        self._process.join()
        for thread in self._threads:
            thread.join()
        self._process.release()

    def _receive_messages(self) -> None:
        channel = self._process.channel
        while (message := channel.receive()) is not None:
            self._dispatch(*message)
            # Freed before waiting for the next one: it may be large.
            del message
        how = "was closed"
        if not self._is_closing:
            how = self._process.join()
            self._process.take_output(self._emit)
        channel.close()
        self.loss = NodeLostError.of_node(self.node, how)
        self.rpc.fail_all(self.loss)
        if not self._is_closing:
            self._listener.worker_lost(self.node)

    def _wait_for_exit(self) -> None:
        # A process forked by a callable inherits the socket and would keep it open.
        self._process.wait_for_exit()
        self._process.channel.close()

    def _dispatch(self, kind: str, *given: Any) -> None:
        match kind:
            case "event":
                self._emit(given[0])
            case "answer":
                self.rpc.resolve(*given)
            case "failing":
                self._listener.part_failed(self.node, *given)
            case "ended":
                self._listener.task_ended(self.node, *given)
            case "ask":
                self._listener.handle_request(self, *given)
            case "measured":
                self._listener.add_step_times(f"{self.node} {self.pid}", *given)
            case _:
                raise RuntimeError(f"node '{self.node}' sent an unknown message '{kind}'")


class MessageChannel(Protocol):
    """One end of what carries messages between a node and its master, whole and in order."""

    def send(self, *message: Any) -> None:
        """Send a message to the other end of a worker's channel (worker protocol).

        Can be called from any thread.

        Raises:
            OSError: The other side has ended.
            TaskFailedError: E274, a value has a dtype that cannot be encoded.
        """

    def receive(self) -> tuple[Any, ...] | None:
        """Wait for the next message on a worker's channel; None at its end (protocol)."""

    def close(self) -> None:
        """Close the message channel; a receiving thread then gets None (worker protocol)."""


class PeerReader(Protocol):
    """Reads blobs of other nodes, for one node."""

    def fetch(self, nodes: Sequence[str], name: str, cancel: CancelScope) -> Iterator[Value]:
        """Iterate over the copies of a blob that other nodes send to a worker (worker protocol).

        Raises:
            EnvironmentFaultError: E395, a node is lost.
            MissingBlobError: A node has no such blob.
            CancelledError: The scope was cancelled.
        """


class WorkerProcess(Protocol):
    """The process of one node, from its start to its end, as its master controls it."""

    @property
    def channel(self) -> MessageChannel:
        """The master's end of the channel to a worker's process (worker protocol)."""

    @property
    def pid(self) -> int:
        """The worker protocol's field for the worker's process ID; 0 until it is known."""

    def kill(self) -> None:
        """Kill the worker's process at once (worker protocol)."""

    def abort(self) -> None:
        """Kill a worker that does not respond, after it prints its stacks (worker protocol)."""

    def wait_for_exit(self) -> None:
        """Wait until a worker process has ended, by itself or by a signal (worker protocol)."""

    def join(self) -> str:
        """Wait for a worker process to end, by force if needed; return how it ended (protocol)."""

    def take_output(self, emit: Listener) -> None:
        """Emit what a worker printed and had not sent when it ended (worker protocol)."""

    def release(self) -> None:
        """Free what the master holds for a worker whose process has ended (worker protocol)."""

    def connect_peer(self, asker: str, owner: str, other: Any) -> None:
        """Connect a worker's process with another's, to request blobs from it (worker protocol)."""
