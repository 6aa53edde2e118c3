"""Implement the ``processes`` session: every node is a process on this machine.

Each of them runs its part of a group as the threads session would, in threads; what parts need of
each other goes through this process, the master, which keeps the queues that several nodes use.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import count
from typing import Any

from jobrun.checkpoint.checkpoint_times import NodeSave
from jobrun.checkpoint.task_groups import Ticket
from jobrun.core.events import Event, Listener
from jobrun.graph.types import Cluster, Node, OutputRef, TaskGroup
from jobrun.runtime.codegen.meter_protocol import BlockTime
from jobrun.runtime.codegen.step_meter import SPANS
from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.context.safe_point import SafePointHooks
from jobrun.session.base import NodeLostError, Outputs, RunContext, TasksStuckError
from jobrun.session.node_files import (
    FILE_REQUESTS,
    collect_from_nodes,
    require_visible,
    upload_from_nodes,
    write_probe,
)
from jobrun.session.processes.group_run import RemoteGroupRun, TaskCompletions
from jobrun.session.processes.remote_queue import serve_queue_request
from jobrun.session.threads.work_items import require_valid_needs
from jobrun.session.wire.file_messages import Probe, WorkerFileSetup
from jobrun.session.wire.partition_group import PartitionedGroup, partition_group
from jobrun.session.wire.rpc import Reply, wait_all
from jobrun.session.wire.worker_handle import LocalProcess, WorkerHandle, WorkerProcess
from jobrun.values.blob_kinds import Value

_KEPT_GROUPS = 8
_CONCURRENT_CHUNKS = 8


class RemoteSnapshot:
    """Handle of the snapshots that the nodes hold; they drop them when it is garbage-collected."""

    def __init__(self, number: int) -> None:
        self.number = number


class ProcessesSession:
    """Runs every node in its own process, which holds its workspace and writes its own files.

    Hosts and resources mean nothing here, and remote nets are not used.

    Args:
        grace_s: As that of ``ThreadsSession``.
    """

    def __init__(self, *, grace_s: float = 30.0) -> None:
        self._grace_s = grace_s
        self._nodes: dict[str, Node] = {}
        # By node, the node whose process it shares.
        self._placement: Mapping[str, str] = {}
        # By process, the other nodes that are in it.
        self._colocated: dict[str, list[str]] = {}
        self._workers: dict[str, WorkerHandle] = {}
        self._context: RunContext | None = None
        self._groups: OrderedDict[int, tuple[int, PartitionedGroup]] = OrderedDict()
        self._numbers = count(1)
        self._incarnations = count(1)
        # Bounds the file chunks in memory, however many nodes load at a time.
        self._chunk_slots = threading.Semaphore(_CONCURRENT_CHUNKS)
        self._active_run: RemoteGroupRun | None = None
        self._completions: TaskCompletions
        # Held while parts are sent: no message about a run may reach a node before its part.
        self._send_lock = threading.Lock()
        self._is_stuck = False

    def open(self, cluster: Cluster, context: RunContext) -> None:
        """Start the session's process for each node, with an empty global workspace.

        Raises:
            EnvironmentFaultError: A process could not be started, or does not see where it is to
                write its files.
        """
        self._context = context
        self._nodes = {node.name: node for node in cluster}
        self._placement = context.placement
        self._colocated = {}
        for node, worker in self._placement.items():
            self._colocated.setdefault(worker, []).append(node)
        # All in parallel: a process takes long to start.
        for name in dict.fromkeys(map(self._worker_name, self._nodes)):
            self._workers[name] = self._start_worker(name)
        # A node lost already is handled at the first group, like one lost later.
        with contextlib.suppress(NodeLostError):
            self._open_workers(self._workers)

    def renew(self) -> tuple[str, ...]:
        """Replace the session's processes of lost nodes, and empty all workspaces.

        Raises:
            EnvironmentFaultError: A process could not be started, or was lost at once.
        """
        lost = {node for node, link in self._workers.items() if link.loss is not None}
        for node in lost:
            self._workers[node].close(at_once=True)
            self._workers[node] = self._start_worker(node)
        self._open_workers(lost)
        self.settle({})
        return tuple(node for node in self._nodes if self._worker_name(node) in lost)

    def run(
        self, group: TaskGroup, epoch: int, outputs: Outputs, points: SafePointHooks | None = None
    ) -> Outputs:
        """Run a task group in the ``processes`` session, and return the outputs of all its tasks.

        Raises:
            NodeLostError: The process of a node has ended.
            JobrunError: What failed first, with the faults of everything that failed.
            GroupCancelledError: ``request_stop`` ended it.
            TasksStuckError: Tasks did not end in time; this session has to be closed.
        """
        self._require_open()
        key, partitions = self._partition(group)
        if not partitions.by_node:
            return {}
        run_ = RemoteGroupRun(next(self._numbers), partitions, self._grace_s, points)
        run_.queues = {plan.key: plan.open() for plan in partitions.queues}
        self._completions = TaskCompletions(partitions)
        self._active_run = run_
        try:
            self._start_on_nodes(run_, key, epoch, outputs)
            return run_.wait(partial(self._cancel, run_), self._kill)
        except TasksStuckError:
            self._is_stuck = True
            raise
        finally:
            self._active_run = None
            # Wakes threads that still serve the run's queues.
            run_.scope.cancel()

    def snapshot(self, group: TaskGroup) -> RemoteSnapshot:
        """Ask the session's processes to take snapshots of the blobs that a group may change."""
        key, partitions = self._partition(group)
        snapshot = RemoteSnapshot(next(self._numbers))
        links = [self._worker_of(node) for node in partitions.by_node]
        for link in links:
            link.send_partition(key, partitions.by_node[link.node])
        wait_all({link.node: link.rpc.call("snapshot", snapshot.number, key) for link in links})
        weakref.finalize(snapshot, _drop_snapshot, links, snapshot.number)
        return snapshot

    def restore(self, snapshot: RemoteSnapshot) -> None:
        """Ask all of the session's processes to restore their blobs from a snapshot."""
        self._call_all("restore", snapshot.number)

    def protect(self, tickets: Sequence[Ticket], groups: Sequence[TaskGroup]) -> None:
        """Ask the session's processes to copy blobs still being saved before groups change them."""
        known = [self._partition(group) for group in groups]
        answers = {}
        for node, worker_tickets in self._group_by_worker(tickets).items():
            for key, partitions in known:
                if node in partitions.by_node:
                    self._worker_of(node).send_partition(key, partitions.by_node[node])
            keys = tuple(key for key, _ in known)
            answers[node] = self._worker_of(node).rpc.call("protect", worker_tickets, keys)
        wait_all(answers)

    def persist(self, tickets: Sequence[Ticket], directory: str) -> tuple[NodeSave, ...]:
        """Write a save's files in the session's processes, and return what each has written.

        Raises:
            NodeLostError: The process of a node has ended.
            TaskFailedError: A blob holds what cannot be stored.
            EnvironmentFaultError: The files cannot be written (such as ``ENOSPC``, ``EIO``).
        """
        files = self._require_open().files
        if files.objects:
            return upload_from_nodes(tickets, directory, files.objects, self._worker_of)
        if files.node_dir:
            answers = collect_from_nodes(tickets, directory, self._worker_of)
        else:
            answers = {
                ticket: self._worker_of(ticket.node).rpc.call("persist", (ticket,), directory)
                for ticket in tickets
            }
        saves = wait_all(answers)
        return tuple(save for ticket in tickets for save in saves[ticket])

    def release(self, tickets: Sequence[Ticket]) -> None:
        """Ask the session's processes to free the memory of a save's snapshots."""
        for node, worker_tickets in self._group_by_worker(tickets).items():
            if node in self._workers:
                self._workers[node].send("release", worker_tickets)

    def read(self, node: str, names: tuple[str, ...]) -> dict[str, Value]:
        """Request copies of a node's blobs from its process in the ``processes`` session.

        Raises:
            KeyError: If there is no such node, or it has no such blob.
        """
        values: dict[str, Value] = self._worker_of(node).rpc.call("read", names, node).wait()
        return values

    def names(self, node: str) -> tuple[str, ...]:
        """Request the names of a node's blobs from its process in the ``processes`` session."""
        names: tuple[str, ...] = self._worker_of(node).rpc.call("names", node).wait()
        return names

    def settle(self, keep: Mapping[str, tuple[str, ...]], *, final: bool = False) -> None:
        """Ask the session's processes to delete all blobs but the named ones.

        Raises:
            TaskFailedError: A name of ``keep`` is missing or holds what cannot be stored.
        """
        wait_all(
            {
                worker: link.rpc.call(
                    "settle",
                    tuple(keep.get(worker, ())),
                    {node: tuple(keep.get(node, ())) for node in self._colocated.get(worker, ())},
                    final,
                )
                for worker, link in self._workers.items()
            }
        )

    def request_stop(self) -> None:
        """Ask the group run in the session's processes to end; signal-safe and thread-safe."""
        run_ = self._active_run
        if run_ is not None:
            run_.request_stop()

    def close(self) -> None:
        """Shut down all processes of the session; may be called twice."""
        links, self._workers = self._workers, {}
        for link in links.values():
            link.request_close()
        for link in links.values():
            link.close(at_once=self._is_stuck)
        self._groups.clear()

    # What nodes send unasked; see ``WorkerListener``.

    def part_failed(self, node: str, run: int) -> None:
        """Notify the session's active group run that tasks on a node have failed."""
        run_ = self._active_run
        if run_ is not None and run_.number == run:
            run_.receive_outcome(node, None)

    def task_ended(
        self, node: str, run: int, task: str, outputs: Mapping[OutputRef, Value]
    ) -> None:
        """Notify nodes of the ``processes`` session that a task for which they wait has ended."""
        run_ = self._active_run
        if run_ is None or run_.number != run:
            return
        for other, wanted in self._completions.mark_ended(task, node, outputs).items():
            with self._send_lock:
                self._workers[other].send("ended", run, task, wanted)

    def add_step_times(self, reporter: str, times: Sequence[BlockTime]) -> None:
        """Add step times that a node's process sent to the ``processes`` session's meter."""
        meter = self._require_open().meter
        if meter is not None:
            meter.merge_times(reporter, times)

    def worker_lost(self, node: str) -> None:
        """Do nothing when the ``processes`` session loses a worker: open requests fail anyway."""

    def handle_request(
        self, link: WorkerHandle, number: int, run: int, request: str, arguments: tuple[Any, ...]
    ) -> None:
        """Serve a request that a node sends to the ``processes`` session, such as for a file."""
        run_ = self._active_run
        if run_ is None or run_.number != run:
            link.answer(number, error=CancelledError())
        elif request == "meet":
            # If that node is lost, the other end of the connection is closed.
            link.connect_to(self._worker_of(arguments[0]))
            link.answer(number)
        else:
            work = partial(self._serve, run_, link.node, request, arguments)
            turn = self._chunk_slots if request == "file" else contextlib.nullcontext()
            threading.Thread(
                target=_run_and_reply,
                args=(link, number, work, turn),
                name="jobrun-serve",
                daemon=True,
            ).start()

    def _serve(
        self, run_: RemoteGroupRun, node: str, request: str, arguments: tuple[Any, ...]
    ) -> Any:
        if request in FILE_REQUESTS:
            return FILE_REQUESTS[request](run_.partitions.by_node[node], *arguments)
        if request == "queue":
            key, action, queue_arguments = arguments
            return serve_queue_request(run_.queues[key], action, queue_arguments, run_.scope)
        assert run_.points is not None  # noqa: S101 - only who was given points reaches one
        return run_.points.reached(*arguments)

    def _require_open(self) -> RunContext:
        if self._context is None:
            raise RuntimeError("the session is not open")
        return self._context

    def _start(self, node: str) -> WorkerProcess:
        """Start the process of a node of the ``processes`` session."""
        return LocalProcess(node)

    def _emitter(self, node: str) -> Listener:
        """Return the function that is called with a node's events in the ``processes`` session."""
        emit = self._require_open().emit

        def forward(event: Event) -> None:
            run_ = self._active_run
            if run_ is not None:
                run_.receive_event(node, event)
            emit(event)

        return forward

    def _start_worker(self, node: str) -> WorkerHandle:
        return WorkerHandle(node, self, self._emitter(node), self._start, next(self._incarnations))

    def _open_workers(self, nodes: Iterable[str]) -> None:
        files = self._require_open().files
        with write_probe(files.epochs_dir) as probe:
            seen = wait_all({node: self._open_worker(node, probe) for node in nodes})
        require_visible(seen, files.epochs_dir)

    def _open_worker(self, node: str, probe: Probe | None) -> Reply:
        context = self._require_open()
        facts = (context.seed, context.run_dir, context.folder, context.code)
        # All nodes together report about as many runs of blocks as one process would.
        spans = 0 if context.meter is None else SPANS // len(self._nodes) + 1
        others = tuple(self._nodes[name] for name in self._colocated.get(node, ()))
        link, files = self._workers[node], context.files
        seen = None if {node, *(other.name for other in others)}.isdisjoint(files.nodes) else probe
        file_setup = WorkerFileSetup(link.incarnation, files.node_dir, seen, files.objects)
        return link.rpc.call(
            "open",
            self._nodes[node],
            facts,
            self._grace_s,
            spans,
            others,
            file_setup,
            context.adapt,
        )

    def _worker_name(self, node: str) -> str:
        return self._placement.get(node, node)

    def _group_by_worker(self, tickets: Sequence[Ticket]) -> dict[str, tuple[Ticket, ...]]:
        by_worker: dict[str, tuple[Ticket, ...]] = {}
        for ticket in tickets:
            worker = self._worker_name(ticket.node)
            by_worker[worker] = (*by_worker.get(worker, ()), ticket)
        return by_worker

    def _worker_of(self, node: str) -> WorkerHandle:
        return self._workers[self._worker_name(node)]

    def _partition(self, group: TaskGroup) -> tuple[int, PartitionedGroup]:
        """Return the division of a group over the processes of the session, cached by group."""
        entry = self._groups.get(id(group))
        if entry is None:
            require_valid_needs(group.tasks)
            # The cached entry holds the group, so no other object can get its id meanwhile.
            entry = self._groups[id(group)] = (
                next(self._numbers),
                partition_group(group, self._placement),
            )
            if len(self._groups) > _KEPT_GROUPS:
                _, (key, _) = self._groups.popitem(last=False)
                for link in self._workers.values():
                    link.forget_partition(key)
        else:
            self._groups.move_to_end(id(group))
        return entry

    def _start_on_nodes(self, run_: RemoteGroupRun, key: int, epoch: int, outputs: Outputs) -> None:
        points = None if run_.points is None else (run_.points.every, run_.points.entry)
        with self._send_lock:
            for node, partition in run_.partitions.by_node.items():
                link = self._workers[node]
                link.send_partition(key, partition)
                read = {ref: outputs[ref] for ref in partition.reads if ref in outputs}
                link.rpc.call_then(
                    partial(run_.receive_outcome, node),
                    "run",
                    run_.number,
                    key,
                    epoch,
                    read,
                    points,
                )

    def _cancel(self, run_: RemoteGroupRun) -> None:
        for node in run_.partitions.by_node:
            self._workers[node].send("cancel", run_.number)

    def _kill(self, node: str) -> None:
        self._worker_of(node).abort()

    def _call_all(self, kind: str, *arguments: Any) -> None:
        wait_all({node: link.rpc.call(kind, *arguments) for node, link in self._workers.items()})


def _run_and_reply(
    link: WorkerHandle, number: int, work: Callable[[], Any], turn: AbstractContextManager[Any]
) -> None:
    with turn:
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001 - raised again where it was asked for
            link.answer(number, error=error)
        else:
            link.answer(number, value=value)


def _drop_snapshot(links: Sequence[WorkerHandle], number: int) -> None:
    for link in links:
        link.send("drop", number)
