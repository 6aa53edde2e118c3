"""What the part of a group run in this process has to do with the rest of it, which is elsewhere.

In a session whose nodes all live in one process there is no rest: then this is only the outputs
of earlier groups. How messages travel is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from queue import SimpleQueue
from typing import Protocol

from jobrun.blobs.values import Value
from jobrun.core.errors import JobrunError
from jobrun.graph.types import OutputRef, Task
from jobrun.runtime.frame import Bring, Fetch, GroupRun
from jobrun.runtime.lines import LineEnds
from jobrun.runtime.queues import LinePlan
from jobrun.session.schedule import Part

# The name of a task, and of the node that it is on.
TaskOnNode = tuple[str, str]


class Teller(Protocol):
    """Who brings news to the other parts, and keeps what all of them share."""

    def ended(self, task: str, outputs: Mapping[OutputRef, Value]) -> None:
        """A task of this part has ended, and others wait for that."""

    def failing(self) -> None:
        """Something of this part has failed: the other parts should end. Any thread."""

    def line(self, plan: LinePlan, run: GroupRun) -> LineEnds | None:
        """The end here of a queue that other parts use too; None if only this part does."""


class Beyond:
    """The rest of one group run, as one part sees it.

    Args:
        outputs: Of earlier groups.
        fetch: Gives copies of blobs of any node.
        awaited: Tasks elsewhere that tasks of this part need.
        told: Tasks of this part that tasks elsewhere need.
        teller: Takes news elsewhere; needed if any are awaited or told.
        bring: Makes files of epochs readable here.

    Attributes:
        ended: What has ended, here or elsewhere; None only wakes.
    """

    def __init__(
        self,
        outputs: Mapping[OutputRef, Value],
        fetch: Fetch,
        awaited: Iterable[str] = (),
        told: Iterable[str] = (),
        teller: Teller | None = None,
        bring: Bring = nullcontext,
    ) -> None:
        self.outputs = dict(outputs)
        self.fetch = fetch
        self.bring = bring
        self.ended: SimpleQueue[Part | None] = SimpleQueue()
        self._parts = {name: Part(f"{name} elsewhere", _nothing) for name in awaited}
        self._told = frozenset(told)
        self._teller = teller
        self._run: GroupRun | None = None
        self._is_cancelled = False

    @property
    def awaited(self) -> Iterable[Part]:
        """What stands for the tasks elsewhere."""
        return self._parts.values()

    def is_awaited(self, part: Part) -> bool:
        """Whether a part stands for a task elsewhere."""
        return any(part is one for one in self._parts.values())

    def parts_of(self, task: str) -> list[Part]:
        """What stands for a task on all its nodes elsewhere; none if nothing here needs it."""
        return [self._parts[task]] if task in self._parts else []

    def arrived(self, task: str, outputs: Mapping[OutputRef, Value]) -> None:
        """A task has ended on all its nodes elsewhere. Any thread."""
        self.outputs.update(outputs)
        part = self._parts.get(task)
        if part is not None:
            self.ended.put(part)

    def cancel(self) -> None:
        """Something elsewhere failed, or somebody asked to end. Any thread, at any time."""
        self._is_cancelled = True
        if self._run is not None:
            self._run.body.cancel()

    @contextmanager
    def attached(self, run: GroupRun) -> Iterator[None]:
        """While inside, a cancel reaches the run; at once if it has come already."""
        self._run = run
        if self._is_cancelled:
            run.body.cancel()
        try:
            with run.body.waking(self._tell_of_cancel):
                yield
        finally:
            self._run = None

    def line(self, plan: LinePlan, run: GroupRun) -> LineEnds:
        """The line of a queue for this run."""
        shared = self._teller.line(plan, run) if self._teller is not None else None
        return plan.open() if shared is None else shared

    def telling(self, task: Task, work: Callable[[], None], run: GroupRun) -> Callable[[], None]:
        """The work of a task, after which others hear of its end if they wait for it."""
        teller = self._teller
        if teller is None or task.name not in self._told:
            return work
        refs = [OutputRef(task.name, task.node, one.name) for one in task.outputs]

        def telling() -> None:
            work()
            if not run.body.cancelled:
                made = {ref: run.outputs[ref] for ref in refs if ref in run.outputs}
                try:
                    teller.ended(task.name, made)
                except JobrunError as error:
                    run.fail(error)

        return telling

    def _tell_of_cancel(self) -> None:
        # Not of one that came from there.
        if self._teller is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._teller.failing()


def _nothing() -> None:
    """What is elsewhere runs there."""
