"""Runs one task on its node, or what is around all tasks of a node.

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
from dataclasses import dataclass, field

from jobrun.blobs.values import Value, detach
from jobrun.core.errors import JobrunError
from jobrun.core.events import TaskEnded
from jobrun.graph.types import Node, OutputRef
from jobrun.runtime.cancel import CancelledError
from jobrun.runtime.faults import explain_at, missing_only, run_block
from jobrun.runtime.frame import Frame, GroupRun
from jobrun.runtime.landing import land
from jobrun.runtime.midway import is_entered, with_points
from jobrun.runtime.plan import NodePlan, OutputPlan, ReportPlan, SetupPlan, TaskPlan
from jobrun.runtime.positions import Place
from jobrun.runtime.records import Streams, run_records
from jobrun.runtime.reports import Reporter
from jobrun.runtime.together import run_together
from jobrun.runtime.watch import run_apart
from jobrun.runtime.workspace import Blobs

Work = Callable[[], bool]
# Of tasks that neither read nor write records; nothing of it ever changes.
_NO_STREAMS = Streams()


def run_task(plan: TaskPlan, run: GroupRun, node: Node, group: Blobs, globals_: Blobs) -> None:
    """Run a task to its end, tell so, and put its outputs into ``run.outputs``.

    Errors are in ``run.errors`` afterwards; none is raised.
    """
    started = time.perf_counter()
    task = plan.task
    if plan.is_bare and not plan.ends_apart:
        went_well = _run_bare(plan, run, node, group, globals_)
    else:

        def work(seen: GroupRun) -> bool:
            return _run_task(plan, seen, node, group, globals_)

        went_well = run_apart(task, node, run, work) if plan.ends_apart else work(run)
    seconds = time.perf_counter() - started
    run.emit(TaskEnded(task.name, node.name, run.epoch, seconds, failed=not went_well))


def _run_task(plan: TaskPlan, run: GroupRun, node: Node, group: Blobs, globals_: Blobs) -> bool:
    task = plan.task
    frame = _frame(plan, run, node, group, globals_)
    frames = [frame] if task.instances <= 1 else _instance_frames(frame, task.instances)
    streams = plan.records.streams(frame) if plan.records is not None else _NO_STREAMS
    if run.points is not None:
        streams = with_points(streams, frame)

    def instances() -> bool:
        streams.begin(frame)
        return _instances(plan, frames, streams)

    try:
        went_well = around(plan.setup, frame, instances)
    finally:
        # Others may wait for what this task reads or writes, however it ended.
        went_well = _closed(streams, run) and went_well
    return went_well and _take_outputs(plan, frames, run)


def _run_bare(plan: TaskPlan, run: GroupRun, node: Node, group: Blobs, globals_: Blobs) -> bool:
    """As ``_run_task``, with nothing left of it that has nothing to do.

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
    own = Blobs()
    frame = Frame(run, node, plan.task.name, (own, own, group, globals_))
    frame.instances = plan.task.instances
    frame.place = plan.task.path
    return frame


def _closed(streams: Streams, run: GroupRun) -> bool:
    if streams is _NO_STREAMS:
        return True

    def work() -> bool:
        streams.close()
        return True

    return attempt(run, work)


def around(setups: Sequence[SetupPlan], frame: Frame, body: Work) -> bool:
    """Run inits, the body, and the exits of those whose init succeeded; whether all went well."""
    run = frame.run
    if not setups:
        return attempt(run, body)
    entered: list[SetupPlan] = []
    is_ready = is_entered(run)

    def inits_and_body() -> bool:
        for setup in setups:
            if not is_ready:
                run_block(setup.init, frame.at(setup.init.path))
            entered.append(setup)
        return body()

    went_well = attempt(run, inits_and_body)
    for setup in reversed(entered):
        left = frame.cleaning(setup.exit.path, failed=not went_well)
        went_well = _attempt_cleanup(setup, left, failed=not went_well) and went_well
    return went_well


def attempt(run: GroupRun, work: Work) -> bool:
    """Whether the work went well; an error is noted and cancels the group run."""
    try:
        return work()
    except CancelledError:
        run.interrupted = True
    except BaseException as error:  # noqa: BLE001 - raised again by the session
        run.fail(error)
    return False


def begin_reports(plans: Sequence[ReportPlan], frame: Frame) -> list[Reporter]:
    """Reports that wait for their first interval."""
    reporters = [_reporter(plan, frame) for plan in plans]
    for reporter in reporters:
        reporter.start()
    return reporters


def end_reports(reporters: Sequence[Reporter], run: GroupRun, *, failed: bool) -> bool:
    """Run each report once more; whether all went well."""

    def finish(reporter: Reporter) -> bool:
        reporter.finish()
        return True

    outcomes = [
        _attempt_echo(run, lambda one=reporter: finish(one), failed=failed)  # type: ignore[misc]
        for reporter in reporters
    ]
    return all(outcomes)


@dataclass(slots=True)
class NodeRun:
    """What runs around and beside all tasks of a group on one node, in three parts."""

    plan: NodePlan
    frame: Frame
    _entered: list[SetupPlan] = field(default_factory=list)
    _reporters: list[Reporter] = field(default_factory=list)

    def begin(self) -> None:
        """Inits, in order; then the reports begin to wait."""

        def work() -> bool:
            for setup in self.plan.setup:
                if not is_entered(self.frame.run):
                    run_block(setup.init, self.frame.at(setup.init.path))
                self._entered.append(setup)
            self._reporters = begin_reports(self.plan.reports, self.frame)
            return True

        attempt(self.frame.run, work)

    def end(self) -> None:
        """The last reports, then exits, reversed."""
        run = self.frame.run
        went_well = not run.body.cancelled
        went_well = end_reports(self._reporters, run, failed=not went_well) and went_well
        for setup in reversed(self._entered):
            left = self.frame.cleaning(setup.exit.path, failed=not went_well)
            went_well = _attempt_cleanup(setup, left, failed=not went_well) and went_well


def _instance_frames(frame: Frame, count: int) -> list[Frame]:
    frames = []
    for number in range(count):
        one = frame.at(frame.place)
        one.i = Blobs()
        one.instance = number
        one.streams = {}
        one.results = {}
        frames.append(one)
    return frames


def _instances(plan: TaskPlan, frames: list[Frame], streams: Streams) -> bool:
    if len(frames) == 1:
        return _instance(plan, frames[0], streams)
    outcomes: list[bool] = [False] * len(frames)

    def work(index: int) -> Callable[[], None]:
        def run() -> None:
            outcomes[index] = _instance(plan, frames[index], streams)

        return run

    run_together(frames[0].run.start, [work(index) for index in range(len(frames))])
    return all(outcomes)


def _instance(plan: TaskPlan, frame: Frame, streams: Streams) -> bool:
    return around(plan.instance_setup, frame, lambda: _body(plan, frame, streams))


def _body(plan: TaskPlan, frame: Frame, streams: Streams) -> bool:
    def body() -> bool:
        if plan.records is None:
            run_block(plan.body, frame)
        else:
            run_records(plan.records, plan.body, frame, streams)
        return True

    if not plan.reports:
        return body()
    reporters = begin_reports(plan.reports, frame)
    # At once, so that the others hear of it before the last reports run.
    went_well = attempt(frame.run, body)
    return end_reports(reporters, frame.run, failed=not went_well) and went_well


def _reporter(plan: ReportPlan, frame: Frame) -> Reporter:
    timed = frame.at(plan.block.path)
    last = frame.cleaning(plan.block.path, failed=False)
    return Reporter(
        frame.run,
        plan.interval_s,
        lambda: run_block(plan.block, timed),
        lambda: run_block(plan.block, last),
    )


def _attempt_cleanup(setup: SetupPlan, frame: Frame, *, failed: bool) -> bool:
    def work() -> bool:
        run_block(setup.exit, frame)
        return True

    return _attempt_echo(frame.run, work, failed=failed)


def _attempt_echo(run: GroupRun, work: Work, *, failed: bool) -> bool:
    """As ``attempt``; after a failure, what is missing because of it is no error of its own."""

    def quiet() -> bool:
        try:
            return work()
        except JobrunError as error:
            if failed and missing_only(error):
                return False
            raise

    return attempt(run, quiet)


def _take_outputs(plan: TaskPlan, frames: list[Frame], run: GroupRun) -> bool:
    """Snapshots of the outputs: what happens to the blobs later does not touch them."""

    def work() -> bool:
        gate = run.gates.get(plan.task.node)
        if gate is not None:
            # An output may count something, too.
            gate.pass_gate()
        # All of them first: a task has all its outputs or none.
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
        return value if output.is_fresh else detach(land(value), output.name)
    except Exception as error:
        place = Place(f"{plan.task.path}.outputs.{output.name}", plan.task.origin)
        explained = explain_at(error, place, frame)
        raise explained from error
