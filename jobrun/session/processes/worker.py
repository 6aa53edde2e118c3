"""Run inside a node's process: execute the master's commands with a ``ThreadsSession``.

::

    main thread        everything that touches workspaces, in order: groups, snapshots, reads
    receiving thread   receives the master's messages; never waits for anything else
    other threads      saves, and requests of other nodes meanwhile

The process ends with its master, however that ends: the kernel kills it, and if the kernel
does not (no PR_SET_PDEATHSIG), the end of the connection does.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import socket
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any

from jobrun.core.captured_output import STREAMS
from jobrun.core.errors import JobrunError
from jobrun.core.events import Event, ProcessMeasured
from jobrun.core.files.output_file import OutputFile
from jobrun.core.files.written_files import record_writes_if_asked
from jobrun.core.resource_usage import CostBudget, MemoryWatch, measure_process
from jobrun.core.stop_signals import handleable_signals, own_handler, requested_signals
from jobrun.core.system_calls import die_with_parent
from jobrun.graph.types import Cluster, Node, OutputRef, TaskGroup
from jobrun.runtime.codegen.step_meter import Meter
from jobrun.runtime.context.bounded_queue import RecordQueue
from jobrun.runtime.context.cancel import CancelScope
from jobrun.runtime.context.group_run_state import GroupRun
from jobrun.runtime.context.safe_point import SafePoint, SafePointHooks
from jobrun.runtime.records.queue_endpoints import QueuePlan
from jobrun.session.base import RunContext
from jobrun.session.node_files import NodeDirectory, is_visible
from jobrun.session.processes.remote_queue import RemoteQueue
from jobrun.session.threads.session import ThreadsSession
from jobrun.session.threads.work_items import ExternalDeps, TaskOnNode
from jobrun.session.wire.codec import SocketChannel, serialize_error
from jobrun.session.wire.file_messages import NO_FILE_SETUP, WorkerFileSetup
from jobrun.session.wire.partition_group import Partition
from jobrun.session.wire.peer_transfer import (
    PeerConnections,
    PeerReader,
    ReadOwnBlob,
    RequestConnection,
)
from jobrun.session.wire.rpc import RpcClient
from jobrun.session.wire.worker_handle import MessageChannel
from jobrun.values.blob_kinds import Value

_LOST_MASTER = 1
_BROKEN = 70
_NOTHING: Mapping[str, tuple[str, ...]] = MappingProxyType({})
# Separates a node from a blob in a request; no name contains it.
_NODE_SEPARATOR = "\0"


class Worker:
    """The process of one node, seen from inside.

    Args:
        channel: To the master.
        ways: Makes what asks other nodes, from what asks the master for a connection to a node,
            and what gives a copy of a blob of this node.
    """

    def __init__(
        self, channel: MessageChannel, ways: Callable[[RequestConnection, ReadOwnBlob], PeerReader]
    ) -> None:
        self._channel = channel
        self.rpc = RpcClient(channel.send)
        self.peers = ways(self._meet, self.copy_blob)
        self._commands: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._partitions: dict[int, Partition] = {}
        self._snapshots: dict[int, Any] = {}
        self._current: PartitionRun | None = None
        self._node = ""
        self._here: frozenset[str] = frozenset()
        self._session = ThreadsSession()
        self.meter: Meter | None = None
        self.files = NodeDirectory()
        self._measuring = CostBudget()

    def serve(self) -> None:
        """Execute the master's commands in this worker process, until the command to close."""
        threading.Thread(target=self._receive_messages, name="jobrun-receive", daemon=True).start()
        watch = MemoryWatch(lambda: self.measure(grown=True))
        while (command := self._commands.get()) is not None:
            command()
            del command
        watch.close()
        self._session.close()
        self.files.close()

    def _receive_messages(self) -> None:
        try:
            self._handle_messages()
        except BaseException:  # noqa: BLE001 - the process ends
            # A message that cannot be read: without this thread the master would wait for ever.
            traceback.print_exc()
            os._exit(_BROKEN)

    def _handle_messages(self) -> None:
        while (message := self._channel.receive()) is not None:
            kind, *arguments = message
            if kind == "close":
                self._commands.put(None)
                return
            getattr(self, f"on_{kind}")(*arguments)
            del message, arguments
        # The master is gone: the tasks that run here must end too.
        os._exit(_LOST_MASTER)

    def run_and_reply(self, number: int, work: Callable[[], Any]) -> None:
        """Execute a command in the worker, and send the master its result or error."""
        try:
            outcome = (True, work())
        except BaseException as error:  # noqa: BLE001 - raised again where it was asked for
            outcome = (False, serialize_error(error))
        with contextlib.suppress(OSError):
            try:
                self._channel.send("answer", number, outcome)
            except (JobrunError, TypeError, ValueError) as error:
                # The value cannot be encoded.
                self._channel.send("answer", number, (False, serialize_error(error)))

    def _enqueue(self, number: int, work: Callable[[], Any]) -> None:
        self._commands.put(partial(self.run_and_reply, number, work))

    def _run_in_thread(self, number: int, work: Callable[[], Any]) -> None:
        """Execute a command in a new thread of the worker, so that it blocks no other command."""
        name = "jobrun-beside"
        threading.Thread(
            target=self.run_and_reply, args=(number, work), name=name, daemon=True
        ).start()

    # Handlers of the master's messages, called in the receiving thread.

    def on_open(
        self,
        number: int,
        node: Node,
        facts: tuple[int, str, str, Mapping[str, str] | None],
        grace_s: float,
        spans: int = 0,
        others: tuple[Node, ...] = (),
        file_setup: WorkerFileSetup = NO_FILE_SETUP,
        adapt: tuple[str, ...] = (),
    ) -> None:
        """Set up this worker's node with the seed and the directories that the master has sent.

        Args:
            number: The number of the request.
            node: The node to become.
            facts: The seed, the directory, the folder, and the digests of the code.
            grace_s: As that of a session.
            spans: How many runs of blocks are reported one by one; 0 if steps are not measured.
            others: Other nodes that run in this process.
            file_setup: Where files of epochs go; the reply says whether the node can write there.
            adapt: Packages, modules and classes whose values are kept by their attributes.
        """
        self._node = node.name
        self._here = frozenset(other.name for other in (node, *others))
        self.meter = Meter(spans) if spans else None

        def work() -> bool:
            self.files = NodeDirectory(node.name, file_setup)
            self._session = ThreadsSession(grace_s=grace_s)
            cluster = Cluster((node, *others))
            seed, run_dir, folder, code = facts
            context = RunContext(
                seed, run_dir, folder, self._emit, self.meter, code=code, adapt=adapt
            )
            self._session.open(cluster, context)
            return is_visible(file_setup.probe)

        self._enqueue(number, work)

    def on_partition(self, key: int, partition: Partition) -> None:
        """Store the tasks of a group that the master has sent to this worker process."""
        self._partitions[key] = partition

    def on_forget(self, key: int) -> None:
        """Delete the stored tasks of a group in this worker process, on the master's command."""
        self._partitions.pop(key, None)

    def on_run(
        self,
        number: int,
        run: int,
        key: int,
        epoch: int,
        outputs: Mapping[OutputRef, Value],
        points: tuple[int, SafePoint | None] | None,
    ) -> None:
        """Execute the master's command to run the tasks of a group in this worker process."""
        current = self._current = PartitionRun(self, run, self._partitions[key], outputs)
        self._enqueue(number, partial(current.run, self._session, epoch, points))

    def on_ended(self, run: int, task: str, outputs: Mapping[OutputRef, Value]) -> None:
        """Receive the master's message to this worker process: another node's task has ended."""
        if self._current is not None and self._current.number == run:
            self._current.deps.mark_ended(task, outputs)

    def on_cancel(self, run: int) -> None:
        """Execute the master's command to cancel a group run in this worker process."""
        if self._current is not None and self._current.number == run:
            self._current.deps.cancel()

    def on_snapshot(self, number: int, snapshot: int, key: int) -> None:
        """Execute the master's command to take a snapshot in this worker process."""
        group = self._partitions[key].group

        def work() -> None:
            self._snapshots[snapshot] = self._session.snapshot(group)

        self._enqueue(number, work)

    def on_restore(self, number: int, snapshot: int) -> None:
        """Execute the master's command to restore a snapshot in this worker process."""
        self._enqueue(number, lambda: self._session.restore(self._snapshots[snapshot]))

    def on_drop(self, snapshot: int) -> None:
        """Execute the master's command to delete a snapshot in this worker process."""
        self._commands.put(lambda: self._snapshots.pop(snapshot, None))

    def on_settle(
        self,
        number: int,
        names: tuple[str, ...],
        others: Mapping[str, tuple[str, ...]] = _NOTHING,
        final: bool = False,
    ) -> None:
        """Execute the master's command to delete all but the named blobs in this worker process."""
        keep = {self._node: names, **others}
        self._enqueue(number, lambda: self._session.settle(keep, final=final))

    def on_names(self, number: int, node: str = "") -> None:
        """Reply to the master with the names of a node's blobs in this worker process."""
        self._enqueue(number, lambda: self._session.names(node or self._node))

    def on_read(self, number: int, names: tuple[str, ...], node: str = "") -> None:
        """Reply to the master with the values of blobs in this worker process."""
        self._enqueue(number, lambda: self._session.read(node or self._node, names))

    def on_protect(self, number: int, tickets: tuple[Any, ...], keys: tuple[int, ...]) -> None:
        """Execute the master's command to copy blobs in this worker that are still being saved."""
        groups = [self._partitions[key].group for key in keys if key in self._partitions]
        self._enqueue(number, lambda: self._session.protect(tickets, groups))

    def on_persist(self, number: int, tickets: tuple[Any, ...], directory: str) -> None:
        """Execute the master's command to write files of a save in this worker process."""

        def work() -> Any:
            saves = self._session.persist(tickets, self.files.stage(directory))
            return self.files.upload(directory, tickets[0].epoch, saves)

        self._run_in_thread(number, work)

    def on_chunk(self, number: int, token: str, name: str, offset: int) -> None:
        """Reply to the master with a chunk of a file that this worker has saved."""
        self._run_in_thread(number, lambda: self.files.read_chunk(token, name, offset))

    def on_forget_save(self, token: str) -> None:
        """Execute the master's command to delete a save's local files in this worker process."""
        self.files.forget(token)

    def on_release(self, tickets: tuple[Any, ...]) -> None:
        """Execute the master's command to free a save's snapshots in this worker process."""
        self._session.release(tickets)

    def on_answer(self, number: int, outcome: tuple[bool, Any]) -> None:
        """Pass the master's reply to the task in this worker that sent the request."""
        self.rpc.resolve(number, outcome)

    # Services for the tasks that run in this process.

    def copy_blob(self, name: str) -> Value:
        """Return a copy of a blob in this worker process, for another process that requested it.

        Raises:
            MissingBlobError: There is none.
        """
        node, _, blob = name.rpartition(_NODE_SEPARATOR)
        return next(self._session.fetch((node or self._node,), blob, CancelScope()))

    def send(self, *message: Any) -> None:
        """Send the master a message from this worker process."""
        with contextlib.suppress(OSError):
            self._channel.send(*message)

    def _meet(self, node: str, cancel: CancelScope) -> None:
        number = self._current.number if self._current is not None else 0
        self.rpc.call("ask", number, "meet", (node,)).wait(cancel)

    @property
    def here(self) -> frozenset[str]:
        """Return the names of all nodes that run in this worker process."""
        return self._here

    def measure(self, *, grown: bool = False) -> None:
        """Send the master this worker process's usage of resources, if a measurement is due.

        Can be called from any thread.
        """
        if grown or self._measuring.is_due:
            began = self._measuring.cost_clock()
            self._emit(ProcessMeasured(measure_process(self._node), grown))
            self._measuring.spend(began)

    def _emit(self, event: Event) -> None:
        self.send("event", event)


class PartitionRun:
    """The run of this process's part of a group, and its connection to the master.

    Attributes:
        deps: The rest of it.
    """

    def __init__(
        self, worker: Worker, number: int, partition: Partition, outputs: Mapping[OutputRef, Value]
    ) -> None:
        self.number = number
        self._worker = worker
        self._partition = partition
        self._queues = dict(partition.queues)
        self._lock = threading.Lock()
        # By task: on how many nodes of this process it has not ended, and its outputs so far.
        self._unfinished = Counter(task.name for task in partition.group.tasks)
        self._made: dict[str, dict[OutputRef, Value]] = {}
        self.deps = ExternalDeps(
            outputs,
            self.fetch,
            partition.awaited,
            partition.needed_elsewhere,
            self,
            self.fetch_file,
        )

    def run(
        self, session: ThreadsSession, epoch: int, points: tuple[int, SafePoint | None] | None
    ) -> Any:
        """Run this worker process's tasks of a group, and return their outputs."""
        group: TaskGroup = self._partition.group
        reported = None
        if points is not None:
            every, entry = points
            reported = SafePointHooks(every, self._reached, entry)
        try:
            return session.run_part(group, epoch, self.deps, reported)
        finally:
            # After every group: times not reported are lost when the node is.
            if self._worker.meter is not None:
                self._worker.send("measured", self._worker.meter.take_times())
            self._worker.measure()

    def fetch(self, nodes: Sequence[str], name: str, cancel: CancelScope) -> Iterator[Value]:
        """Iterate over a blob's values on several nodes, in this worker process or in others."""
        here, placement = self._worker.here, self._partition.placement
        others = [node for node in nodes if node not in here]
        if placement.keys().isdisjoint(others):
            coming = self._worker.peers.fetch(others, name, cancel)
        else:
            # A process that runs several nodes needs the name of the one that is meant.
            coming = (
                next(
                    self._worker.peers.fetch(
                        [placement.get(node, node)], _address(node, name), cancel
                    )
                )
                for node in others
            )
        return (
            self._worker.copy_blob(_address(node, name)) if node in here else next(coming)
            for node in nodes
        )

    def fetch_file(self, path: str) -> AbstractContextManager[str]:
        """Return a context manager that yields this worker's path of a master's checkpoint file."""
        return self._worker.files.local_copy(
            path, partial(self._ask, "file", path), partial(self._ask, "where", path)
        )

    def notify_task_ended(self, task: str, outputs: Mapping[OutputRef, Value]) -> None:
        """Report to the master that a task has ended on all nodes of this worker process."""
        with self._lock:
            task_outputs = self._made.setdefault(task, {})
            task_outputs.update(outputs)
            self._unfinished[task] -= 1
            if self._unfinished[task]:
                return
        self._worker.send("ended", self.number, task, task_outputs)

    def notify_failure(self) -> None:
        """Notify the master that a task in this worker process has failed."""
        self._worker.send("failing", self.number)

    def open_queue(self, plan: QueuePlan, run: GroupRun) -> RecordQueue | None:
        """Open this worker process's end of a queue that other workers use; None if none does."""
        if plan.key not in self._queues:
            return None
        return RemoteQueue(
            plan,
            partial(self._ask_queue, plan.key),
            run,
            is_only_reader=self._queues[plan.key],
        )

    def _ask(self, request: str, *arguments: Any) -> Any:
        return self._worker.rpc.call("ask", self.number, request, arguments)

    def _ask_queue(self, key: TaskOnNode, request: str, *arguments: Any) -> Any:
        return self._ask("queue", key, request, arguments)

    def _reached(self, midpoint: SafePoint) -> bool:
        return bool(self._ask("reached", midpoint).wait())


def _address(node: str, name: str) -> str:
    return f"{node}{_NODE_SEPARATOR}{name}"


def prepare_worker(descriptor: int, master: int) -> SocketChannel | None:
    """Set up this worker process at its start; return its channel to the master.

    Returns None if the master has ended.

    Args:
        descriptor: Of the inherited socket.
        master: The process that started this one.
    """
    if not die_with_parent(master):
        return None
    # A terminal or a batch system sends them to the process group; only the master acts on them.
    # A no-op handler: SIG_IGN would be inherited by the programs that tasks start.
    for number in handleable_signals():
        signal.signal(number, own_handler(lambda *_: None))
    # The kernel sends this one to a process that has used up its time, which may be this one alone.
    signal.signal(signal.SIGXCPU, own_handler(lambda number, _: os.kill(master, number)))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, requested_signals())
    # To the terminal: descriptor 2 will lead to what is logged.
    faulthandler.enable(os.dup(2))
    channel = SocketChannel(socket.socket(fileno=descriptor))
    first = channel.receive()
    if first is None:
        return None
    _, paths, before, STREAMS.is_shown, files = first
    STREAMS.use_files([OutputFile(*parts) for parts in files])
    sys.path[:] = paths
    if before is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = before
    return channel


def main(arguments: list[str]) -> int:
    """Run this process as the worker of a node.

    Args:
        arguments: The numbers of the inherited sockets, and that of the master's process.
    """
    channel = prepare_worker(int(arguments[0]), int(arguments[2]))
    if channel is None:
        return _LOST_MASTER
    record_writes_if_asked(os.environ)
    with socket.socket(fileno=int(arguments[1])) as handoff:
        Worker(channel, partial(PeerConnections, handoff)).serve()
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
