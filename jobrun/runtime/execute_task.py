"""Run one task on its node, or what surrounds all tasks of a node.

::

    set-up of the task: inits in order
        each instance, all at the same time:
            set-up of the instance: inits in order
                reports begin to wait; the body; each report once more
            set-up of the instance: exits, reversed
    set-up of the task: exits, reversed
    outputs

An exit runs if its init did, whatever happened in between. The first error cancels the
group run at once; this module never lets one pass without ``GroupRun.fail``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from jobrun.core.events import TaskEnded, TaskWaited
from jobrun.core.interpreter import lazy_module
from jobrun.graph.types import Node, OutputRef
from jobrun.runtime.codegen.line_table import StepLocation
from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.context.frame import Blobs, Frame
from jobrun.runtime.context.group_run_state import GroupRun, run_all
from jobrun.runtime.group_plan import NodePlan, OutputPlan, SetupPlan, TaskPlan
from jobrun.runtime.records.record_loop import Streams, run_records
from jobrun.runtime.step_errors import (
    Work,
    attempt,
    attempt_after_failure,
    explain_at,
    run_block,
)
from jobrun.runtime.task_limits import run_in_own_scope
from jobrun.values.blob_kinds import Value
from jobrun.values.copies import detach

if TYPE_CHECKING:
    from jobrun.runtime import report_steps
    from jobrun.runtime.records import stop_at_safe_points as safe_point_source
else:
    safe_point_source = lazy_module("jobrun.runtime.records.stop_at_safe_points")
    report_steps = lazy_module("jobrun.runtime.report_steps")

# Shared by all tasks without records, since nothing in it ever changes.
_NO_STREAMS = Streams()


def run_task(plan: TaskPlan, run: GroupRun, node: Node, group: Blobs, globals_: Blobs) -> None:
    """Execute a task once on its node: report its end, and record errors in the group run.

    Errors are in ``run.errors`` afterwards; none is raised.
    """
    started = time.perf_counter()
    task = plan.task
    if plan.is_bare and not plan.has_own_scope:
        went_well = _run_bare(plan, run, node, group, globals_)
    else:

        def work(seen: GroupRun) -> bool:
            return _run_task(plan, seen, node, group, globals_)

        went_well = run_in_own_scope(task, node, run, work) if plan.has_own_scope else work(run)
    seconds = time.perf_counter() - started
    if run.waits:
        _report_waits(plan, run, node)
    run.emit(TaskEnded(task.name, node.name, run.epoch, seconds, failed=not went_well))


def _report_waits(plan: TaskPlan, run: GroupRun, node: Node) -> None:
    """Emit how long a task, now executed, has waited for data, nodes and queues."""
    task = plan.task
    waited = {"data": 0.0, "nodes": 0.0, "queue": 0.0}
    for cause, seconds in tuple(run.waits.get((task.name, node.name), ())):
        waited[cause] += seconds
    if any(waited.values()):
        run.emit(TaskWaited(task.name, node.name, max(1, task.instances), *waited.values()))


def _run_task(plan: TaskPlan, run: GroupRun, node: Node, group: Blobs, globals_: Blobs) -> bool:
    task = plan.task
    frame = _frame(plan, run, node, group, globals_)
    frames = [frame] if task.instances <= 1 else _instance_frames(frame, task.instances)
    streams = plan.records.streams(frame) if plan.records is not None else _NO_STREAMS
    if run.points is not None:
        streams = safe_point_source.add_safe_points(streams, frame)

    def instances() -> bool:
        streams.begin(frame)
        return _instances(plan, frames, streams)

    try:
        went_well = run_with_setup(plan.setup, frame, instances)
    finally:
        # Also after a failure: other tasks may wait at the queues of this task.
        went_well = _closed(streams, run) and went_well
    return went_well and _take_outputs(plan, frames, run)


def _run_bare(plan: TaskPlan, run: GroupRun, node: Node, group: Blobs, globals_: Blobs) -> bool:
    """Execute a task that has no set-up, reports or records, with less overhead.

    Where a task is short, what is around it has left the caches, and each step on the way costs
    more than it would by itself: so ``attempt`` is written out here.
    """
    frame = _frame(plan, run, node, group, globals_)
    try:
        run_block(plan.body, frame)
    except CancelledError:
        run.interrupted = True
        return False
    except BaseException as error:  # noqa: BLE001 - raised again by the session
        run.fail(error)
        return False
    return not plan.outputs or _take_outputs(plan, [frame], run)


def _frame(plan: TaskPlan, run: GroupRun, node: Node, group: Blobs, globals_: Blobs) -> Frame:
    blobs = Blobs()
    frame = Frame(run, node, plan.task.name, (blobs, blobs, group, globals_))
    frame.instances = plan.task.instances
    frame.block_path = plan.task.path
    return frame


def _closed(streams: Streams, run: GroupRun) -> bool:
    if streams is _NO_STREAMS:
        return True

    def work() -> bool:
        streams.close()
        return True

    return attempt(run, work)


def run_with_setup(setups: Sequence[SetupPlan], frame: Frame, body: Work) -> bool:
    """Execute a task's ``init`` blocks, body and ``exit`` blocks; return whether all succeeded.

    An exit runs only if its init succeeded.
    """
    run = frame.run
    if not setups:
        return attempt(run, body)
    entered: list[SetupPlan] = []
    is_ready = safe_point_source.is_resumed_midway(run)

    def inits_and_body() -> bool:
        for setup in setups:
            if not is_ready:
                run_block(setup.init, frame.at(setup.init.path))
            entered.append(setup)
        return body()

    went_well = attempt(run, inits_and_body)
    for setup in reversed(entered):
        exit_frame = frame.for_cleanup(setup.exit.path, failed=not went_well)
        went_well = _attempt_cleanup(setup, exit_frame, failed=not went_well) and went_well
    return went_well


class NodeRun(Struct):
    """The setup and the reports around all tasks of a group on one node, in three parts."""

    plan: NodePlan
    frame: Frame
    _entered: list[SetupPlan] = field(default_factory=list)
    _reporters: list[report_steps.RunningReport] = field(default_factory=list)

    def begin(self) -> None:
        """Execute a node's ``init`` steps before its tasks, then start its report threads."""

        def work() -> bool:
            for setup in self.plan.setup:
                if not safe_point_source.is_resumed_midway(self.frame.run):
                    run_block(setup.init, self.frame.at(setup.init.path))
                self._entered.append(setup)
            self._reporters = report_steps.start_reports(self.plan.reports, self.frame)
            return True

        attempt(self.frame.run, work)

    def end(self) -> None:
        """Execute a node's closing steps: each report once more, then ``exit`` steps."""
        run = self.frame.run
        went_well = not run.body.cancelled
        went_well = (
            report_steps.finish_reports(self._reporters, run, failed=not went_well) and went_well
        )
        for setup in reversed(self._entered):
            exit_frame = self.frame.for_cleanup(setup.exit.path, failed=not went_well)
            went_well = _attempt_cleanup(setup, exit_frame, failed=not went_well) and went_well


def _instance_frames(frame: Frame, count: int) -> list[Frame]:
    frames = []
    for number in range(count):
        instance_frame = frame.at(frame.block_path)
        instance_frame.i = Blobs()
        instance_frame.instance = number
        instance_frame.streams = {}
        instance_frame.results = {}
        frames.append(instance_frame)
    return frames


def _instances(plan: TaskPlan, frames: list[Frame], streams: Streams) -> bool:
    if len(frames) == 1:
        return _instance(plan, frames[0], streams)
    outcomes: list[bool] = [False] * len(frames)

    def work(index: int) -> Callable[[], None]:
        def run() -> None:
            outcomes[index] = _instance(plan, frames[index], streams)

        return run

    run_all(frames[0].run.start, [work(index) for index in range(len(frames))])
    return all(outcomes)


def _instance(plan: TaskPlan, frame: Frame, streams: Streams) -> bool:
    return run_with_setup(plan.instance_setup, frame, lambda: _body(plan, frame, streams))


def _body(plan: TaskPlan, frame: Frame, streams: Streams) -> bool:
    def body() -> bool:
        if plan.records is None:
            run_block(plan.body, frame)
        else:
            run_records(plan.records, plan.body, frame, streams)
        return True

    if not plan.reports:
        return body()
    reporters = report_steps.start_reports(plan.reports, frame)
    # Record a failure before the last reports run, so that other tasks are cancelled at once.
    went_well = attempt(frame.run, body)
    return report_steps.finish_reports(reporters, frame.run, failed=not went_well) and went_well


def _attempt_cleanup(setup: SetupPlan, frame: Frame, *, failed: bool) -> bool:
    def work() -> bool:
        run_block(setup.exit, frame)
        return True

    return attempt_after_failure(frame.run, work, failed=failed)


def _take_outputs(plan: TaskPlan, frames: list[Frame], run: GroupRun) -> bool:
    """Copy a task's outputs as its execution ends, so that no later change reaches them."""

    def work() -> bool:
        gate = run.gates.get(plan.task.node)
        if gate is not None:
            # An output may change a blob, too: it may call ``count_down``.
            gate.pass_gate()
        # Compute all outputs before any is published: a task has all its outputs or none.
        taken: dict[OutputRef, Value] = {}
        for output in plan.outputs:
            values = [_taken(plan, output, frame) for frame in frames]
            taken[output.ref] = values if plan.task.instances > 1 else values[0]
        run.outputs.update(taken)
        return True

    return attempt(run, work) if plan.outputs else True


def _taken(plan: TaskPlan, output: OutputPlan, frame: Frame) -> Value:
    if output.name in frame.results:
        return frame.results[output.name]
    try:
        value = output.value(frame)
        return value if output.is_fresh else detach(value, output.name)
    except Exception as error:
        location = StepLocation(f"{plan.task.path}.outputs.{output.name}", plan.task.origin)
        explained = explain_at(error, location, frame)
        raise explained from error
