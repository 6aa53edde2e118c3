"""One invocation of a run: recover, open a session, run the loop, write down how it ended.

The only module that puts the session, the store, the journal and the loop together.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from jobrun.checkpoint.metadata import MetadataHandler
from jobrun.checkpoint.store import CheckpointStore
from jobrun.core.errors import (
    ExpectationError,
    Fault,
    InterruptedRunError,
    JobrunError,
    StoppedEarlyError,
)
from jobrun.core.events import Listener, Noted, RunEnded, RunStarted
from jobrun.graph.conditions import StopAfterEpochs
from jobrun.graph.types import Job
from jobrun.runner.authored import Authored, digest_of, write_authored
from jobrun.runner.commit import Identity, Place
from jobrun.runner.datalock import expect_locked
from jobrun.runner.deadline import time_left
from jobrun.runner.drift import check_drift
from jobrun.runner.entering import EntryPlan
from jobrun.runner.environment import describe_environment
from jobrun.runner.filesystem import file_system
from jobrun.runner.fingerprints import data_fingerprints
from jobrun.runner.lineage import adopted, seeds
from jobrun.runner.lock import RunLock
from jobrun.runner.logs import cut_metrics, trim_metrics
from jobrun.runner.loop import JobRunner, Limits, Resumed
from jobrun.runner.losses import Losses, Saves
from jobrun.runner.mapping import places_of
from jobrun.runner.metadata import Guarded, RunMetadata, told_choice
from jobrun.runner.midway import Hooks, MidwaySaver, midway_store, read_midpoint
from jobrun.runner.places import node_files, store_of, upload_of
from jobrun.runner.preflight import callable_digests, probe_directory, refuse
from jobrun.runner.progress import Progress
from jobrun.runner.prospect import look_ahead, noted
from jobrun.runner.record import Status
from jobrun.runner.recover import FROM_THE_START, Recovery
from jobrun.runner.repartition import stood
from jobrun.runner.rundir import Run
from jobrun.runner.saver import CheckpointSaver, NoSaver, Saver
from jobrun.runner.settings import RunOptions, RunResult
from jobrun.runner.signals import REQUEST_NAME, StopRequests
from jobrun.runner.stopping import total_epochs
from jobrun.runner.storedtypes import expect_stored_types
from jobrun.runner.taskfacts import task_facts
from jobrun.runner.telling import tell_changes, tell_lineage, tell_warnings, telling
from jobrun.runner.trust import expect_own_unless
from jobrun.runtime.midway import Midpoint
from jobrun.session.base import RunContext, Session
from jobrun.session.open import open_session
from jobrun.version import __version__

_STATUS: dict[type[JobrunError], Status] = {
    ExpectationError: "finished",
    StoppedEarlyError: "stopped",
    InterruptedRunError: "interrupted",
}


@dataclass(frozen=True, slots=True)
class Invocation:
    """What an invocation works with.

    Attributes:
        folder: The spec's folder, absolute.
        ended_code: The exit code of a run that had finished before.
    """

    run: Run
    job: Job
    folder: Path
    lock: RunLock
    options: RunOptions
    store: CheckpointStore
    listen: Listener
    ended_code: int = 0

    @property
    def added_stop(self) -> tuple[StopAfterEpochs, ...]:
        """The stop item of ``--epochs``, which belongs to the run."""
        epochs = self.run.record.limit_epochs
        return (StopAfterEpochs(epochs, "--epochs"),) if epochs else ()


def begin(
    run: Run,
    job: Job,
    lock: RunLock,
    options: RunOptions,
    listener: Listener,
    warnings: tuple[Fault, ...] = (),
) -> RunResult:
    """Run a new run to its end. The lock is held; ``run.json`` is there.

    Raises:
        JobrunError: It did not end in good order; ``run.json`` says so too.
    """
    run = run.write(environment=describe_environment())
    store = store_of(run, job, run.folder)
    own = RunMetadata(store, run.path, run.record.run_id)
    with telling(run, job, listener, 0) as listen:
        tell_warnings(warnings, listen)
        work = Invocation(run, job, run.folder, lock, options, store, listen)
        if not job.checkpoint.enabled:
            listen(Noted("checkpoint: none: this run cannot be resumed", "warning"))
            return _run(work, (), None)
        with own.opened(listen):
            tell_lineage(run, listen)
            others = (Guarded(options.metadata),) if options.metadata else ()
            return _run(work, (own, *others), adopted(run, job))


def go_on(
    run: Run,
    present: Authored,
    job: Job,
    lock: RunLock,
    options: RunOptions,
    listener: Listener,
) -> RunResult:
    """Continue a run. The lock is held.

    ::

        choose the epoch                    # reads only
        refuse drift, and what is missing   # reads only
        do what the choice asks for         # journal first, then moves
        write down what is run now
        run the loop from that epoch

    Raises:
        JobrunError: It is refused, or did not end in good order.
    """
    expect_own_unless(run.path, trust=options.trust)
    found = look_ahead(run, present, job, options)
    plan, own, other = found.plan, found.own, found.other
    accept = (*run.record.accepted, *options.accept)
    commands = _choices(run, options)
    check_drift(
        found.changes, strict=options.strict, accept=accept, commands=commands,
        explained=found.explained,
    )  # fmt: skip
    refuse(found.faults)
    unpinned = expect_locked(present, job)
    is_whole = plan.epoch != FROM_THE_START and not own.entry.records
    if is_whole and digest_of(present) != run.record.spec_digest:
        moved, nodes = found.resized.types, found.resized.nodes
        expect_stored_types(job, Path(present.folder), found.store, plan.epoch, moved, nodes)
    warnings = found.faults + unpinned + probe_directory(run.path)
    with telling(run, job, listener, plan.generation) as listen, own.opened(listen):
        own.recover(listen)
        listen(told_choice(found.chosen))
        tell_changes(found.changes, listen, found.resized)
        tell_warnings(warnings, listen)
        before = run.record
        run = _update(run.write(resized=noted(before, found)), present, job, plan, options)
        ended = before.status == "finished"
        code = (before.exit_code or 0) if ended else 0
        work = Invocation(run, job, Path(present.folder), lock, options, found.store, listen, code)
        resumed, entry = _resumed(work, plan, own.entry, ended=ended)
        if other and resumed:
            # A kill may have come between the save and this.
            other.written(plan.epoch, plan.generation)
        return _run(work, (own, other) if other else (own,), resumed, entry)


def _choices(run: Run, options: RunOptions) -> tuple[str, str]:
    """The two commands to choose from when something has drifted."""
    words, handle = options.given, run.handle(options.run_dir)
    spec = words[1:] if words[:1] == ("--spec",) else words
    return (
        shlex.join(("jobrun", "resume", handle, *words)),
        shlex.join(("jobrun", "fork", handle, *spec)),
    )


def _run(
    work: Invocation,
    handlers: tuple[MetadataHandler, ...],
    resumed: Resumed | None,
    entry: Midpoint | None = None,
) -> RunResult:
    """Run the loop and write down how it ended, whatever happens."""
    started = time.monotonic()
    epoch = resumed.progress.epoch if resumed else FROM_THE_START
    saved = FROM_THE_START if resumed and resumed.adopted else epoch
    total = total_epochs(work.job.stop + work.added_stop)
    name, path, tasks = work.run.name, str(work.run.path), task_facts(work.job)
    work.listen(RunStarted(name, work.job.name, path, epoch, total, tasks))
    with (
        contextlib.closing(open_session(work.options.session)) as session,
        _requests(work, session) as requests,
    ):
        saver = _saver(work, session, handlers, saved, requests)
        midway = _midway(work, handlers, saver, requests, entry)
        try:
            progress = _loop(work, session, saver, requests, resumed, midway)
        except JobrunError as error:
            status = _STATUS.get(type(error), "failed")
            result = _result(work, error.exit_code, saver.saved, error.faults)
            _close_books(work, status, result, started)
            if status == "failed":
                raise
            return result
        except BaseException as error:
            fault = Fault("E379", f"{type(error).__name__}: {error}")
            _close_books(work, "failed", _result(work, 70, saver.saved, (fault,)), started)
            raise
        # Finished before, and no epoch was added: the code is what it was.
        code = work.ended_code if progress.epoch == epoch else 0
        reason = "; ".join(progress.stopping)
        result = RunResult(code, str(work.run.path), progress.epoch, reason)
        _close_books(work, "finished", result, started)
    return result


def _requests(work: Invocation, session: Session) -> StopRequests:
    request = work.run.path / REQUEST_NAME
    request.unlink(missing_ok=True)
    return StopRequests(
        session.request_stop,
        grace_s=work.options.grace_s,
        time_s=work.options.time_s,
        deadline_s=_deadline_s(work),
        request=request,
    )


def _deadline_s(work: Invocation) -> float | None:
    """In how many seconds everything must be saved, and say so; None for no deadline."""
    deadline = work.job.deadline
    if deadline is None:
        return None
    left = time_left(deadline, os.environ, time.time())
    if left is None:
        work.listen(Noted("deadline: auto: no batch system tells one; it ends when it ends"))
        return None
    text = f"deadline: {left.seconds:.0f} s left ({left.source}), all saved by "
    work.listen(Noted(f"{text}{deadline.margin_s:g} s before"))
    return max(0.0, left.seconds - deadline.margin_s)


def _loop(
    work: Invocation,
    session: Session,
    saver: Saver,
    requests: StopRequests,
    resumed: Resumed | None,
    midway: MidwaySaver | None,
) -> Progress:
    profiler = work.options.profiler
    meter = profiler.meter_for(work.job) if profiler else None
    places = places_of(work.job.cluster, work.options.places)
    context = RunContext(
        work.job.seed, str(work.run.path), str(work.folder), work.listen, meter, places,
        node_files(work.job, work.store, work.run),
    )  # fmt: skip
    session.open(work.job.cluster, context)
    again = f"jobrun resume {work.run.handle(work.options.run_dir)}"
    losses = _losses(work, session, saver, requests, midway)
    limits = Limits(work.added_stop, work.options.max_epochs, again, midway, losses)
    seeded = seeds(work.run, work.job) if resumed is None else None
    return JobRunner(work.job, session, saver, requests, work.listen, limits).run(resumed, seeded)


def _losses(
    work: Invocation,
    session: Session,
    saver: Saver,
    requests: StopRequests,
    midway: MidwaySaver | None,
) -> Losses | None:
    """Who goes back after the loss of a node; None where losses are not to be borne."""
    if not work.options.max_failures:
        return None
    accept = (*work.run.record.accepted, *work.options.accept)
    saves = Saves(work.job, work.store, saver, accept, midway)
    return Losses(session, saves, requests, work.listen, work.options.max_failures)


def _saver(
    work: Invocation,
    session: Session,
    handlers: tuple[MetadataHandler, ...],
    saved: int,
    requests: StopRequests,
) -> Saver:
    if not handlers:
        return NoSaver()
    builder = work.options.upload or upload_of(work.run, work.job, work.folder, requests)
    place = Place(work.store, handlers, work.lock, builder, work.run.path)
    return CheckpointSaver(
        work.job, session, place, _identity(work), work.listen, saved, lambda: requests.insisted
    )


def _identity(work: Invocation) -> Identity:
    one = work.run.record
    return Identity(one.run_id, one.generation, one.spec_digest, dict(one.environment))


def _midway(
    work: Invocation,
    handlers: tuple[MetadataHandler, ...],
    saver: Saver,
    requests: StopRequests,
    entry: Midpoint | None,
) -> MidwaySaver | None:
    """Who saves between two records; None where nothing is saved or entered there."""
    own = next(iter(handlers), None)
    if not (isinstance(own, RunMetadata) and (work.job.checkpoint.every_records or entry)):
        return None
    place = Place(work.store, handlers, work.lock, None, work.run.path)
    hooks = Hooks(saver, own.written_within, requests, work.listen)
    return MidwaySaver(work.job, place, _identity(work), hooks, entry)


def _result(work: Invocation, code: int, saved: int, faults: tuple[Fault, ...]) -> RunResult:
    reason = "; ".join(fault.message for fault in faults)
    return RunResult(code, str(work.run.path), saved, reason, faults)


def _close_books(work: Invocation, status: Status, result: RunResult, started: float) -> None:
    """Write the end into ``run.json``; after a failure that must not hide the failure."""
    written = contextlib.suppress(JobrunError) if status == "failed" else contextlib.nullcontext()
    with written:
        work.run.write(
            status=status, epoch=result.epoch, exit_code=result.exit_code, reason=result.reason
        )
    seconds = time.monotonic() - started
    work.listen(RunEnded(status, result.epoch, seconds, result.reason))


def _resumed(
    work: Invocation, plan: Recovery, entry: EntryPlan, *, ended: bool
) -> tuple[Resumed | None, Midpoint | None]:
    """What the loop starts from, None for init; and where it enters the epoch after that."""
    path, job = work.run.path, work.job
    if plan.epoch == FROM_THE_START:
        trim_metrics(path, plan.epoch)
        return adopted(work.run, job), None
    store, epoch, midpoint = work.store, plan.epoch, None
    if entry.records:
        store, epoch = midway_store(store, entry.records), entry.epoch
    manifest = store.manifest(epoch)
    if entry.records:
        midpoint, metrics_bytes = read_midpoint(job, manifest, store.path(epoch))
        cut_metrics(path, metrics_bytes)
    else:
        trim_metrics(path, epoch)
    progress, load, unknown = stood(job, manifest, store.path(epoch))
    accept = (*work.run.record.accepted, *work.options.accept, *unknown)
    return Resumed(progress, load, accept, ended=ended), midpoint


def _update(
    run: Run,
    present: Authored,
    job: Job,
    plan: Recovery,
    options: RunOptions,
) -> Run:
    """Write down what is run from here on."""
    digest = digest_of(present)
    if digest != run.record.spec_digest:
        write_authored(run.path, present, job)
    return run.write(
        status="running",
        epoch=plan.epoch,
        exit_code=None,
        reason="",
        generation=plan.generation,
        folder=os.path.relpath(present.folder, run.path),
        spec_digest=digest,
        limit_epochs=options.epochs or run.record.limit_epochs,
        accepted=tuple(dict.fromkeys((*run.record.accepted, *options.accept))),
        callables=callable_digests(job, Path(present.folder)),
        data=data_fingerprints(job, Path(present.folder), run.record.data),
        file_system=file_system(run.path),
        variables=present.environment_digests,
        environment=describe_environment(),
        host=socket.gethostname(),
        version=__version__,
    )
