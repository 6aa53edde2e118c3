"""Track one group run across several processes: wait for its parts, merge outputs and errors.

The thread that runs the group waits here for one thing at a time, in the order of happening; the
threads that receive from the nodes, and a signal handler, only put things into its inbox.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue

from msgspec import Struct, field

from jobrun.core.errors import Fault, JobrunError, Origin
from jobrun.core.events import Event, TaskEnded, TaskLimited, TasksGivenUp
from jobrun.graph.types import OutputRef
from jobrun.runtime.context.bounded_queue import BoundedQueue
from jobrun.runtime.context.cancel import CancelScope
from jobrun.runtime.context.safe_point import SafePointHooks
from jobrun.runtime.records.queue_endpoints import QueueKey
from jobrun.session.base import (
    GroupCancelledError,
    NodeLostError,
    Outputs,
    TasksStuckError,
    merge_errors,
)
from jobrun.session.threads.work_items import EXIT_GRACE_S
from jobrun.session.wire.partition_group import PartitionedGroup
from jobrun.session.wire.rpc import Outcome
from jobrun.values.blob_kinds import Value

# A node reports itself that its tasks are stuck, unless a callable holds the GIL.
_UNRESPONSIVE_S = 4.0
_AFTER_STOP_S = 1.0
# A node, and the outcome of its part; None: it is failing; or an event about its tasks' limits.
# An empty node name: a stop request.
_Limit = TaskLimited | TaskEnded | TasksGivenUp
_Message = tuple[str, Outcome | _Limit | None]


class RemoteGroupRun(Struct):
    """The run of one group on several nodes, as the master tracks it.

    Attributes:
        number: No two runs of a session have the same.
        queues: The queues that several nodes use.
        points: See ``Session.run``.
        scope: Cancelled when the run fails, is asked to end, or has ended.
    """

    number: int
    partitions: PartitionedGroup
    grace_s: float
    points: SafePointHooks | None = None
    scope: CancelScope = field(default_factory=CancelScope)
    queues: Mapping[QueueKey, BoundedQueue] = field(default_factory=dict)
    _inbox: SimpleQueue[_Message] = field(default_factory=SimpleQueue)
    _order: dict[str, None] = field(default_factory=dict)
    _errors: dict[str, BaseException] = field(default_factory=dict)
    _outputs: dict[OutputRef, object] = field(default_factory=dict)
    _deadline: float | None = None
    # By task and node, the time until which the node itself reports that the task is overdue.
    _limits: dict[tuple[str, str], tuple[float, TaskLimited]] = field(default_factory=dict)

    def receive_event(self, node: str, event: Event) -> None:
        """Queue a node's event for the group run if the event concerns a task's time limit."""
        if isinstance(event, _Limit):
            self._inbox.put((node, event))

    def receive_outcome(self, node: str, outcome: Outcome | None) -> None:
        """Queue a node's outputs or error for the group run, or None as soon as a task fails."""
        self._inbox.put((node, outcome))

    def request_stop(self) -> None:
        """Request the end of this group run in each process; may be called in signal handlers."""
        self._inbox.put(("", None))

    def wait(self, cancel: Callable[[], None], kill: Callable[[str], None]) -> Outputs:
        """Wait until the group run has ended in every node's process; return all tasks' outputs.

        Args:
            cancel: Asks the nodes' parts to end.
            kill: Ends the process of a node that does not respond.

        Raises:
            NodeLostError: A node's process has ended.
            JobrunError: What failed first, with the faults of everything that failed.
            GroupCancelledError: ``request_stop`` was called.
            TasksStuckError: Tasks did not end in time; their processes have to.
        """
        waiting = dict.fromkeys(self.partitions.by_node)
        while waiting:
            message = self._next()
            if message is None:
                self._kill_unresponsive(waiting, kill)
                break
            node, outcome = message
            if isinstance(outcome, _Limit):
                self._track_limit(node, outcome)
                continue
            if outcome is not None:
                waiting.pop(node, None)
                self._record_outcome(node, outcome)
            if node:
                self._order.setdefault(node) if outcome is None else None
            if (outcome is None or not outcome[0]) and self._deadline is None:
                self._deadline = (
                    time.monotonic() + self.grace_s + 2 * EXIT_GRACE_S + _UNRESPONSIVE_S
                )
                self.scope.cancel()
                cancel()
        return self._result()

    def _next(self) -> _Message | None:
        deadlines = [at for at, _ in self._limits.values()]
        deadlines += [] if self._deadline is None else [self._deadline]
        if not deadlines:
            return self._inbox.get()
        # Twice: after a SIGSTOP of the whole job, nodes continue only when this process does.
        for wait_s in (min(deadlines) - time.monotonic(), _AFTER_STOP_S):
            with contextlib.suppress(Empty):
                return self._inbox.get(timeout=max(0.0, wait_s))
        return None

    def _track_limit(self, node: str, event: _Limit) -> None:
        match event:
            case TaskLimited():
                left_s = event.limit_s + event.grace_s + 2 * EXIT_GRACE_S + _UNRESPONSIVE_S
                self._limits[event.task, node] = (time.monotonic() + left_s, event)
            case TaskEnded():
                self._limits.pop((event.task, node), None)
            case TasksGivenUp():
                self._limits = {key: limit for key, limit in self._limits.items() if key[1] != node}

    def _kill_unresponsive(self, waiting: Mapping[str, None], kill: Callable[[str], None]) -> None:
        """Kill the group run's unfinished processes, or only those that exceeded a time limit."""
        now = time.monotonic()
        for at, event in self._limits.values():
            if at <= now:
                self._errors.setdefault(event.node, _overdue_error(event))
                kill(event.node)
        if self._errors.keys().isdisjoint(waiting):
            for node in waiting:
                self._errors[node] = _unresponsive_error(node, self.grace_s)
                kill(node)

    def _record_outcome(self, node: str, outcome: Outcome) -> None:
        is_well, value = outcome
        if is_well:
            self._outputs.update(value)
        else:
            self._errors[node] = value
            self._order.setdefault(node)

    def _result(self) -> Outputs:
        ranked = [self._errors[node] for node in self._order if node in self._errors]
        ranked += [error for error in self._errors.values() if error not in ranked]
        lost = next((error for error in ranked if isinstance(error, NodeLostError)), None)
        if lost is not None:
            raise lost
        errors = [error for error in ranked if not isinstance(error, GroupCancelledError)]
        if errors:
            raise _merge_node_errors(errors)
        if ranked or self.scope.cancelled:
            raise GroupCancelledError(self.partitions.group.name)
        return {ref: self._outputs[ref] for ref in self.partitions.outputs if ref in self._outputs}


def _merge_node_errors(errors: list[BaseException]) -> BaseException:
    """Merge the errors that several processes sent for one group run into one error."""
    tasks = [error.tasks if isinstance(error, JobrunError) else () for error in errors]
    stuck = next((error for error in errors if isinstance(error, TasksStuckError)), None)
    if stuck is not None and errors[0] is not stuck:
        # A stuck task decides, whatever else failed: the process has to end.
        whole: BaseException = TasksStuckError(
            *(fault for error in errors if isinstance(error, JobrunError) for fault in error.faults)
        )
        whole.__cause__ = errors[0]
        return whole
    whole = merge_errors(errors)
    if isinstance(whole, JobrunError):
        whole.tasks = tuple(sorted(set().union(*tasks))) if all(tasks) else ()
    return whole


def _overdue_error(event: TaskLimited) -> TasksStuckError:
    message = (
        f"the task took longer than its limit of {event.limit_s:g} s (task {event.task}, node "
        f"{event.node}, epoch {event.epoch}), and held the interpreter (GIL), so that its "
        "process had to be killed"
    )
    mend = "what was saved is intact; resume continues from the last saved epoch"
    origin = Origin(event.file, event.line, event.column) if event.line else None
    return TasksStuckError(Fault("E220", message, mend, origin, event.path))


def _unresponsive_error(node: str, grace_s: float) -> TasksStuckError:
    return TasksStuckError.of(
        "E215",
        f"node '{node}' did not end its tasks within {grace_s:g} s of their cancellation, nor "
        f"answer",
        "look for a callable that does not return; resume continues from the last saved epoch",
    )


TaskOutputs = Mapping[OutputRef, Value]


class TaskCompletions:
    """Tracks on which nodes the tasks of one group run have ended.

    Args:
        partitions: The group, divided.
    """

    def __init__(self, partitions: PartitionedGroup) -> None:
        self._partition = partitions
        self._lock = threading.Lock()
        self._unfinished = {name: set(nodes) for name, nodes in partitions.awaited_nodes.items()}
        self._made: dict[OutputRef, Value] = {}

    def mark_ended(self, task: str, node: str, outputs: TaskOutputs) -> dict[str, TaskOutputs]:
        """Record in a group run that a task ended on one node; return which nodes to notify.

        Can be called from any thread.

        Returns:
            The nodes to notify if it has ended on all of them, each with the outputs read there.
        """
        with self._lock:
            self._made.update(outputs)
            remaining = self._unfinished[task]
            remaining.discard(node)
            if remaining:
                return {}
        return {other: self._read(task, other) for other in self._partition.followers[task]}

    def _read(self, task: str, node: str) -> TaskOutputs:
        outputs = self._made
        reads = self._partition.by_node[node].reads
        return {ref: outputs[ref] for ref in reads if ref.task == task and ref in outputs}
