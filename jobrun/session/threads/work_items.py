"""Run the work items of a group run in threads, each as soon as those that it awaits have ended.

They may await tasks of other nodes; how messages travel is not known here. In a session whose nodes
all live in one process there are no dependencies on other nodes: ``ExternalDeps`` then holds only
the outputs of earlier groups.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from graphlib import CycleError, TopologicalSorter
from queue import Empty, SimpleQueue
from typing import Protocol

from msgspec import Struct, field

from jobrun.core.errors import JobrunError, TaskFailedError
from jobrun.core.events import TasksGivenUp
from jobrun.graph.types import OutputRef, Task
from jobrun.runtime.context.bounded_queue import RecordQueue
from jobrun.runtime.context.group_run_state import Fetch, FetchFile, GroupRun
from jobrun.runtime.records.queue_endpoints import QueuePlan
from jobrun.runtime.task_limits import render_stacks
from jobrun.session.base import TasksStuckError, merge_errors
from jobrun.session.threads.thread_pool import ThreadPool
from jobrun.values.blob_kinds import Value

Work = Callable[[], None]

# How long exit blocks may take after the grace period.
EXIT_GRACE_S = 5.0

# The name of a task, and of the node that it is on.
TaskOnNode = tuple[str, str]


class WorkItem(Struct, eq=False):
    """One callable to run in a thread, with its dependencies.

    Attributes:
        name: For messages.
        work: Never raises.
        always: Runs even after the group run was cancelled.
        may_block: It may not return for an unknown time.
        is_meeting: It is not run: others wait for it instead of for all those that it waits for.
        pending: How many items must end before this one starts.
        followers: The items that wait for this one.
    """

    name: str
    work: Work
    always: bool = False
    may_block: bool = True
    is_meeting: bool = False
    pending: int = 0
    followers: list[WorkItem] = field(default_factory=list)

    def run_after(self, earlier: WorkItem) -> None:
        """Make this work item wait until another one, ``earlier``, has ended."""
        self.pending += 1
        earlier.followers.append(self)


def run_all_after(later: Sequence[WorkItem], earlier: Sequence[WorkItem]) -> None:
    """Make all ``later`` work items wait until all ``earlier`` ones have ended.

    A task on thousands of nodes may need another one on thousands: they meet in one item, not in
    a pair for each two of them.
    """
    if len(later) > 1 and len(earlier) > 1:
        meeting = WorkItem("", _do_nothing, is_meeting=True)
        for item in earlier:
            meeting.run_after(item)
        earlier = (meeting,)
    for item in later:
        for other in earlier:
            item.run_after(other)


def _do_nothing() -> None:
    pass


def find_ready(items: Sequence[WorkItem]) -> list[WorkItem]:
    """Return, in order, the work items that need not wait for any other work item."""
    return [item for item in items if item.pending == 0]


def iter_released(item: WorkItem) -> Iterator[WorkItem]:
    """Yield the work items that can start now because the work item ``item`` has ended."""
    for later in item.followers:
        later.pending -= 1
        if later.pending:
            continue
        if later.is_meeting:
            yield from iter_released(later)
        else:
            yield later


def require_valid_needs(tasks: Sequence[Task]) -> None:
    """Refuse tasks whose work items would wait forever: unknown ``needs``, or a cycle (E219).

    Raises:
        TaskFailedError: E219, they name a task that is not there, or form a cycle.
    """
    needs: dict[str, set[str]] = {}
    for task in tasks:
        needs.setdefault(task.name, set()).update(task.needs)
    for task in tasks:
        for name in task.needs:
            if name not in needs:
                raise TaskFailedError.of(
                    "E219",
                    f"task '{task.name}' needs '{name}', which is not in its group",
                    "name a task of the same group",
                    where=task.origin,
                    path=task.path,
                )
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        cycle = ", ".join(sorted(set(error.args[1])))
        raise TaskFailedError.of(
            "E219", f"these tasks wait for each other: {cycle}", "remove one of the needs"
        ) from error


class RemoteNotifier(Protocol):
    """Notifies other nodes of the local tasks, and opens the queues shared with them."""

    def notify_task_ended(self, task: str, outputs: Mapping[OutputRef, Value]) -> None:
        """Notify nodes with waiting work items that a task of this node has ended."""

    def notify_failure(self) -> None:
        """Notify nodes with dependent work items that a task of this node has failed.

        Can be called from any thread.
        """

    def open_queue(self, plan: QueuePlan, run: GroupRun) -> RecordQueue | None:
        """Open a queue shared with other nodes' work items; return None if none shares it."""


class ExternalDeps:
    """What the tasks of one node depend on at other nodes, and the reverse, in one group run.

    Args:
        outputs: Of earlier groups.
        fetch: Gives copies of blobs of any node.
        awaited: Tasks on other nodes that local tasks need.
        announced: Local tasks that tasks on other nodes need.
        notifier: Notifies other nodes; required if any are awaited or announced.
        bring: Makes files of epochs readable here.

    Attributes:
        completions: What has ended, here or elsewhere; None only wakes.
    """

    def __init__(
        self,
        outputs: Mapping[OutputRef, Value],
        fetch: Fetch,
        awaited: Iterable[str] = (),
        announced: Iterable[str] = (),
        notifier: RemoteNotifier | None = None,
        bring: FetchFile = nullcontext,
    ) -> None:
        self.outputs = dict(outputs)
        self.fetch = fetch
        self.fetch_file = bring
        self.completions: SimpleQueue[WorkItem | None] = SimpleQueue()
        self._items = {name: WorkItem(f"{name} elsewhere", _do_nothing) for name in awaited}
        self._announced = frozenset(announced)
        self._notifier = notifier
        self._run: GroupRun | None = None
        self._is_cancelled = False

    @property
    def awaited(self) -> Iterable[WorkItem]:
        """Return the work items that represent tasks of other nodes for which this node waits."""
        return self._items.values()

    def is_awaited(self, item: WorkItem) -> bool:
        """Return whether a work item represents another node's task for which this node waits."""
        return any(item is awaited for awaited in self._items.values())

    def items_for(self, task: str) -> list[WorkItem]:
        """List the work item that represents another node's task; empty if no item does."""
        return [self._items[task]] if task in self._items else []

    def mark_ended(self, task: str, outputs: Mapping[OutputRef, Value]) -> None:
        """Mark a task of another node as ended, so that work items that wait for it can start.

        Its outputs are kept for them.
        """
        self.outputs.update(outputs)
        part = self._items.get(task)
        if part is not None:
            self.completions.put(part)

    def cancel(self) -> None:
        """Cancel this node's work items because another node's work failed or was cancelled.

        Can be called from any thread.
        """
        self._is_cancelled = True
        if self._run is not None:
            self._run.body.cancel()

    @contextmanager
    def attach(self, run: GroupRun) -> Iterator[None]:
        """Pass each cancel from this node's work items to other nodes and back, within ``with``.

        Also if that was requested before.
        """
        self._run = run
        if self._is_cancelled:
            run.body.cancel()
        try:
            with run.body.waking(self._notify_cancel):
                yield
        finally:
            self._run = None

    def open_queue(self, plan: QueuePlan, run: GroupRun) -> RecordQueue:
        """Open a queue for work items: across nodes if other nodes use the queue, else local."""
        shared = self._notifier.open_queue(plan, run) if self._notifier is not None else None
        return plan.open() if shared is None else shared

    def wrap_work(self, task: Task, work: Callable[[], None], run: GroupRun) -> Callable[[], None]:
        """Wrap a task's function to notify other nodes' waiting work items when the task ends."""
        notifier = self._notifier
        if notifier is None or task.name not in self._announced:
            return work
        refs = [OutputRef(task.name, task.node, output.name) for output in task.outputs]

        def work_and_notify() -> None:
            work()
            if not run.body.cancelled:
                outputs = {ref: run.outputs[ref] for ref in refs if ref in run.outputs}
                try:
                    notifier.notify_task_ended(task.name, outputs)
                except JobrunError as error:
                    run.fail(error)

        return work_and_notify

    def _notify_cancel(self) -> None:
        # A cancellation that came from the notifier is not sent back to it.
        if self._notifier is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._notifier.notify_failure()


class Dispatcher:
    """Starts work items when they are ready, and waits for them in the caller's thread."""

    def __init__(self, run: GroupRun, pool: ThreadPool, grace_s: float, deps: ExternalDeps) -> None:
        self._run = run
        self._pool = pool
        self._grace_s = grace_s
        self._deps = deps
        self._completions = deps.completions
        # Tasks on other nodes count as running from the beginning.
        self._running: dict[WorkItem, None] = dict.fromkeys(deps.awaited)
        # End of the grace period of a cancelled run; it is set once.
        self._deadline: float | None = None

    def run(self, items: list[WorkItem]) -> None:
        """Dispatch all work items in the order of their dependencies, and wait for their end.

        Raises:
            TasksStuckError: Some did not end in time after a cancel.
        """
        waiting = find_ready(items)
        # Wakes the wait below, so that it can begin to count the time.
        with self._run.body.waking(lambda: self._completions.put(None)):
            while waiting or self._running:
                waiting = self._start(waiting)
                if not waiting and self._running:
                    waiting = self._wait()

    def _start(self, items: list[WorkItem]) -> list[WorkItem]:
        """Start ready work items; return items made ready by those that ended during the start."""
        over: list[WorkItem] = []
        alone = len(items) == 1 and not self._running
        for item in items:
            if self._run.body.cancelled and not item.always:
                self._run.interrupted = True
                over.append(item)
            elif alone and not item.may_block:
                # Nothing else runs: no need for another thread.
                self._work(item)
                over.append(item)
            else:
                self._running[item] = None
                self._pool.start(partial(self._work, item), partial(self._completions.put, item))
        return [later for item in over for later in iter_released(item)]

    def _work(self, item: WorkItem) -> None:
        """Run a work item; record an error that it raises although it should record it itself.

        Otherwise its thread would end without a word, and the run would wait for it for ever.
        """
        try:
            item.work()
        except BaseException as error:  # noqa: BLE001 - raised again by the session
            self._run.fail(error)

    def _wait(self) -> list[WorkItem]:
        """Wait until a dispatched work item has ended; return the items that it made ready."""
        while not self._run.body.cancelled:
            item = self._completions.get()
            if item is not None:
                return self._end(item)
        return self._wait_until_deadline()

    def _wait_until_deadline(self) -> list[WorkItem]:
        if self._deadline is None:
            self._deadline = time.monotonic() + self._grace_s
        elsewhere = [item for item in self._running if self._deps.is_awaited(item)]
        if elsewhere:
            # A cancelled run does not wait for tasks on other nodes.
            return self._end(elsewhere[0])
        for limit in (self._deadline, self._deadline + min(EXIT_GRACE_S, self._grace_s)):
            while True:
                try:
                    item = self._completions.get(timeout=max(0.0, limit - time.monotonic()))
                except Empty:
                    break
                if item is not None:
                    return self._end(item)
            # Cancels programs and loops of exit blocks too.
            self._run.cleanup.cancel()
        raise self._stuck()

    def _end(self, item: WorkItem) -> list[WorkItem]:
        if item not in self._running:
            # A task on another node that this run has stopped waiting for.
            return []
        del self._running[item]
        return list(iter_released(item))

    def _stuck(self) -> TasksStuckError:
        stuck = tuple(sorted(item.name for item in self._running))
        self._run.emit(TasksGivenUp(stuck, self._run.epoch, os.getpid()))
        names = ", ".join(stuck)
        error = TasksStuckError.of(
            "E215",
            f"these tasks did not end within {self._grace_s:g} s of their cancellation: {names}",
            "look for a callable that does not return; resume continues from the last saved epoch",
        )
        if not self._run.errors:
            for stack in render_stacks(self._run, all_tasks=True):
                error.add_note(stack)
            return error
        first = merge_errors(self._run.errors)
        if isinstance(first, JobrunError):
            error = TasksStuckError(*first.faults, *error.faults)
            for note in getattr(first, "__notes__", ()):
                error.add_note(note)
        error.__cause__ = first
        return error
