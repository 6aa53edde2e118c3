"""Control one node's process from the master: send it requests and dispatch its messages."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from jobrun.core.events import Listener
from jobrun.session.base import NodeLostError
from jobrun.session.wire.codec import serialize_error
from jobrun.session.wire.launch import LocalProcess
from jobrun.session.wire.partition_group import Partition
from jobrun.session.wire.rpc import RpcClient
from jobrun.session.wire.worker_protocol import WorkerListener, WorkerProcess


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
        listener: WorkerListener[WorkerHandle],
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
        """Send the worker process its tasks of a group, unless it has received them before."""
        if key not in self._known:
            self._known.add(key)
            self.send("partition", key, partition)

    def forget_partition(self, key: int) -> None:
        """Send the handle's worker a command to delete its tasks of a group, no longer needed."""
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
