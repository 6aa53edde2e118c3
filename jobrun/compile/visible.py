"""Every blob that is read has certainly been made, and what may not be written is not.

Inside a task the flow says what it needs when it starts; here that is compared with what is
there then: the node's state, what set-up made, and what tasks made that have certainly ended.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from jobrun.compile.faults import Faults, Place
from jobrun.compile.flow import FlowFinder, Problem, Status
from jobrun.compile.missing import Missing
from jobrun.compile.scopes import NodeView
from jobrun.compile.tasks import Draft
from jobrun.graph.types import Scope


@dataclass(slots=True)
class Owned:
    """Names of a node's global workspace that are not free to be written or deleted.

    Attributes:
        callables: Constants that only callables make. Where one is an object, a task may lend it
            to a callable to be changed; whether it is one is seen when it is lent.
    """

    state: frozenset[str] = frozenset()
    constants: frozenset[str] = frozenset()
    callables: frozenset[str] = frozenset()


@dataclass
class Visibility:
    """Checks one group on one node."""

    view: NodeView
    owned: Owned
    faults: Faults
    missing: Missing
    _ended: dict[str, bool] = field(default_factory=dict)

    def check(self) -> None:
        """Check set-up, tasks and reports."""
        self._check_around()
        for position, task in self.view.tasks.items():
            self._check_task(position, task)
        for report in self.view.group.reports.get(self.view.node, []):
            finder = FlowFinder()
            summary = finder.block(report.steps, report.path)
            report_problems(finder.problems, self.faults, hogwild=False)
            self._check_needs(summary.needs, None, lambda name: name in self._base)
            self._check_rights(finder.ledger.writes, finder.ledger.deletes)

    def provided(self, position: int, name: str) -> bool:
        """Whether the name is certainly there when the task starts."""
        return name in self._base or self._provider(position, name) is not None

    @cached_property
    def _base(self) -> frozenset[str]:
        made = {name for name, one in self.view.init.end.items() if one is Status.SET}
        return self.view.start | made

    @cached_property
    def _makers(self) -> dict[str, list[int]]:
        """For each shared name the tasks that write it, by rank."""
        makers: dict[str, list[int]] = {}
        rank = self.view.group.order.rank
        for position in sorted(self.view.tasks, key=rank.__getitem__):
            flow = self.view.tasks[position].flow
            names = {**flow.once.writes, **flow.inner.writes, **flow.reporting.writes}
            for name in names:
                if name not in self.view.start and self.view.shared_scope(name) is not None:
                    makers.setdefault(name, []).append(position)
        return makers

    def _provider(self, position: int, name: str) -> int | None:
        """A task that has certainly made the name, and ended, before this one."""
        makers = self._makers.get(name, [])
        order = self.view.group.order
        reader = self.view.tasks[position]
        end = bisect_left(makers, order.rank[position], key=order.rank.__getitem__)
        for maker in reversed(makers[:end]):
            if not order.is_before(maker, position):
                continue
            status = self.view.tasks[maker].flow.total.end.get(name)
            if status in (Status.GONE, Status.MAYBE):
                return None
            if status is Status.SET:
                # What is rebuilt at a resume cannot use what is not.
                rebuilt = self.view.tasks[maker].spec.rebuild
                return maker if rebuilt or not reader.spec.rebuild else None
        return None

    def _check_around(self) -> None:
        view = self.view
        report_problems(view.finder.problems, self.faults, hogwild=False)
        self._check_needs(view.init.needs, None, view.start.__contains__)
        self._check_needs(view.exit.needs, None, self._is_there_at_end)
        self._check_rights(view.around.writes, view.around.deletes)

    def _is_there_at_end(self, name: str) -> bool:
        if name in self._base:
            return True
        makers = self._makers.get(name, [])
        ends = [self.view.tasks[maker].flow.total.end.get(name) for maker in makers]
        return Status.SET in ends and Status.GONE not in ends

    def _check_task(self, position: int, task: Draft) -> None:
        flow = task.flow

        def is_there(name: str) -> bool:
            return self.provided(position, name)

        for needs in (flow.total.needs, flow.reports, flow.outputs):
            self._check_needs(needs, position, is_there)
        self._check_rights(
            {name: place for name, place in
             {**flow.reporting.writes, **flow.inner.atomic, **flow.once.atomic,
              **flow.inner.writes, **flow.once.writes}.items()
             if not (name in self.owned.callables and flow.is_only("lent", name))},
            {**flow.inner.deletes, **flow.once.deletes, **flow.reporting.deletes},
        )  # fmt: skip
        for name, place in flow.exit_needs.items():
            if self.view.scope(task, name) is Scope.INSTANCE:
                self.faults.error(
                    "E187", f"'{name}' belongs to each instance, and is gone when the task's exit "
                    "runs", "read it in the exit of 'instance', or make it in the init of 'task'",
                    place,
                )  # fmt: skip

    def _check_needs(
        self, needs: Mapping[str, Place], position: int | None, is_there: Callable[[str], bool]
    ) -> None:
        for name, place in needs.items():
            if not is_there(name):
                self.missing.report(self.view, position, name, place)

    def _check_rights(self, writes: Mapping[str, Place], deletes: Mapping[str, Place]) -> None:
        # Looked up name by name: a job may have far more state than one task touches.
        constants, state = self.owned.constants, self.owned.state
        for name in sorted(name for name in writes if name in constants):
            self.faults.error(
                "E175", f"'{name}' is a constant: a 'rebuild' task makes it at every start",
                "write to a blob of another name, or take 'rebuild' from the task", writes[name],
            )  # fmt: skip
        for name in sorted(name for name in deletes if name in state and name not in constants):
            self.faults.error(
                "E176", f"'{name}' is state, and every epoch must leave it there",
                "leave 'del' out; to forget what it holds, assign a small value", deletes[name],
            )  # fmt: skip
        own = self.view.around.deletes
        shared = self.view.group_names
        for name in sorted(name for name in deletes if name in shared and name not in own):
            self.faults.error(
                "E176", f"'{name}' belongs to all tasks of the group on the node",
                "delete it in the exit of the set-up that makes it", deletes[name],
            )  # fmt: skip


def report_problems(problems: list[Problem], faults: Faults, *, hogwild: bool) -> None:
    """Note what is wrong inside a list of steps, wherever it runs."""
    for problem in problems:
        name = shown(problem.name)
        kind, place = problem.kind, problem.place
        if kind == "deleted":
            faults.error("E188", f"'{name}' may have been deleted before it is read here",
                         "delete it later, or make it again before", place)  # fmt: skip
        elif kind == "endless":
            faults.error("E189", "this loop never ends: there is no stop in it",
                         "write 'stop_if: …' inside, or give a count", place)  # fmt: skip
        elif kind == "unreachable":
            faults.warn("W131", "this step is never reached: the one before always leaves",
                        "take it out, or make the stop conditional", place)  # fmt: skip
        elif not hogwild:
            other = problem.other or place
            faults.error(
                "E185", f"branches of 'parallel' race on '{name}': it is written at {place.path} "
                f"and used at {other.path}",
                "give each branch a blob of its own, and join them afterwards", other,
            )  # fmt: skip


def shown(name: str) -> str:
    """A name as its author wrote it, without the prefix of a net's own names."""
    return name.rsplit(":", 1)[-1]
