"""The session in which all nodes live in this process, and tasks run in its threads."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from queue import Empty, SimpleQueue

from jobrun.blobs.values import Value, boundary_form, detach
from jobrun.checkpoint.plan import Ticket
from jobrun.checkpoint.times import NodeSave
from jobrun.core.errors import JobrunError, TaskFailedError
from jobrun.graph.types import Cluster, Node, TaskGroup
from jobrun.runtime.execute import NodeRun, run_task
from jobrun.runtime.frame import Frame, GroupRun
from jobrun.runtime.imports import FolderFinder
from jobrun.runtime.leash import Leash
from jobrun.runtime.midway import Points
from jobrun.runtime.notices import Notices
from jobrun.runtime.plan import GroupPlan, plan_group
from jobrun.runtime.savings import Savings
from jobrun.runtime.watch import ends_apart, stacks
from jobrun.runtime.workspace import Blobs
from jobrun.session.base import Outputs, RunContext
from jobrun.session.cancel import GroupCancelledError, TasksStuckError
from jobrun.session.crew import Crew
from jobrun.session.faults import combined
from jobrun.session.persist import changes_of, persist_all
from jobrun.session.schedule import Part, check_needs, ready, released
from jobrun.session.snapshot import Kept, put_aside, put_back

# A job has four groups, and one that saves; those that load and upload come and go.
_KEPT_PLANS = 8
# What exit blocks get after the time for everything is over.
_LAST_S = 5.0


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
        self._finder: FolderFinder | None = None
        self._leash = Leash()
        self._savings = Savings()
        self._running: GroupRun | None = None

    def open(self, cluster: Cluster, context: RunContext) -> None:
        """Make one empty global workspace per node."""
        self._context = context
        self._nodes = {node.name: node for node in cluster}
        self._workspaces = {node.name: Blobs() for node in cluster}
        self._notices = Notices(context.emit)
        self._crew = Crew(self._notices.heeding)
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
        context, crew, notices = self._opened()
        plan = self._plan(group)
        if not plan.tasks and not plan.nodes:
            return {}
        run = GroupRun(
            group.name, epoch, context.seed, context.run_dir, context.folder, context.emit,
            dict(outputs), crew.start, self._leash,
            {line.key: line.open() for line in plan.lines}, grace_s=self._grace_s,
            savings=self._savings, gates=self._savings.gates(plan.changed), points=points,
        )  # fmt: skip
        parts = self._parts(plan, run)
        self._running = run
        try:
            with notices.heeding():
                _Conductor(run, crew, self._grace_s).conduct(parts)
        finally:
            self._running = None
        if run.errors:
            raise combined(run.errors, run.failed)
        if run.interrupted:
            raise GroupCancelledError(group.name)
        refs = [output.ref for task in plan.tasks for output in task.outputs]
        # Of a task whose failure is only told there are none.
        return {ref: run.outputs[ref] for ref in refs if ref in run.outputs}

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
        return {name: detach(workspace[name], name) for name in names}

    def names(self, node: str) -> tuple[str, ...]:
        """The names in the node's global workspace, sorted."""
        return tuple(sorted(self._workspaces[node]))

    def settle(self, keep: Mapping[str, tuple[str, ...]]) -> None:
        """Bring each node's global workspace to boundary form.

        Raises:
            TaskFailedError: A name of ``keep`` is missing or holds what cannot be stored.
        """
        settled = {
            node: _settled(node, workspace, keep.get(node, ()))
            for node, workspace in self._workspaces.items()
        }
        # Only when all of it is known to be right.
        for node, blobs in settled.items():
            workspace = self._workspaces[node]
            workspace.clear()
            workspace.update(blobs)

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

    def _opened(self) -> tuple[RunContext, Crew, Notices]:
        if self._context is None or self._crew is None or self._notices is None:
            raise RuntimeError("the session is not open")
        return self._context, self._crew, self._notices

    def _plan(self, group: TaskGroup) -> GroupPlan:
        plan = self._plans.get(id(group))
        if plan is None:
            check_needs(group.tasks)
            # The plan holds the group, so nothing else can get its id meanwhile.
            plan = self._plans[id(group)] = plan_group(group, self._opened()[0].meter)
            if len(self._plans) > _KEPT_PLANS:
                self._plans.popitem(last=False)
        else:
            self._plans.move_to_end(id(group))
        return plan

    def _parts(self, plan: GroupPlan, run: GroupRun) -> list[Part]:
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
            work = partial(
                run_task, task, run, self._nodes[node], groups[node], self._workspaces[node]
            )
            may_block = task.may_block or bool(task.reports) or task.task.instances > 1
            may_block = may_block or ends_apart(task.task)
            part = Part(task.task.full_name, work, may_block=may_block)
            tasks.setdefault(task.task.name, []).append(part)
            if node in begins:
                part.follow(begins[node])
                ends[node].follow(part)
        for name, parts in tasks.items():
            needs = next(t.task.needs for t in plan.tasks if t.task.name == name)
            for part in parts:
                for need in needs:
                    for earlier in tasks[need]:
                        part.follow(earlier)
        every = [part for parts in tasks.values() for part in parts]
        return [*begins.values(), *every, *ends.values()]


class _Conductor:
    """Starts parts when they are ready, and waits for them, in the caller's thread."""

    def __init__(self, run: GroupRun, crew: Crew, grace_s: float) -> None:
        self._run = run
        self._crew = crew
        self._grace_s = grace_s
        self._ended: SimpleQueue[Part | None] = SimpleQueue()
        self._running: list[Part] = []
        # When the time of a cancelled run is over; it is set once.
        self._deadline: float | None = None

    def conduct(self, parts: list[Part]) -> None:
        """Run all parts to their end.

        Raises:
            TasksStuckError: Some did not end in time after a cancel.
        """
        waiting = ready(parts)
        # Wakes the wait below, so that it can begin to count the time.
        with self._run.body.waking(lambda: self._ended.put(None)):
            while waiting or self._running:
                waiting = self._start(waiting)
                if not waiting and self._running:
                    waiting = self._wait()

    def _start(self, parts: list[Part]) -> list[Part]:
        """Start the parts; what became ready because one of them was over at once."""
        over: list[Part] = []
        alone = len(parts) == 1 and not self._running
        for part in parts:
            if self._run.body.cancelled and not part.always:
                self._run.interrupted = True
                over.append(part)
            elif alone and not part.may_block:
                # Nothing else runs: no need for another thread.
                part.work()
                over.append(part)
            else:
                self._running.append(part)
                self._crew.start(part.work, partial(self._ended.put, part))
        return [later for part in over for later in released(part)]

    def _wait(self) -> list[Part]:
        """Wait until some part has ended; what became ready by it."""
        while not self._run.body.cancelled:
            part = self._ended.get()
            if part is not None:
                return self._end(part)
        return self._wait_for_end()

    def _wait_for_end(self) -> list[Part]:
        if self._deadline is None:
            self._deadline = time.monotonic() + self._grace_s
        for limit in (self._deadline, self._deadline + min(_LAST_S, self._grace_s)):
            while True:
                try:
                    part = self._ended.get(timeout=max(0.0, limit - time.monotonic()))
                except Empty:
                    break
                if part is not None:
                    return self._end(part)
            # Programs and loops of exit blocks hear of it too now.
            self._run.cleanup.cancel()
        raise self._stuck()

    def _end(self, part: Part) -> list[Part]:
        self._running.remove(part)
        return list(released(part))

    def _stuck(self) -> TasksStuckError:
        names = ", ".join(sorted(part.name for part in self._running))
        error = TasksStuckError.of(
            "E215",
            f"these tasks did not end within {self._grace_s:g} s of being asked to: {names}",
            "look for a callable that does not return; resume continues from the last saved epoch",
        )
        if not self._run.errors:
            for stack in stacks(self._run, all_tasks=True):
                error.add_note(stack)
            return error
        first = combined(self._run.errors)
        if isinstance(first, JobrunError):
            error = TasksStuckError(*first.faults, *error.faults)
            for note in getattr(first, "__notes__", ()):
                error.add_note(note)
        error.__cause__ = first
        return error


def _settled(node: str, workspace: Blobs, keep: tuple[str, ...]) -> dict[str, Value]:
    """The kept blobs in boundary form, sorted by name, no two of them the same object."""
    settled: dict[str, Value] = {}
    seen: set[int] = set()
    for name in sorted(keep):
        if name not in workspace:
            raise TaskFailedError.of(
                "E216",
                f"the state blob '{name}' of node '{node}' does not exist any more",
                f"do not delete '{name}'; it is state because init makes it",
            )
        value = boundary_form(workspace[name], name)
        if id(value) in seen:
            value = detach(value, name)
        seen.add(id(value))
        settled[name] = value
    return settled
