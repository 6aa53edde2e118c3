"""The session in which all nodes live in this process, and tasks run in its threads."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context
from functools import partial

import numpy as np

from jobrun.blobs.values import Value, boundary_form, detach
from jobrun.checkpoint.plan import Ticket
from jobrun.checkpoint.times import NodeSave
from jobrun.core.errors import TaskFailedError
from jobrun.core.events import ignore
from jobrun.graph.types import Cluster, Node, OutputRef, TaskGroup
from jobrun.runtime.cancel import CancelScope
from jobrun.runtime.execute import NodeRun, run_task
from jobrun.runtime.frame import Frame, GroupRun, Start
from jobrun.runtime.imports import FolderFinder
from jobrun.runtime.leash import Leash
from jobrun.runtime.midway import Points
from jobrun.runtime.notices import Notices
from jobrun.runtime.plan import GroupPlan, plan_group
from jobrun.runtime.savings import Savings
from jobrun.runtime.surroundings import Surroundings
from jobrun.runtime.watch import ends_apart
from jobrun.runtime.workspace import Blobs, MissingBlobError
from jobrun.session.base import Outputs, RunContext
from jobrun.session.beyond import Beyond
from jobrun.session.cancel import GroupCancelledError
from jobrun.session.conduct import Conductor
from jobrun.session.crew import Crew
from jobrun.session.faults import combined
from jobrun.session.persist import changes_of, persist_all
from jobrun.session.schedule import Part, check_needs
from jobrun.session.snapshot import Kept, put_aside, put_back, told
from jobrun.session.spare import Spare

# A job has four groups, and one that saves; those that load and upload come and go.
_KEPT_PLANS = 8


class ThreadsSession:
    """Every node has its own global workspace; only outputs and pulled copies cross.

    All nodes are this process: their hosts and resources mean nothing here, and nobody asks
    for remote nets.

    Args:
        grace_s: How long tasks may take to their next step boundary once the group run is
            cancelled; after that ``TasksStuckError`` is raised.
    """

    def __init__(self, *, grace_s: float = 30.0) -> None:
        self._grace_s = grace_s
        self._plans: OrderedDict[int, GroupPlan] = OrderedDict()
        self._nodes: dict[str, Node] = {}
        self._workspaces: dict[str, Blobs] = {}
        self._context: RunContext | None = None
        self._crew: Crew | None = None
        self._notices: Notices | None = None
        self._heeding = Context()
        self._beside: Start | None = None
        self._surroundings = Surroundings(ignore)
        self._finder: FolderFinder | None = None
        self._leash = Leash()
        self._savings = Savings()
        self._running: GroupRun | None = None
        # The last group that was one bare task and went well, and its run.
        self._last: tuple[GroupPlan | None, GroupRun | None] = (None, None)

    def open(self, cluster: Cluster, context: RunContext) -> None:
        """Make one empty global workspace per node."""
        self._context = context
        self._nodes = {node.name: node for node in cluster}
        self._workspaces = {node.name: Blobs() for node in cluster}
        self._notices = Notices(context.emit)
        self._heeding = self._notices.context()
        self._surroundings = Surroundings(context.emit)
        self._crew = Crew(self._notices.heeding)
        self._beside = Spare(self._crew) if len(os.sched_getaffinity(0)) > 1 else None
        self._finder = FolderFinder(context.folder)
        self._finder.install()

    def run(
        self, group: TaskGroup, epoch: int, outputs: Outputs, points: Points | None = None
    ) -> Outputs:
        """Run the group to its end and return the outputs of its tasks.

        Raises:
            JobrunError: What failed first, with the faults of everything that failed.
            GroupCancelledError: ``request_stop`` ended it.
            TasksStuckError: Tasks did not end in time; the process has to.
        """
        plan = self._plans.get(id(group))
        if plan is None:
            check_needs(group.tasks)
            plan = self._plan(group)
        if plan.is_alone:
            return self._run_alone(plan, self._lone_run(plan, epoch, dict(outputs), points))
        return self.run_part(group, epoch, Beyond(outputs, self.fetch), points)

    def run_part(
        self, group: TaskGroup, epoch: int, beyond: Beyond, points: Points | None = None
    ) -> Outputs:
        """As ``run``, of a group that has tasks elsewhere too; their needs are checked already.

        Args:
            group: What of it runs here.
            epoch: See ``run``.
            beyond: What is elsewhere, and the outputs of earlier groups.
            points: See ``run``.

        Raises:
            JobrunError: As by ``run``.
            GroupCancelledError: As by ``run``, or ``beyond`` was cancelled.
        """
        _, crew, notices = self._opened()
        plan = self._plan(group)
        if not plan.tasks and not plan.nodes:
            return {}
        run = self._group_run(plan, epoch, beyond.outputs, points)
        run.fetch, run.bring = beyond.fetch, beyond.bring
        run.lines = {line.key: beyond.line(line, run) for line in plan.lines}
        parts = self._parts(plan, run, beyond)
        self._running = run
        try:
            with self._kept(plan), notices.heeding(), beyond.attached(run):
                Conductor(run, crew, self._grace_s, beyond).conduct(parts)
        finally:
            self._running = None
        return _outcome(plan, run)

    def _run_alone(self, plan: GroupPlan, run: GroupRun) -> Outputs:
        """As ``run_part``, of a group that is one task which needs nothing around it."""
        (task,) = plan.tasks
        node = task.task.node
        globals_ = self._workspaces[node]
        group = globals_ if plan.group.workspace == "global" else Blobs()
        self._running = run
        try:
            if run.body.cancelled:
                run.interrupted = True
            else:
                run.beside, run.is_alone = self._beside, True
                # A copy: what the task would leave in it does not reach the next run.
                heeding = self._heeding.copy()
                heeding.run(run_task, task, run, self._nodes[node], group, globals_)
        finally:
            self._running = None
        made = _outcome(plan, run)
        # It went well, and holds nothing that anybody might want to be free.
        run.outputs, run.gates = {}, {}
        self._last = plan, run
        return made

    def _lone_run(
        self, plan: GroupPlan, epoch: int, outputs: dict[OutputRef, Value], points: Points | None
    ) -> GroupRun:
        """As ``_group_run``; the same one again where the last run was one of this plan."""
        last, run = self._last
        if run is None or last is not plan:
            return self._group_run(plan, epoch, outputs, points)
        self._last = (None, None)
        run.epoch, run.outputs, run.points = epoch, outputs, points
        # Whoever asked the last run to end, and came too late, does not mean this one.
        run.body = CancelScope()
        run.gates = self._savings.gates(plan.changed)
        return run

    def _group_run(
        self, plan: GroupPlan, epoch: int, outputs: dict[OutputRef, Value], points: Points | None
    ) -> GroupRun:
        context, crew, _ = self._opened()
        return GroupRun(
            plan.group.name, epoch, context.seed, context.run_dir, context.folder, context.emit,
            outputs, crew.start, self._leash, grace_s=self._grace_s,
            savings=self._savings, gates=self._savings.gates(plan.changed), points=points,
            fetch=self.fetch,
        )  # fmt: skip

    def protect(self, tickets: Sequence[Ticket], groups: Sequence[TaskGroup]) -> None:
        """Let groups run while what the tickets stand for is written."""
        changed, opaque = changes_of([self._plan(group) for group in groups])
        self._savings.protect(tickets, changed, opaque)

    def persist(self, tickets: Sequence[Ticket], directory: str) -> tuple[NodeSave, ...]:
        """Write what the tickets stand for into a directory, durably, all nodes at a time.

        Raises:
            TaskFailedError: A blob holds what cannot be stored.
            EnvironmentFaultError: The disk says no.
        """
        return persist_all(self._savings, tickets, directory)

    def release(self, tickets: Sequence[Ticket]) -> None:
        """Let go of what the tickets stand for. Any thread, any number of times."""
        self._savings.release(tickets)

    def snapshot(self, group: TaskGroup) -> Kept:
        """Keep all that a run of the group may change in the nodes' global workspaces."""
        return put_aside(self._workspaces, self._plan(group).changed)

    def restore(self, snapshot: Kept) -> None:
        """Make the global workspaces what they were at the snapshot. Only between groups."""
        put_back(snapshot, self._workspaces)

    def read(self, node: str, names: tuple[str, ...]) -> dict[str, Value]:
        """Copies of blobs of the node's global workspace. Only between groups.

        Raises:
            KeyError: If the node has no such blob.
        """
        workspace = self._workspaces[node]
        for name in names:
            if name not in workspace:
                raise KeyError(name)
        return {name: told(workspace[name], name) for name in names}

    def fetch(self, nodes: Sequence[str], name: str, cancel: CancelScope) -> Iterator[Value]:
        """Copies of a blob of nodes, for a task that pulls them. Any thread.

        Raises:
            MissingBlobError: A node has no such blob.
        """
        del cancel
        return (detach(self._workspaces[node][name], name) for node in nodes)

    def names(self, node: str) -> tuple[str, ...]:
        """The names in the node's global workspace, sorted."""
        return tuple(sorted(self._workspaces[node]))

    def settle(self, keep: Mapping[str, tuple[str, ...]]) -> None:
        """Bring each node's global workspace to boundary form.

        Raises:
            TaskFailedError: A name of ``keep`` is missing or holds what cannot be stored.
        """
        settled = [
            (workspace, _settled(node, workspace, keep.get(node, ())))
            for node, workspace in self._workspaces.items()
        ]
        # Only when all of it is known to be right.
        for workspace, blobs in settled:
            workspace.clear()
            workspace.update(blobs)

    def renew(self) -> tuple[str, ...]:
        """Empty all workspaces; no node is ever lost without the others."""
        for workspace in self._workspaces.values():
            workspace.clear()
        return ()

    def request_stop(self) -> None:
        """Ask the running group to end at its tasks' next step boundary. Any thread, any time.

        Also from a signal handler. Does nothing while no group runs.
        """
        run = self._running
        if run is not None:
            run.body.cancel()

    def close(self) -> None:
        """End all threads and let go of all programs. May be called twice."""
        if self._crew is not None:
            self._crew.close()
        if self._finder is not None:
            self._finder.remove()
        self._leash.close()
        self._savings.close()
        self._workspaces = {}
        self._plans.clear()
        self._last = (None, None)

    def _kept(self, plan: GroupPlan) -> AbstractContextManager[None]:
        """What a callable may change of the process is kept; without one there is nothing to do."""
        may_call = any(task.may_block for task in plan.tasks)
        may_call = may_call or any(one.setup or one.reports for one in plan.nodes)
        return self._surroundings.kept() if may_call else nullcontext()

    def _opened(self) -> tuple[RunContext, Crew, Notices]:
        if self._context is None or self._crew is None or self._notices is None:
            raise RuntimeError("the session is not open")
        return self._context, self._crew, self._notices

    def _plan(self, group: TaskGroup) -> GroupPlan:
        plan = self._plans.get(id(group))
        if plan is None:
            # The plan holds the group, so nothing else can get its id meanwhile.
            plan = self._plans[id(group)] = plan_group(group, self._opened()[0].meter)
            if len(self._plans) > _KEPT_PLANS:
                self._plans.popitem(last=False)
        else:
            self._plans.move_to_end(id(group))
        return plan

    def _parts(self, plan: GroupPlan, run: GroupRun, beyond: Beyond) -> list[Part]:
        """What to run: per node a beginning and an end if it has any, and all tasks."""
        begins: dict[str, Part] = {}
        ends: dict[str, Part] = {}
        groups: dict[str, Blobs] = {}
        for one in plan.nodes:
            globals_ = self._workspaces[one.node]
            group = globals_ if plan.group.workspace == "global" else Blobs()
            groups[one.node] = group
            if one.setup or one.reports:
                frame = Frame(run, self._nodes[one.node], "", (group, group, group, globals_))
                node_run = NodeRun(one, frame)
                begins[one.node] = Part(one.node, node_run.begin)
                ends[one.node] = Part(one.node, node_run.end, always=True)
                ends[one.node].follow(begins[one.node])
        tasks: dict[str, list[Part]] = {}
        for task in plan.tasks:
            node = task.task.node
            running = partial(
                run_task, task, run, self._nodes[node], groups[node], self._workspaces[node]
            )
            may_block = task.may_block or bool(task.reports) or task.task.instances > 1
            may_block = may_block or ends_apart(task.task)
            work = beyond.telling(task.task, running, run)
            part = Part(task.task.full_name, work, may_block=may_block)
            tasks.setdefault(task.task.name, []).append(part)
            if node in begins:
                part.follow(begins[node])
                ends[node].follow(part)
        needed = {one.task.name: one.task.needs for one in plan.tasks if one.task.needs}
        for name, needs in needed.items():
            for part in tasks[name]:
                for need in needs:
                    for earlier in (*tasks.get(need, ()), *beyond.parts_of(need)):
                        part.follow(earlier)
        every = [part for parts in tasks.values() for part in parts]
        return [*begins.values(), *every, *ends.values()]


def _outcome(plan: GroupPlan, run: GroupRun) -> Outputs:
    """What a group run that is over has made, or what it raises."""
    if run.errors:
        raise combined(run.errors, run.failed)
    if run.interrupted:
        raise GroupCancelledError(plan.group.name)
    made: dict[OutputRef, Value] = {}
    for task in plan.tasks:
        for output in task.outputs:
            # Of a task whose failure is only told there are none.
            if output.ref in run.outputs:
                made[output.ref] = run.outputs[output.ref]
    return made


def _settled(node: str, workspace: Blobs, keep: tuple[str, ...]) -> dict[str, Value]:
    """The kept blobs in boundary form, sorted by name, no two of them the same object."""
    settled: dict[str, Value] = {}
    try:
        for name in sorted(keep):
            value = workspace[name]
            if type(value) is np.ndarray and not value.dtype.hasobject:
                # As ``boundary_form`` says; of many blobs most are so.
                flags = value.flags
                if flags.carray and flags.owndata:
                    settled[name] = value
                    continue
            settled[name] = boundary_form(value, name)
    except MissingBlobError as error:
        raise TaskFailedError.of(
            "E216",
            f"the state blob '{error.name}' of node '{node}' does not exist any more",
            f"do not delete '{error.name}'; it is state because init makes it",
        ) from None
    seen = set(map(id, settled.values()))
    return settled if len(seen) == len(settled) else _separated(settled)


def _separated(settled: dict[str, Value]) -> dict[str, Value]:
    """The same blobs, of which no two are the same object unless nothing can change it."""
    separated: dict[str, Value] = {}
    seen: set[int] = set()
    for name, value in settled.items():
        separated[name] = detach(value, name) if id(value) in seen else value
        seen.add(id(value))
    return separated
