"""Implement the ``threads`` session: all nodes live in this process, tasks run in its threads."""

from __future__ import annotations

import ctypes
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from jobrun.checkpoint.checkpoint_times import NodeSave
from jobrun.checkpoint.task_groups import Ticket
from jobrun.core import captured_output as printed_output
from jobrun.core.errors import TaskFailedError
from jobrun.core.events import Noted, ignore
from jobrun.core.interpreter import lazy_module
from jobrun.core.system_calls import usable_cpus
from jobrun.graph.concurrent_calls import find_calls_beside, find_concurrent_callables
from jobrun.graph.types import Cluster, Node, OutputRef, TaskGroup
from jobrun.runtime.callables.user_modules import FolderOnPath, admit_classes, load_callable
from jobrun.runtime.context.cancel import CancelScope
from jobrun.runtime.context.child_processes import ChildReaper
from jobrun.runtime.context.frame import Blobs, Frame, MissingBlobError
from jobrun.runtime.context.group_run_state import GroupRun, Start, run_all
from jobrun.runtime.context.imported_code import IMPORTED_CODE
from jobrun.runtime.context.library_settings import LibrarySettings
from jobrun.runtime.context.safe_point import SafePointHooks
from jobrun.runtime.execute_task import NodeRun, run_task
from jobrun.runtime.group_plan import GroupPlan, plan_group
from jobrun.runtime.snapshots.snapshot import Snapshots
from jobrun.runtime.step_errors import NumpyWarnings
from jobrun.runtime.steps.restore_process_state import ProcessState
from jobrun.runtime.task_limits import has_own_scope
from jobrun.session.base import GroupCancelledError, Outputs, RunContext, merge_errors
from jobrun.session.threads.thread_pool import IdleCpuStarter, ThreadPool
from jobrun.session.threads.work_items import (
    Dispatcher,
    ExternalDeps,
    WorkItem,
    require_valid_needs,
    run_all_after,
)
from jobrun.values.blob_kinds import Value, is_object
from jobrun.values.container_flattening import Parts, is_tree
from jobrun.values.copies import boundary_form, detach
from jobrun.values.left_out_attributes import LeftOutAttributes
from jobrun.values.object_state import ObjectFacts, class_name
from jobrun.values.tree_survey import survey

if TYPE_CHECKING:
    from jobrun.session.threads import retry_snapshots
else:
    retry_snapshots = lazy_module("jobrun.session.threads.retry_snapshots")

_AT_END = "was changed before the last epoch ended"
# A job has four groups and one that saves; groups that load and upload are temporary.
_KEPT_PLANS = 8

# From malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
# glibc's DEFAULT_MMAP_THRESHOLD_MAX where a long has 64 bits, and twice that.
MMAP_THRESHOLD_BYTES = 32 << 20
TRIM_THRESHOLD_BYTES = 64 << 20


class ThreadsSession:
    """Runs every node in this process, each with its own global workspace.

    Only outputs and pulled copies cross between nodes.

    All nodes are this process: their hosts and resources mean nothing here, and remote nets
    are not used.

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
        self._collects = False
        self._pool: ThreadPool | None = None
        self._warnings: NumpyWarnings | None = None
        self._warning_context = Context()
        self._start_beside: Start | None = None
        self._surroundings = ProcessState(ignore)
        self._settings = LibrarySettings()
        self._user_modules: FolderOnPath | None = None
        # Callables whose modules were imported before they were called: targets and folders.
        self._imported: set[tuple[str, str]] = set()
        self._left_out = LeftOutAttributes()
        self._leash = ChildReaper()
        self._savings = Snapshots()
        self._running: GroupRun | None = None
        # The last group that was one bare task and went well, and its run.
        self._last: tuple[GroupPlan | None, GroupRun | None] = (None, None)

    def open(self, cluster: Cluster, context: RunContext) -> None:
        """Start the ``threads`` session: an empty global workspace per node, in this process."""
        keep_freed_memory()
        if not self._collects:
            self._collects = True
            printed_output.STREAMS.install()
        # Listeners run in the thread of a task; what they print is not the task's output.
        context = replace(context, emit=printed_output.without_collecting(context.emit))
        self._context = context
        self._nodes = {node.name: node for node in cluster}
        self._workspaces = {node.name: Blobs() for node in cluster}
        self._warnings = NumpyWarnings(context.emit)
        self._warning_context = self._warnings.context()
        self._surroundings = ProcessState(context.emit)
        self._settings = LibrarySettings(context.emit, len(self._nodes))
        self._pool = ThreadPool(self._warnings.errstate, self._settings.within)
        self._start_beside = IdleCpuStarter(self._pool) if usable_cpus() > 1 else None
        self._user_modules = FolderOnPath(context.folder)
        self._user_modules.add()
        if context.code is not None:
            IMPORTED_CODE.expect(context.code, context.run_dir, context.folder)
        if context.adapt:
            admit_classes(context.adapt, context.folder)
        self._imported = set()
        self._left_out = LeftOutAttributes(lambda text: context.emit(Noted(text, level="warning")))
        self._savings.note_remade = self._left_out.compare

    def run(
        self, group: TaskGroup, epoch: int, outputs: Outputs, points: SafePointHooks | None = None
    ) -> Outputs:
        """Run a group in the threads of this session, and return the outputs of its tasks.

        Raises:
            JobrunError: What failed first, with the faults of everything that failed.
            GroupCancelledError: ``request_stop`` ended it.
            TasksStuckError: Tasks did not end in time; the process has to.
        """
        plan = self._plans.get(id(group))
        if plan is None:
            require_valid_needs(group.tasks)
            plan = self._plan(group)
        if plan.is_alone:
            try:
                return self._run_alone(plan, self._reuse_run(plan, epoch, dict(outputs), points))
            finally:
                IMPORTED_CODE.require_unchanged()
        return self.run_part(group, epoch, ExternalDeps(outputs, self.fetch), points)

    def run_part(
        self, group: TaskGroup, epoch: int, deps: ExternalDeps, points: SafePointHooks | None = None
    ) -> Outputs:
        """Run the tasks of a group that are on this ``threads`` session's nodes; return outputs.

        The caller has checked what tasks need.

        Args:
            group: What of it runs here.
            epoch: See ``run``.
            deps: What is elsewhere, and the outputs of earlier groups.
            points: See ``run``.

        Raises:
            JobrunError: As by ``run``.
            GroupCancelledError: As by ``run``, or ``deps`` was cancelled.
        """
        _, pool, warnings = self._require_open()
        plan = self._plan(group)
        if not plan.tasks and not plan.nodes:
            return {}
        run = self._group_run(plan, epoch, deps.outputs, points)
        run.fetch, run.fetch_file = deps.fetch, deps.fetch_file
        run.queues = {line.key: deps.open_queue(line, run) for line in plan.queues}
        parts = self._build_items(plan, run, deps)
        self._running = run
        try:
            with self._surround_calls(plan), warnings.errstate(), deps.attach(run):
                Dispatcher(run, pool, self._grace_s, deps).run(parts)
        finally:
            self._running = None
            IMPORTED_CODE.require_unchanged()
        return _collect_outputs(plan, run)

    def _run_alone(self, plan: GroupPlan, run: GroupRun) -> Outputs:
        """Run a group of one task in the session directly, without set-up or queues."""
        (task,) = plan.tasks
        node = task.task.node
        globals_ = self._workspaces[node]
        group = globals_ if plan.group.workspace == "global" else Blobs()
        self._running = run
        self._settings.adopt()
        try:
            if run.body.cancelled:
                run.interrupted = True
            else:
                run.start_thread, run.is_alone = self._start_beside, True
                # A copy: context variables that the task sets do not reach the next run.
                context = self._warning_context.copy()
                context.run(run_task, task, run, self._nodes[node], group, globals_)
        finally:
            self._running = None
        outputs = _collect_outputs(plan, run)
        # It succeeded; the run is kept for reuse, without references to values.
        run.outputs, run.gates = {}, {}
        self._last = plan, run
        return outputs

    def _reuse_run(
        self,
        plan: GroupPlan,
        epoch: int,
        outputs: dict[OutputRef, Value],
        points: SafePointHooks | None,
    ) -> GroupRun:
        """Return the threads session's last ``GroupRun``, reset for the same plan, or a new one."""
        last, run = self._last
        if run is None or last is not plan:
            return self._group_run(plan, epoch, outputs, points)
        self._last = (None, None)
        run.epoch, run.outputs, run.points = epoch, outputs, points
        # A stop request that came too late for the last run does not concern this one.
        run.body = CancelScope()
        run.waits = {}
        run.gates = self._savings.gates(plan.changed)
        return run

    def _group_run(
        self,
        plan: GroupPlan,
        epoch: int,
        outputs: dict[OutputRef, Value],
        points: SafePointHooks | None,
    ) -> GroupRun:
        context, pool, _ = self._require_open()
        return GroupRun(
            plan.group.name,
            epoch,
            context.seed,
            context.run_dir,
            context.folder,
            context.emit,
            outputs,
            pool.start,
            self._leash,
            grace_s=self._grace_s,
            snapshots=self._savings,
            gates=self._savings.gates(plan.changed),
            points=points,
            fetch=self.fetch,
            settings=self._settings,
        )

    def protect(self, tickets: Sequence[Ticket], groups: Sequence[TaskGroup]) -> None:
        """Copy blobs that the ``threads`` session is still saving before groups change them."""
        changed, opaque = collect_changes([self._plan(group) for group in groups])
        self._savings.protect(tickets, changed, opaque)

    def persist(self, tickets: Sequence[Ticket], directory: str) -> tuple[NodeSave, ...]:
        """Write snapshots of a save to files in the process of the ``threads`` session.

        Raises:
            TaskFailedError: A blob holds what cannot be stored.
            EnvironmentFaultError: The files cannot be written (such as ``ENOSPC``, ``EIO``).
        """
        return persist_all(self._savings, tickets, directory)

    def release(self, tickets: Sequence[Ticket]) -> None:
        """Free the memory of snapshots of a save in the ``threads`` session."""
        self._savings.release(tickets)

    def snapshot(self, group: TaskGroup) -> retry_snapshots.WorkspaceSnapshot:
        """Take a snapshot of what a group may change in the ``threads`` session's workspaces."""
        before = {node: dict(blobs) for node, blobs in self._workspaces.items()}
        snapshot = retry_snapshots.take_snapshot(self._workspaces, self._plan(group).changed)
        for node, blobs in self._workspaces.items():
            self._savings.kept_references.follow_all(blobs, before[node], blobs)
        return replace(
            snapshot,
            settings=self._settings.capture(),
            variables=self._settings.capture_variables(),
        )

    def restore(self, snapshot: retry_snapshots.WorkspaceSnapshot) -> None:
        """Restore the workspaces of the ``threads`` session to a snapshot."""
        retry_snapshots.restore_snapshot(snapshot, self._workspaces)
        self._savings.kept_references.restart()
        self._settings.restore(snapshot.settings)
        self._settings.restore_variables(snapshot.variables)
        for blobs in self._workspaces.values():
            objects = {name: value for name, value in blobs.items() if is_object(value)}
            self._savings.objects.note_states(objects)

    def read(self, node: str, names: tuple[str, ...]) -> dict[str, Value]:
        """Return copies of a node's blobs in the ``threads`` session.

        Raises:
            KeyError: If the node has no such blob.
        """
        workspace = self._workspaces[node]
        for name in names:
            if name not in workspace:
                raise workspace.explain_missing(name) or KeyError(name)
        return {name: copy_for_reading(workspace[name], name) for name in names}

    def fetch(self, nodes: Sequence[str], name: str, cancel: CancelScope) -> Iterator[Value]:
        """Iterate over copies of a blob of the threads session's nodes, for a ``pull`` step.

        Can be called from any thread.

        Raises:
            MissingBlobError: A node has no such blob.
        """
        del cancel
        return (detach(self._workspaces[node][name], name) for node in nodes)

    def names(self, node: str) -> tuple[str, ...]:
        """Return the sorted names of a node's blobs in the ``threads`` session."""
        return tuple(sorted(self._workspaces[node]))

    def settle(self, keep: Mapping[str, tuple[str, ...]], *, final: bool = False) -> None:
        """Delete all but the named blobs in the ``threads`` session.

        Of those, one that shares memory with another is copied.

        Raises:
            TaskFailedError: A name of ``keep`` is missing or holds what cannot be stored; or, after
                the last epoch, a callable has changed what it keeps of one.
        """
        if final and self._savings.kept_references:
            for workspace in self._workspaces.values():
                self._savings.kept_references.require_all_same(workspace, _AT_END, wholly=True)
        compare = self._left_out.compare
        settled = [
            (node, workspace, _settle_blobs(node, workspace, keep.get(node, ()), compare))
            for node, workspace in self._workspaces.items()
        ]
        # Only when all of it is known to be right.
        for _, workspace, blobs in settled:
            if self._savings.kept_references:
                self._savings.kept_references.follow_all(workspace, workspace, blobs)
            workspace.clear()
            workspace.update(blobs)

    def renew(self) -> tuple[str, ...]:
        """Empty all workspaces of the ``threads`` session; return (), as no node can be lost."""
        for workspace in self._workspaces.values():
            workspace.clear()
        self._savings.kept_references.restart()
        return ()

    def request_stop(self) -> None:
        """Request that the group that runs in the ``threads`` session end at the next step.

        Also from a signal handler. Does nothing while no group runs.
        """
        run = self._running
        if run is not None:
            run.body.cancel()

    def close(self) -> None:
        """Shut down the ``threads`` session: end its threads and programs; repeatable."""
        if self._pool is not None:
            self._pool.close()
        if self._user_modules is not None:
            self._user_modules.remove()
            IMPORTED_CODE.forget()
        if self._context is not None and self._context.adapt:
            admit_classes((), self._context.folder)
        self._leash.close()
        self._savings.close()
        self._settings.close()
        if self._collects:
            self._collects = False
            printed_output.STREAMS.remove()
        self._workspaces = {}
        self._plans.clear()
        self._last = (None, None)

    @contextmanager
    def _surround_calls(self, plan: GroupPlan) -> Iterator[None]:
        """Preserve, in the ``threads`` session, process state that user code may change."""
        may_call = any(task.may_block for task in plan.tasks)
        if may_call or any(node_plan.setup or node_plan.reports for node_plan in plan.nodes):
            self._settings.find_concurrent = partial(find_concurrent_callables, plan.group)
            self._settings.find_calls = partial(find_calls_beside, plan.group)
            with self._settings.watch(), self._surroundings.preserve():
                self._import_modules(plan)
                yield
        else:
            yield

    def _import_modules(self, plan: GroupPlan) -> None:
        """Import the modules of callables that may run at the same time, before any of them runs.

        Otherwise what one module sets at its top would be seen by the others depending on timing.
        """
        folder = self._require_open()[0].folder
        for target, subfolder in plan.early_imports:
            if (target, subfolder) not in self._imported:
                self._imported.add((target, subfolder))
                # The step that needs it imports it again, and its error says where.
                with suppress(Exception, SystemExit):
                    self._settings.load(load_callable, target, str(Path(folder, subfolder)))

    def _require_open(self) -> tuple[RunContext, ThreadPool, NumpyWarnings]:
        if self._context is None or self._pool is None or self._warnings is None:
            raise RuntimeError("the session is not open")
        return self._context, self._pool, self._warnings

    def _plan(self, group: TaskGroup) -> GroupPlan:
        plan = self._plans.get(id(group))
        if plan is None:
            # The plan holds the group, so nothing else can get its id meanwhile.
            plan = self._plans[id(group)] = plan_group(group, self._require_open()[0].meter)
            if len(self._plans) > _KEPT_PLANS:
                self._plans.popitem(last=False)
        else:
            self._plans.move_to_end(id(group))
        return plan

    def _build_items(self, plan: GroupPlan, run: GroupRun, deps: ExternalDeps) -> list[WorkItem]:
        """Convert a group's plan to the work items that this ``threads`` session runs."""
        begin_items: dict[str, WorkItem] = {}
        end_items: dict[str, WorkItem] = {}
        groups: dict[str, Blobs] = {}
        within = self._settings.within
        for node_plan in plan.nodes:
            globals_ = self._workspaces[node_plan.node]
            group = globals_ if plan.group.workspace == "global" else Blobs()
            groups[node_plan.node] = group
            if node_plan.setup or node_plan.reports:
                frame = Frame(run, self._nodes[node_plan.node], "", (group, group, group, globals_))
                node_run = NodeRun(node_plan, frame)
                begin_items[node_plan.node] = WorkItem(
                    node_plan.node, partial(within, node_run.begin)
                )
                end_items[node_plan.node] = WorkItem(
                    node_plan.node, partial(within, node_run.end), always=True
                )
                end_items[node_plan.node].run_after(begin_items[node_plan.node])
        tasks: dict[str, list[WorkItem]] = {}
        for task in plan.tasks:
            node = task.task.node
            execute = partial(
                run_task, task, run, self._nodes[node], groups[node], self._workspaces[node]
            )
            may_block = task.may_block or bool(task.reports) or task.task.instances > 1
            may_block = may_block or has_own_scope(task.task)
            work = deps.wrap_work(task.task, execute, run)
            part = WorkItem(task.task.full_name, work, may_block=may_block)
            tasks.setdefault(task.task.name, []).append(part)
            if node in begin_items:
                part.run_after(begin_items[node])
                end_items[node].run_after(part)
        needed = {task.task.name: task.task.needs for task in plan.tasks if task.task.needs}
        for name, needs in needed.items():
            for need in needs:
                run_all_after(tasks[name], [*tasks.get(need, ()), *deps.items_for(need)])
        every = [part for parts in tasks.values() for part in parts]
        return [*begin_items.values(), *every, *end_items.values()]


def _collect_outputs(plan: GroupPlan, run: GroupRun) -> Outputs:
    """Return the outputs of a group run in the ``threads`` session, or raise its merged error."""
    if run.errors:
        raise merge_errors(run.errors, run.failed)
    if run.interrupted:
        raise GroupCancelledError(plan.group.name)
    outputs: dict[OutputRef, Value] = {}
    for task in plan.tasks:
        for output in task.outputs:
            # A task with on_error: warn that failed has none.
            if output.ref in run.outputs:
                outputs[output.ref] = run.outputs[output.ref]
    return outputs


def _settle_blobs(
    node: str,
    workspace: Blobs,
    keep: tuple[str, ...],
    note_remade: Callable[[str, Parts, Value], None],
) -> dict[str, Value]:
    """Convert a ``threads`` session's named blobs to the form that a loaded checkpoint has."""
    settled: dict[str, Value] = {}
    try:
        for name in sorted(keep):
            value = workspace[name]
            if type(value) is np.ndarray and not value.dtype.hasobject:
                # Fast path, with the result of ``boundary_form``: most blobs are such arrays.
                flags = value.flags
                if flags.carray and flags.owndata and 1 not in value.shape:
                    settled[name] = value
                    continue
            surveyed = survey(value) if is_tree(value) else None
            if surveyed is not None and surveyed.is_exclusive:
                # That such a tree can be made again is checked when it is saved.
                settled[name] = value
            else:
                settled[name] = boundary_form(value, name, note_remade)
    except MissingBlobError as error:
        raise TaskFailedError.of(
            "E216",
            f"the state blob '{error.name}' of node '{node}' does not exist any more",
            f"do not delete '{error.name}'; it is state because init makes it",
        ) from None
    seen = set(map(id, settled.values()))
    return settled if len(seen) == len(settled) else _separate_values(settled)


def _separate_values(settled: dict[str, Value]) -> dict[str, Value]:
    """Copy values that two blobs of a ``threads`` session share; refuse objects (E256)."""
    separated: dict[str, Value] = {}
    seen: dict[int, str] = {}
    for name, value in settled.items():
        first = seen.setdefault(id(value), name)
        if first != name and is_object(value):
            raise TaskFailedError.of(
                "E256",
                f"'{name}' is the object '{first}'",
                f"make one blob of it, and hand '{first}' to the steps that use '{name}'",
            )
        separated[name] = value if first == name else detach(value, name)
    return separated


NodeNames = Mapping[str, frozenset[str]]


def collect_changes(plans: Sequence[GroupPlan]) -> tuple[tuple[NodeNames, ...], NodeNames]:
    """Return the names of the blobs that groups of a ``threads`` session may change."""
    opaque: dict[str, frozenset[str]] = {}
    for plan in plans:
        for node, names in plan.opaque.items():
            opaque[node] = opaque.get(node, frozenset()) | names
    return tuple(plan.changed for plan in plans), opaque


def persist_all(
    savings: Snapshots, tickets: Sequence[Ticket], directory: str
) -> tuple[NodeSave, ...]:
    """Write the files of a save from the ``threads`` session, one thread for each node.

    Raises:
        TaskFailedError: A blob holds what cannot be stored.
        EnvironmentFaultError: The files cannot be written (such as ``ENOSPC``, ``EIO``).
    """
    saves: dict[Ticket, NodeSave] = {}

    def writing(ticket: Ticket) -> Callable[[], None]:
        def write() -> None:
            saves[ticket] = savings.persist(ticket, directory)

        return write

    raised = run_all(_start_thread, [writing(ticket) for ticket in tickets])
    errors = [error for error in raised if error is not None]
    if errors:
        raise merge_errors(errors)
    return tuple(saves[ticket] for ticket in tickets)


def _start_thread(work: Callable[[], None], done: Callable[[], None]) -> None:
    """Start a threads session's save in a daemon thread that closing does not wait for.

    Runs ``work``, then ``done``.
    """

    def run() -> None:
        work()
        done()

    threading.Thread(target=run, name="jobrun-persist", daemon=True).start()


def copy_for_reading(value: Value, name: str) -> Value:
    """Return a copy of a ``threads`` session's blob, or for an object only its class's name."""
    return ObjectFacts(class_name(value)) if is_object(value) else detach(value, name)


def keep_freed_memory(environment: Mapping[str, str] = os.environ) -> bool:
    """Make the process of a ``threads`` session keep freed memory; return whether it will.

    Args:
        environment: Where a user may have set the thresholds; then they are left as they are.
    """
    if any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in environment):
        return False
    # Only glibc has ``mallopt``.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    taken = [
        mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES),
        mallopt(_M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES),
    ]
    return all(taken)
