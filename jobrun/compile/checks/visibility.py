"""Check that every blob that is read has been made, and that no protected blob is written.

The flow of a task says which names it needs when it starts; here they are compared with those that
exist then: the node's state, names made by set-up, and by tasks that have certainly ended. After
the failure of a task with ``on_error: warn`` no other task may see half of its work.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from msgspec import Struct

from jobrun.compile.analysis.missing_blobs import MissingBlobs
from jobrun.compile.analysis.scopes import NodeView
from jobrun.compile.analysis.state import KeptNames
from jobrun.compile.faults import Faults, Located, SpecPosition
from jobrun.compile.job_draft.definite_assignment import FAILED, FlowAnalysis, FlowProblem, Status
from jobrun.compile.job_draft.tasks_and_groups import GroupDraft, TaskDraft, TaskFlow
from jobrun.graph.readers import BlobSource, ReadRecords
from jobrun.graph.types import Scope

_OWNERS = {Scope.NODE: "a blob of the node", Scope.GROUP: "a blob of the group run"}


class VisibilityCheck(Struct, dict=True):
    """The visibility check of one group on one node.

    Attributes:
        owned: The node's names that must not be written or deleted freely.
    """

    view: NodeView
    owned: KeptNames
    faults: Faults
    missing: MissingBlobs

    def check(self) -> set[tuple[str, str]]:
        """Check that set-up, tasks and reports read only visible blobs, made before them.

        Returns:
            Paths of tasks and names with a fault about their order: no race is to be reported.
        """
        self._check_setup()
        unordered = {
            (task.path, name)
            for position, task in self.view.tasks.items()
            for name in self._check_task(position, task)
        }
        for report in self.view.group.reports.get(self.view.node, ()):
            finder = FlowAnalysis()
            summary = finder.block(report.steps, report.path)
            note_problems(finder.problems, self.faults, hogwild=False)
            self._check_needs(
                summary.needs, None, lambda name: name in self._base or name == FAILED
            )
            self._check_protected(finder.uses.writes, finder.uses.deletes)
        return unordered

    @cached_property
    def _base(self) -> frozenset[str]:
        set_by_init = {name for name, status in self.view.init.end.items() if status is Status.SET}
        return self.view.start | set_by_init

    @cached_property
    def _makers(self) -> dict[str, list[int]]:
        """Map each blob that is visible to other tasks to its writers, ordered by ``needs``."""
        makers: dict[str, list[int]] = {}
        rank = self.view.group.order.rank
        for position in sorted(self.view.tasks, key=rank.__getitem__):
            flow = self.view.tasks[position].flow
            names = {**flow.once.writes, **flow.inner.writes, **flow.reporting.writes}
            for name in names:
                if name not in self.view.start and self.view.shared_scope(name) is not None:
                    makers.setdefault(name, []).append(position)
        return makers

    def _find_maker(self, position: int, name: str) -> int | None:
        """Find a task that makes a blob visible: it ends earlier and leaves the blob."""
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
                # A task that runs again on resume cannot use what one that does not has made.
                rebuilt = self.view.tasks[maker].rebuild
                return maker if rebuilt or not reader.rebuild else None
        return None

    def _check_setup(self) -> None:
        view = self.view
        note_problems(view.finder.problems, self.faults, hogwild=False)
        self._check_needs(view.init.needs, None, view.start.__contains__)
        self._check_needs(view.exit.needs, None, self._is_there_at_end)
        self._check_protected(view.setup_uses.writes, view.setup_uses.deletes)

    def _is_there_at_end(self, name: str) -> bool:
        if name in self._base:
            return True
        tasks, makers = self.view.tasks, self._makers.get(name, [])
        if self.view.group.name == "init" and any(task.rebuild for task in tasks.values()):
            # The exit then runs at every start, after only the rebuild tasks.
            makers = [maker for maker in makers if tasks[maker].rebuild]
        statuses = [tasks[maker].flow.total.end.get(name) for maker in makers]
        return Status.SET in statuses and Status.GONE not in statuses

    def _check_task(self, position: int, task: TaskDraft) -> list[str]:
        """Check the blobs that a task uses; return those with a fault about their order."""
        flow = task.flow

        def is_there(name: str) -> bool:
            return name in self._base or self._find_maker(position, name) is not None

        unordered = [
            name
            for needs in (flow.total.needs, flow.reports, flow.outputs)
            for name in self._check_needs(needs, position, is_there)
        ]
        if task.records.is_loop:
            unordered += self._check_fields(task)
        # Few jobs have constants; without any, writes need not be collected.
        self._check_protected(
            self._written_names(flow) if self.owned.constants else {},
            {**flow.inner.deletes, **flow.once.deletes, **flow.reporting.deletes},
        )
        for name, spec_position in flow.exit_needs.items():
            if self.view.scope(task, name) is Scope.INSTANCE:
                self.faults.error(
                    "E187",
                    f"'{name}' belongs to one instance, and no longer exists when the "
                    f"task's exit runs",
                    "read it in the exit of 'instance', or make it in the init of 'task'",
                    spec_position,
                )
        return unordered

    def _written_names(self, flow: TaskFlow) -> dict[str, SpecPosition]:
        """Map each blob that a task writes to the position in the spec, to check its visibility.

        To lend is to pass to a callable, which may change an object that ``init`` left.
        """
        written = {
            **flow.reporting.writes,
            **flow.inner.atomic,
            **flow.once.atomic,
            **flow.inner.writes,
            **flow.once.writes,
        }
        return {
            name: spec_position
            for name, spec_position in written.items()
            if not (name in self.owned.callables and flow.is_only("lent", name))
        }

    def _check_fields(self, task: TaskDraft) -> list[str]:
        """Check that fields of records overwrite no visible blob; return those that do."""
        overwriting = []
        read = task.records.read
        for name in task.records.fields:
            scope = self.view.shared_scope(name)
            if scope is None or name in self.owned.constants:
                continue
            where: Located = task.records.read_at
            source, mend = "", f"assign '{name}' to a blob of another name, and send that"
            if isinstance(read, ReadRecords):
                reader = read.reader
                key = "blobs" if isinstance(reader.source, BlobSource) else "fields"
                source = f" of reader '{reader.name}'"
                mend = f"rename the field, for example {key}: {{{name}_row: …}}"
                where = reader
            elif read is not None:
                source = f" from queue '{read.queue.name}'"
            # A race on the same name would be a second fault with the same cause.
            overwriting.append(name)
            owner = _OWNERS[scope] if name not in self.owned.state else "state"
            message = (
                f"each record{source} that task '{task.name}' reads would overwrite "
                f"'{name}', which is {owner}"
            )
            self.faults.error("E510", message, mend, where, name)
        return overwriting

    def _check_needs(
        self,
        needs: Mapping[str, SpecPosition],
        position: int | None,
        is_there: Callable[[str], bool],
    ) -> list[str]:
        """Check that blobs that are needed exist; return those missing for the order of tasks."""
        missing, view, unsaved = self.missing, self.view, self.owned.unsaved
        return [
            name
            for name, spec_position in needs.items()
            if not is_there(name) and missing.report(view, position, name, spec_position, unsaved)
        ]

    def _check_protected(
        self, writes: Mapping[str, SpecPosition], deletes: Mapping[str, SpecPosition]
    ) -> None:
        # Look up the task's names in the state, which may be far larger.
        constants, state = self.owned.constants, self.owned.state
        for name in sorted(constants.intersection(writes)):
            message = f"'{name}' is a constant: a 'rebuild' task makes it at every start"
            mend = "use another blob name, or remove 'rebuild' from the task"
            self.faults.error("E175", message, mend, writes[name])
        if not deletes:
            return
        for name in sorted(name for name in deletes if name in state and name not in constants):
            message = f"'{name}' is state, which must exist at the end of every epoch"
            mend = "remove the 'del'; to free memory, assign a small value"
            self.faults.error("E176", message, mend, deletes[name])
        setup_deletes = self.view.setup_uses.deletes
        shared = self.view.group_names
        for name in sorted(
            name for name in deletes if name in shared and name not in setup_deletes
        ):
            message = f"'{name}' belongs to all tasks of the group on the node"
            mend = "delete it in the exit of the set-up that makes it"
            self.faults.error("E176", message, mend, deletes[name])


def check_tolerant_writes(view: NodeView, faults: Faults) -> None:
    """Check that tasks with ``on_error: warn`` write no blob visible to other tasks."""
    for task in view.tasks.values():
        if task.on_error == "warn":
            for name, scope in _shared_writes(view, task):
                faults.error(
                    "E122",
                    f"task '{task.name}' has 'on_error: warn', but writes "
                    f"'{strip_prefix(name)}', {_OWNERS[scope]}: a failure could leave "
                    f"it incomplete",
                    "use another blob name in a private workspace, or remove 'on_error'",
                    task.find_write_position(name),
                )


def check_tolerant_tasks(group: GroupDraft, faults: Faults) -> None:
    """Check that no task needs an ``on_error: warn`` task, and that this has no outputs."""
    tolerant = {task.name for task in group.tasks if task.on_error == "warn"}
    for task in group.tasks:
        if task.name in tolerant and task.outputs:
            message = (
                f"task '{task.name}' has 'on_error: warn', so its output "
                f"'{task.outputs[0].name}' may not exist"
            )
            faults.error("E122", message, "remove the outputs, or 'on_error'", task.spec_position)
        for need in task.needs:
            if need in tolerant:
                faults.error(
                    "E122",
                    f"task '{task.name}' needs '{need}', which has 'on_error: warn' and "
                    "may have failed",
                    f"remove the need, or 'on_error' of '{need}'",
                    task.spec_position,
                )


def _shared_writes(view: NodeView, task: TaskDraft) -> Iterator[tuple[str, Scope]]:
    flow = task.flow
    all_uses = (flow.once, flow.inner, flow.reporting)
    touched = {name for uses in all_uses for name in (*uses.writes, *uses.atomic, *uses.deletes)}
    for name in sorted(touched):
        scope = view.scope(task, name)
        if scope in _OWNERS:
            yield name, scope


def note_problems(problems: list[FlowProblem], faults: Faults, *, hogwild: bool) -> None:
    """Add faults about visibility in steps: deleted blobs read, protected blobs written."""
    for problem in problems:
        name = strip_prefix(problem.name)
        kind, spec_position = problem.kind, problem.spec_position
        if kind == "deleted":
            message = f"'{name}' may have been deleted before it is read here"
            mend = "delete it later, or assign it again before"
            faults.error("E188", message, mend, spec_position)
        elif kind == "endless":
            message = "this loop never ends: it contains no stop"
            faults.error("E189", message, "add a 'stop_if', or a count", spec_position)
        elif kind == "unreachable":
            message = "this step is unreachable: the one before it always leaves"
            faults.warn("W131", message, "remove it, or make the stop conditional", spec_position)
        elif not hogwild:
            other = problem.other or spec_position
            faults.error(
                "E185",
                f"branches of 'parallel' race on '{name}': it is written at {spec_position.path} "
                f"and used at {other.path}",
                "use a separate blob in each branch, and combine them afterwards",
                other,
            )


def strip_prefix(name: str) -> str:
    """Strip a net's prefix from a blob's name, for a message about visibility."""
    return name.rsplit(":", 1)[-1]
