"""Run one invocation of a run: open the session, run the loop, record start and end.

The only module that puts the session, the saver and the loop together.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from jobrun.checkpoint.metadata_handler import MetadataHandler
from jobrun.checkpoint.store_protocol import CheckpointStore
from jobrun.core.errors import (
    ExpectationError,
    Fault,
    InterruptedRunError,
    JobrunError,
    StoppedEarlyError,
)
from jobrun.core.events import Event, Listener, Noted, RunEnded, RunStarted, TaskFacts
from jobrun.core.interpreter import collect_as_usual, lazy_module
from jobrun.graph.conditions import StopAfterEpochs
from jobrun.graph.types import Job, TaskGroup
from jobrun.runner.checkpoint_stores import node_files, open_upload
from jobrun.runner.identity.code_digests import CodeDigests
from jobrun.runner.identity.data_fingerprints import fingerprint_data, keep_of_init
from jobrun.runner.identity.drift import Change
from jobrun.runner.identity.environment import describe_environment
from jobrun.runner.identity.provenance import collect_provenance
from jobrun.runner.identity.recorded_job import (
    Authored,
    digest_authored,
    install_authored,
    list_given,
    needs_recording,
    recordable_params,
    stage_authored,
)
from jobrun.runner.loop.conditions import total_epochs
from jobrun.runner.loop.epoch_loop import JobRunner, ResumePoint, RunLimits
from jobrun.runner.loop.node_loss import NodeFailover, SavedState
from jobrun.runner.options import RunOptions, RunResult, parse_node_map
from jobrun.runner.preflight.filesystem import (
    find_file_system,
)
from jobrun.runner.resume.recovery import FROM_INIT, RecoveryPlan
from jobrun.runner.run_metadata_handler import RunMetadata
from jobrun.runner.rundir.lock import RunLock
from jobrun.runner.rundir.logs import RunLogs, read_last_usage
from jobrun.runner.rundir.run_directories import Run
from jobrun.runner.rundir.run_json import RunRecord, Status
from jobrun.runner.saved_progress import Progress
from jobrun.runner.saving.commit import CheckpointTarget, RunIdentity
from jobrun.runner.saving.saver import CheckpointSaver, NoSaver, Saver
from jobrun.runner.stop_requests import REQUEST_NAME, SENDER_NAME, StopRequests, time_left
from jobrun.runner.time_account import TimeAccount, UsageRecorder
from jobrun.runtime.context.safe_point import SafePoint
from jobrun.session.base import RunContext, Session, open_session
from jobrun.version import __version__

if TYPE_CHECKING:
    from jobrun.runner.resume.resize import ResizePlan
    from jobrun.runner.saving import mid_epoch_saver
else:
    mid_epoch_saver = lazy_module("jobrun.runner.saving.mid_epoch_saver")

_STATUS: dict[type[JobrunError], Status] = {
    ExpectationError: "finished",
    StoppedEarlyError: "stopped",
    InterruptedRunError: "interrupted",
}


class Invocation(Struct, frozen=True):
    """Everything that one invocation works with.

    Attributes:
        folder: The spec's folder, absolute.
        ended_code: The exit code of a run that had finished before.
        account: Where the time of this invocation goes.
        recorder: Records that, and what the processes use; None before the session is opened.
        code: The digests of the job's modules by the real path of their files.
    """

    run: Run
    job: Job
    folder: Path
    lock: RunLock
    options: RunOptions
    store: CheckpointStore
    listen: Listener
    ended_code: int = 0
    account: TimeAccount = field(default_factory=TimeAccount)
    recorder: UsageRecorder | None = None
    code: Mapping[str, str] | None = None

    @property
    def added_stop(self) -> tuple[StopAfterEpochs, ...]:
        """Return the stop condition that ``--epochs`` adds for this invocation, if any."""
        epochs = self.run.record.limit_epochs
        return (StopAfterEpochs(epochs, "--epochs"),) if epochs else ()


def run_invocation(
    work: Invocation,
    handlers: tuple[MetadataHandler, ...],
    resumed: ResumePoint | None,
    entry: SafePoint | None = None,
) -> RunResult:
    """Run an invocation's loop of epochs; record its end and its usage, even after an error."""
    account, before = TimeAccount(work.options.started), read_last_usage(work.run.path)
    recorder = UsageRecorder(work.listen, account, before, work.job)
    with contextlib.closing(recorder):
        work = replace(work, listen=recorder.listen, account=account, recorder=recorder)
        return _run_recorded(work, handlers, resumed, entry)


def _run_recorded(
    work: Invocation,
    handlers: tuple[MetadataHandler, ...],
    resumed: ResumePoint | None,
    entry: SafePoint | None,
) -> RunResult:
    started = time.monotonic()
    epoch = resumed.progress.epoch if resumed else FROM_INIT
    saved = FROM_INIT if resumed and resumed.adopted else epoch
    total = total_epochs(work.job.stop + work.added_stop)
    name, path, tasks = work.run.name, str(work.run.path), task_facts(work.job)
    work.listen(RunStarted(name, work.job.name, path, epoch, total, tasks))
    _announce(work, path)
    collect_as_usual()
    with (
        contextlib.closing(open_session(work.options.session)) as session,
        _build_stop_requests(work, session) as requests,
    ):
        saver = _build_saver(work, session, handlers, saved, requests)
        midway = _build_mid_epoch_saver(work, handlers, saver, requests, entry)
        try:
            progress = _run_loop(work, session, saver, requests, resumed, midway)
        except JobrunError as error:
            status = _STATUS.get(type(error), "failed")
            result = _result(work, error.exit_code, saver.saved, error.faults)
            _record_end(work, status, result, started)
            if status == "failed":
                raise
            return result
        except BaseException as error:
            fault = Fault("E379", f"{type(error).__name__}: {error}")
            _record_end(work, "failed", _result(work, 70, saver.saved, (fault,)), started)
            raise
        finally:
            work.account.switch("startup")
        # It was finished before, and no epoch was added: the exit code stays.
        code = work.ended_code if progress.epoch == epoch else 0
        reason = "; ".join(progress.stopping)
        result = RunResult(code, str(work.run.path), progress.epoch, reason)
        try:
            # Closing a session with processes takes a while, which counts as part of the run.
            session.close()
        finally:
            _record_end(work, "finished", result, started)
    return result


# This many starts after the same epoch are no accident.
_STUCK_STARTS = 3


def _announce(work: Invocation, path: str) -> None:
    """Send notifications that an invocation starts; warn after several that saved nothing."""
    record = work.run.record
    stuck = ""
    if record.starts >= _STUCK_STARTS:
        where = f"epoch {record.started_after}" if record.started_after >= 0 else "init"
        stuck = (
            f"this is start {record.starts} after {where}, and none before it has saved anything "
            "further: each ended before its next save; save more often ('checkpoint: {every: "
            "1ep}', or '50 records' within an epoch), make epochs shorter, or ask for more time "
            "or memory"
        )
        work.listen(Noted(stuck, "warning"))
    targets = (*work.job.notify, *work.options.notify)
    if work.options.announce is not None:
        work.options.announce(targets, path, stuck)
    elif targets:
        text = "notify: no news is sent, as no process watches this one; use 'jobrun run' for that"
        work.listen(Noted(text, "warning"))


def _build_stop_requests(work: Invocation, session: Session) -> StopRequests:
    request = work.run.path / REQUEST_NAME
    request.unlink(missing_ok=True)
    request.with_name(SENDER_NAME).unlink(missing_ok=True)
    return StopRequests(
        session.request_stop,
        grace_s=work.options.grace_s,
        time_s=work.options.time_s,
        deadline_s=_deadline_s(work),
        request=request,
    )


def _deadline_s(work: Invocation) -> float | None:
    """Return how many seconds the deadline, less its margin, leaves an invocation, or None."""
    deadline = work.job.deadline
    if deadline is None:
        return None
    remaining = time_left(deadline, os.environ, time.time())
    if remaining is None:
        work.listen(Noted("deadline: auto: no batch system reports one, so there is no deadline"))
        return None
    text = f"deadline: {remaining.seconds:.0f} s left ({remaining.source}), all saved by "
    work.listen(Noted(f"{text}{deadline.margin_s:g} s before"))
    return max(0.0, remaining.seconds - deadline.margin_s)


def _run_loop(
    work: Invocation,
    session: Session,
    saver: Saver,
    requests: StopRequests,
    resumed: ResumePoint | None,
    midway: mid_epoch_saver.MidEpochSaver | None,
) -> Progress:
    profiler = work.options.profiler
    meter = profiler.meter_for(work.job) if profiler else None
    places = parse_node_map(work.job.cluster, work.options.places)
    context = RunContext(
        work.job.seed,
        str(work.run.path),
        str(work.folder),
        work.listen,
        meter,
        places,
        node_files(work.job, work.store, work.run),
        work.code,
        work.job.adapt,
    )
    session.open(work.job.cluster, context)
    again = f"jobrun resume {work.run.handle(work.options.run_dir)}"
    losses = _build_failover(work, session, saver, requests, midway)
    limits = RunLimits(work.added_stop, work.options.max_epochs, again, midway, losses)
    seeded = _seed_group(work) if resumed is None else None
    runner = JobRunner(work.job, session, saver, requests, work.listen, limits, work.account)
    return runner.run(resumed, seeded)


def _build_failover(
    work: Invocation,
    session: Session,
    saver: Saver,
    requests: StopRequests,
    midway: mid_epoch_saver.MidEpochSaver | None,
) -> NodeFailover | None:
    """Build the ``NodeFailover`` of an invocation; return None without ``max_failures``."""
    if not work.options.max_failures:
        return None
    accept = (*work.run.record.accepted, *work.options.accept)
    saves = SavedState(work.job, work.store, saver, accept, midway)
    return NodeFailover(session, saves, requests, work.listen, work.options.max_failures)


def _build_saver(
    work: Invocation,
    session: Session,
    handlers: tuple[MetadataHandler, ...],
    saved: int,
    requests: StopRequests,
) -> Saver:
    if not handlers:
        return NoSaver()
    builder = work.options.upload or open_upload(work.run, work.job, work.folder, requests)
    target = CheckpointTarget(work.store, handlers, work.lock, builder, work.run.path)
    if isinstance(handlers[0], RunMetadata):
        target = replace(target, record_deletions=handlers[0].record_deletions)
    return CheckpointSaver(
        work.job,
        session,
        target,
        _run_identity(work),
        work.listen,
        saved,
        lambda: requests.insisted,
        work.account,
    )


def _run_identity(work: Invocation) -> RunIdentity:
    record = work.run.record
    return RunIdentity(
        record.run_id, record.generation, record.spec_digest, dict(record.environment)
    )


def _build_mid_epoch_saver(
    work: Invocation,
    handlers: tuple[MetadataHandler, ...],
    saver: Saver,
    requests: StopRequests,
    entry: SafePoint | None,
) -> mid_epoch_saver.MidEpochSaver | None:
    """Build an invocation's mid-epoch saver; return None if its job saves only whole epochs."""
    run_metadata = next(iter(handlers), None)
    if not (isinstance(run_metadata, RunMetadata) and (work.job.checkpoint.every_records or entry)):
        return None
    target = CheckpointTarget(work.store, handlers, work.lock, None, work.run.path)
    hooks = mid_epoch_saver.MidEpochHooks(
        saver, run_metadata.written_within, requests, work.listen, work.account
    )
    return mid_epoch_saver.MidEpochSaver(work.job, target, _run_identity(work), hooks, entry)


def _result(work: Invocation, code: int, saved: int, faults: tuple[Fault, ...]) -> RunResult:
    reason = "; ".join(fault.message for fault in faults)
    return RunResult(code, str(work.run.path), saved, reason, faults)


def _record_end(work: Invocation, status: Status, result: RunResult, started: float) -> None:
    """Write how an invocation ended to ``run.json``, and emit ``RunEnded``.

    Raises:
        RunLostError: E355, the run is not there any more; nothing is written in its place.
    """
    written = contextlib.suppress(JobrunError) if status == "failed" else contextlib.nullcontext()
    with written:
        work.lock.check()
        work.run.write(
            status=status, epoch=result.epoch, exit_code=result.exit_code, reason=result.reason
        )
    if work.recorder is not None:
        work.recorder.close()
    seconds = time.monotonic() - started
    work.listen(RunEnded(status, result.epoch, seconds, result.reason))


def _seed_group(work: Invocation) -> TaskGroup | None:
    if not work.run.record.parent:
        return None
    from jobrun.runner.fork_first_state import seed_group  # noqa: PLC0415

    return seed_group(work.run, work.job)


def _count_starts(before: RunRecord, plan: RecoveryPlan) -> int:
    """Count this invocation and those before it that started from the same epoch and died."""
    # A run that ended in good order has fulfilled its stop requests.
    died = before.status in ("running", "failed")
    return before.starts + 1 if died and before.started_after == plan.epoch else 1


def record_start(
    run: Run,
    present: Authored,
    job: Job,
    plan: RecoveryPlan,
    options: RunOptions,
    code: CodeDigests,
) -> Run:
    """Record in ``run.json`` and ``spec/`` that an invocation starts, and the job it runs."""
    recorded, data = run.record.resolved_digest, run.record.data
    present_data = fingerprint_data(job, Path(present.folder), data)
    staged = needs_recording(run, present)
    if staged:
        recorded = stage_authored(run.path, present, job)
    run = run.write(
        status="running",
        epoch=plan.epoch,
        started_after=plan.epoch,
        starts=_count_starts(run.record, plan),
        exit_code=None,
        reason="",
        generation=plan.generation,
        folder=os.path.relpath(present.folder, run.path),
        spec_digest=digest_authored(present),
        params=recordable_params(present),
        seed=job.seed,
        # Values given at an earlier start stay given, even when the recorded spec contains them.
        given=tuple(dict.fromkeys((*run.record.given, *list_given(present)))),
        resolved_digest=recorded,
        limit_epochs=options.epochs or run.record.limit_epochs,
        accepted=tuple(dict.fromkeys((*run.record.accepted, *options.accept))),
        callables=code.sources,
        packages=code.packages,
        provenance=collect_provenance(present),
        data=present_data if plan.epoch == FROM_INIT else keep_of_init(data, present_data),
        file_system=find_file_system(run.path),
        variables=present.environment_digests,
        environment=describe_environment(),
        host=os.uname().nodename,
        version=__version__,
    )
    if staged:
        install_authored(run.path, present)
    return run


# RunStarted is one line of events.jsonl; no display lists more tasks one by one.
MOST_TASKS = 500


def task_facts(job: Job) -> tuple[TaskFacts, ...]:
    """Describe each task (group, name, node, needs) for the event that starts an invocation."""
    tasks = tuple(
        TaskFacts(group.name, task.name, task.node, task.needs)
        for group in job.groups
        for task in group.tasks
    )
    return tasks if len(tasks) <= MOST_TASKS else ()


class EventFanOut(Struct, frozen=True):
    """A listener that passes each event to the run's logs, and to all other listeners.

    Attributes:
        logs: The run's.
        sinks: Take an event, and return warnings.
        others: The listeners of the invocation.
    """

    logs: RunLogs
    sinks: list[Callable[[Event], list[str]]]
    others: list[Listener]

    def __call__(self, event: Event) -> None:
        """Pass an event of an invocation to its logs and listeners."""
        self.logs(event)
        notes: list[Event] = []
        for sink in self.sinks:
            notes += [Noted(words, "warning") for words in sink(event)]
        for note in notes:
            self.logs(note)
        if self.logs.unreported:
            notes += [Noted(words, "warning") for words in self.logs.take_losses()]
        try:
            for other in self.others:
                other(event)
                for note in notes:
                    other(note)
        except (OSError, ValueError):
            # A closed pipe or terminal ends the display, never the run.
            self.others.clear()


@contextlib.contextmanager
def fan_out_events(
    run: Run, job: Job, listener: Listener, generation: int, options: RunOptions
) -> Iterator[EventFanOut]:
    """Open an invocation's logs and listeners; yield a function that passes events to all."""
    names = tuple(dict.fromkeys((*job.listeners, *options.listeners)))
    with contextlib.ExitStack() as stack:
        logs = stack.enter_context(contextlib.closing(RunLogs(run.path, job, generation)))
        sinks: list[Callable[[Event], list[str]]] = []
        if names:
            # Lazy: most jobs have none.
            from jobrun.runner.listeners.listener_processes import ListenerFanOut  # noqa: PLC0415

            facts = {
                "job": job.name,
                "name": run.path.name,
                "run_id": run.record.run_id,
                "params": dict(job.params),
            }
            listeners = ListenerFanOut(run.path, names, facts, options.keep)
            sinks.append(stack.enter_context(contextlib.closing(listeners)))
        yield EventFanOut(logs, sinks, [listener])


def report_warnings(warnings: tuple[Fault, ...], listen: Listener) -> None:
    """Emit the warnings found before an invocation starts as ``Noted`` events."""
    for fault in warnings:
        listen(Noted(f"{fault.message} ({fault.mend})", "warning"))


def report_changes(
    changes: tuple[Change, ...], listen: Listener, resized: ResizePlan | None = None
) -> None:
    """Emit a ``Noted`` event for each change (spec, code, data) before an invocation."""
    for change in changes:
        level = "info" if change.kind in {"safe", "declared safe"} else "warning"
        listen(Noted(f"changed ({change.kind}): {change}", level))
    for family in resized.families if resized else ():
        listen(Noted(str(family)))
