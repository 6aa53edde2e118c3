"""Order the work items of a group run by their dependencies, without starting any."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from graphlib import CycleError, TopologicalSorter

from jobrun.core.errors import TaskFailedError
from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.types import Task

Work = Callable[[], None]


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
    """Let several work items start only after all of several others have ended.

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
    """Return, in order, the work items that need not wait for any other item."""
    return [item for item in items if item.pending == 0]


def iter_released(item: WorkItem) -> Iterator[WorkItem]:
    """Yield the work items that can start now that ``item`` has ended; count down for the rest."""
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
