"""Order the work items of a group run by their dependencies, here and on other nodes.

Nothing is started here, and how messages travel is not known here. In a session whose nodes all
live in one process there are no dependencies on other nodes: ``ExternalDeps`` then holds only the
outputs of earlier groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import field
from graphlib import CycleError, TopologicalSorter
from queue import SimpleQueue
from typing import Protocol

from jobrun.core.errors import JobrunError, TaskFailedError
from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.types import OutputRef, Task
from jobrun.runtime.context.bounded_queue import RecordQueue
from jobrun.runtime.context.group_run_state import Fetch, FetchFile, GroupRun
from jobrun.runtime.records.queue_endpoints import QueuePlan
from jobrun.values.blob_kinds import Value

Work = Callable[[], None]

# The name of a task, and of the node that it is on.
TaskOnNode = tuple[str, str]


@dataclass(slots=True, eq=False)
class WorkItem:
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
        """Let this work item start only after another one, ``earlier``, has ended."""
        self.pending += 1
        earlier.followers.append(self)


def run_all_after(later: Sequence[WorkItem], earlier: Sequence[WorkItem]) -> None:
    """Let all ``later`` work items start only after all ``earlier`` ones have ended.

    A task on thousands of nodes may need another one on thousands: they meet in one item, not in
    a pair for each two of them.
    """
    if len(later) > 1 and len(earlier) > 1:
        meeting = WorkItem("", _do_nothing, is_meeting=True)
        for one in earlier:
            meeting.run_after(one)
        earlier = (meeting,)
    for one in later:
        for other in earlier:
            one.run_after(other)


def _do_nothing() -> None:
    pass


def find_ready(items: Sequence[WorkItem]) -> list[WorkItem]:
    """Return, in order, the work items that need not wait for any other work item."""
    return [item for item in items if item.pending == 0]


def iter_released(item: WorkItem) -> Iterator[WorkItem]:
    """Yield the work items that can start because ``item``, the last they awaited, has ended."""
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
        """Notify nodes whose work items wait for a task of this node that the task has ended."""

    def notify_failure(self) -> None:
        """Notify nodes whose work items depend on tasks of this node that such a task has failed.

        Can be called from any thread.
        """

    def open_queue(self, plan: QueuePlan, run: GroupRun) -> RecordQueue | None:
        """Open a queue for this node's work items if other nodes use it too; else return None."""


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
        """The work items that each wait for one task on another node."""
        return self._items.values()

    def is_awaited(self, item: WorkItem) -> bool:
        """Return whether a work item represents another node's task, for which items here wait."""
        return any(item is one for one in self._items.values())

    def items_for(self, task: str) -> list[WorkItem]:
        """List the work item that represents another node's task; empty if no item does."""
        return [self._items[task]] if task in self._items else []

    def mark_ended(self, task: str, outputs: Mapping[OutputRef, Value]) -> None:
        """Complete the work item that awaits a task on another node; store the task's outputs."""
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
        """Let a cancel pass between this node's run and the work items that await other nodes.

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
        """Open a queue for work items: across nodes if other nodes use it, else in this process."""
        shared = self._notifier.open_queue(plan, run) if self._notifier is not None else None
        return plan.open() if shared is None else shared

    def wrap_work(self, task: Task, work: Callable[[], None], run: GroupRun) -> Callable[[], None]:
        """Wrap a task's work so that external dependents of the task are notified when it ends."""
        notifier = self._notifier
        if notifier is None or task.name not in self._announced:
            return work
        refs = [OutputRef(task.name, task.node, one.name) for one in task.outputs]

        def telling() -> None:
            work()
            if not run.body.cancelled:
                made = {ref: run.outputs[ref] for ref in refs if ref in run.outputs}
                try:
                    notifier.notify_task_ended(task.name, made)
                except JobrunError as error:
                    run.fail(error)

        return telling

    def _notify_cancel(self) -> None:
        # Not of one that came from there.
        if self._notifier is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._notifier.notify_failure()
