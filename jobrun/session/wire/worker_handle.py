"""Control one node's worker process from the master: send it requests, dispatch its messages.

The process, its message channel and the listener to its messages are protocols: a process of this
machine and an actor of Ray are such processes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from jobrun.core.events import Listener
from jobrun.graph.types import OutputRef
from jobrun.runtime.codegen.meter_protocol import BlockTime
from jobrun.session.base import NodeLostError
from jobrun.session.wire.codec import serialize_error
from jobrun.session.wire.launch import LocalProcess
from jobrun.session.wire.partition_group import Partition
from jobrun.session.wire.rpc import RpcClient
from jobrun.values.blob_kinds import Value


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
        """Return the process ID of the worker that this handle controls."""
        return self._process.pid

    def send(self, *message: Any) -> None:
        """Send the worker process a message without a reply, unless it has ended."""
        with contextlib.suppress(OSError):
            self._process.channel.send(*message)

    def send_partition(self, key: int, partition: Partition) -> None:
        """Send the worker process its tasks of a group, unless it has received them before."""
        if key not in self._known:
            self._known.add(key)
            self.send("partition", key, partition)

    def forget_partition(self, key: int) -> None:
        """Send the worker process a command to delete the tasks of a group that it was sent."""
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
        """Connect this handle's worker with another handle's worker, to request blobs there."""
        self._process.connect_peer(self.node, other.node, other._process)

    def kill(self) -> None:
        """Kill the process that this ``WorkerHandle`` controls; its listener is notified."""
        self._process.kill()

    def abort(self) -> None:
        """Kill this worker handle's unresponsive process; let it print its stack traces first."""
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


class WorkerListener(Protocol):
    """Receives what a node sends unasked, in the handle's own thread; must not wait for nodes."""

    def part_failed(self, node: str, run: int) -> None:
        """Receive from a worker handle the message that tasks of a group run have failed."""

    def task_ended(
        self, node: str, run: int, task: str, outputs: Mapping[OutputRef, Value]
    ) -> None:
        """Receive from a worker handle the message that a task has ended, with its outputs."""

    def handle_request(
        self, link: WorkerHandle, number: int, run: int, what: str, given: tuple[Any, ...]
    ) -> None:
        """Receive from a worker handle a request of its process, and answer it through the handle.

        ``WorkerHandle.answer`` sends the reply.
        """

    def add_step_times(self, reporter: str, times: Sequence[BlockTime]) -> None:
        """Receive from a worker handle the step times that its process has measured.

        See ``Instrumenter.merge_times``.
        """

    def worker_lost(self, node: str) -> None:
        """Receive from a worker handle the message that its process has ended unexpectedly."""


class MessageChannel(Protocol):
    """One end of what carries messages between a node and its master, whole and in order."""

    def send(self, *message: Any) -> None:
        """Send a message to the other end of a worker process's channel.

        Can be called from any thread.

        Raises:
            OSError: The other side has ended.
            TaskFailedError: E274, a value has a dtype that cannot be encoded.
        """

    def receive(self) -> tuple[Any, ...] | None:
        """Wait for a message on a worker process's channel and return it; None after its end."""

    def close(self) -> None:
        """Close a worker process's channel, so that a thread waiting in ``receive`` gets None."""


class WorkerProcess(Protocol):
    """The process of one node, from its start to its end, as its master controls it."""

    @property
    def channel(self) -> MessageChannel:
        """Return the master's end of the message channel to this worker process."""

    @property
    def pid(self) -> int:
        """Return the process ID of this worker process; 0 until it is known."""

    def kill(self) -> None:
        """Kill this worker process at once, be it a local process or a Ray actor."""

    def abort(self) -> None:
        """Kill a worker process that does not respond; let it print its stack traces first."""

    def wait_for_exit(self) -> None:
        """Wait until a worker process has ended, by itself or by a signal."""

    def join(self) -> str:
        """Wait until a worker process ends, kill it if it takes long; return how it ended."""

    def take_output(self, emit: Listener) -> None:
        """Emit, as events, lines that a worker process printed but had not sent when it ended."""

    def release(self) -> None:
        """Free what the master holds for an ended worker process, such as its sockets."""

    def connect_peer(self, asker: str, owner: str, other: Any) -> None:
        """Connect this worker process with another one, to request blobs from the other."""
