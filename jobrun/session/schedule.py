"""In which order the parts of a group run start: what waits for what. Starts nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from jobrun.core.errors import TaskFailedError
from jobrun.graph.types import Task

Work = Callable[[], None]


@dataclass(slots=True, eq=False)
class Part:
    """One thing to run in a thread.

    Attributes:
        name: For messages.
        work: Never raises.
        always: Runs even after the group run was cancelled.
        may_block: It may not return for an unknown time.
        waits: How many parts must end before this one starts.
        after: The parts that wait for this one.
    """

    name: str
    work: Work
    always: bool = False
    may_block: bool = True
    waits: int = 0
    after: list[Part] = field(default_factory=list)

    def follow(self, earlier: Part) -> None:
        """Start only when ``earlier`` has ended."""
        self.waits += 1
        earlier.after.append(self)


def ready(parts: Sequence[Part]) -> list[Part]:
    """Those that wait for nothing, in their order."""
    return [part for part in parts if part.waits == 0]


def released(part: Part) -> Iterator[Part]:
    """The parts that can start now that ``part`` has ended."""
    for later in part.after:
        later.waits -= 1
        if later.waits == 0:
            yield later


def check_needs(tasks: Sequence[Task]) -> None:
    """Refuse needs that can never be met.

    Raises:
        TaskFailedError: E219, they name a task that is not there, or form a circle.
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
    left = dict(needs)
    while left:
        free = [name for name, waits in left.items() if not waits & left.keys()]
        if not free:
            circle = ", ".join(sorted(left))
            raise TaskFailedError.of(
                "E219", f"these tasks wait for each other: {circle}", "take one need away"
            )
        for name in free:
            del left[name]
