"""Run the loop of epochs of a job: init, epochs until a stop condition holds, download, exit.

When things run, and what is kept; where and how is the session's matter.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from jobrun.core.codes import Code
from jobrun.core.errors import (
    ExpectationError,
    Fault,
    InterruptedRunError,
    JobrunError,
    StoppedEarlyError,
    TaskFailedError,
    UsageError,
)
from jobrun.core.events import (
    EpochEnded,
    GroupEnded,
    GroupRetried,
    GroupStarted,
    Listener,
    Measured,
    Noted,
)
from jobrun.core.failpoints import reach
from jobrun.core.waiting import wait_until
from jobrun.graph.conditions import StopCondition
from jobrun.graph.query import group_outputs, kept_names, outputs_read_later
from jobrun.graph.types import Job, OutputRef, Retry, TaskGroup
from jobrun.runner.identity.constant_digests import digest_constants, require_same_constants
from jobrun.runner.locate_faults import locate_faults
from jobrun.runner.loop.conditions import (
    ProbeEvaluator,
    find_stop_reasons,
    is_nan,
    update_patience,
)
from jobrun.runner.loop.node_loss import NodeFailover
from jobrun.runner.saved_progress import Progress, Scalar
from jobrun.runner.saving.saver import Saver
from jobrun.runner.stop_requests import StopRequests
from jobrun.runner.time_account import TimeAccount
from jobrun.runtime.context.safe_point import SafePointHooks
from jobrun.session.base import (
    GroupCancelledError,
    NodeLostError,
    Outputs,
    Session,
    TasksStuckError,
)

if TYPE_CHECKING:
    from jobrun.runner.saving.mid_epoch_saver import MidEpochSaver


class ResumePoint(Struct, frozen=True):
    """The point that a resumed run starts from.

    Attributes:
        progress: As the manifest has it.
        load: The group that brings the stored state into the session.
        accept: Fields whose drift is accepted.
        ended: The run had finished: unless epochs are added, nothing is left to do.
        adopted: The state is another run's: it is saved here before anything else.
    """

    progress: Progress
    load: TaskGroup
    accept: tuple[str, ...] = ()
    ended: bool = False
    adopted: bool = False


class RunLimits(Struct, frozen=True):
    """What ends this invocation, or this run, besides the spec.

    Attributes:
        stop: Stop conditions added to those of the job.
        max_epochs: How many epochs this invocation may run; 0 for no limit.
        resume: The command that continues the run, for messages.
        midway: Saves between two records; None for no such saves.
        losses: Makes good for lost nodes; None where a loss ends the invocation.
    """

    stop: tuple[StopCondition, ...] = ()
    max_epochs: int = 0
    resume: str = "jobrun resume"
    midway: MidEpochSaver | None = None
    losses: NodeFailover | None = None


class JobRunner:
    """Runs one job in an open session, from its beginning or from a checkpoint, to its end.

    ::

        new run:   run init; load the seeds, if it is a fork; settle; save epoch 0
        resumed:   run init's rebuild tasks; load the checkpoint; settle
                   look again whether to stop
        until a stop condition holds, epoch by epoch:
            obey requests to end: save what is whole, and leave
            run the epoch group
            settle: bring every node's workspace to boundary form
            fail if a fail_if holds
            take the metrics; look at the stop conditions
            save, if it is due, or the last; the next epoch may begin before that is durable
        wait until all is durable; obey requests to end
        upload; run download; run exit
        fail if an expect does not hold
        wherever a node is lost: restart in this process from the newest durable state
    """

    def __init__(
        self,
        job: Job,
        session: Session,
        saver: Saver,
        requests: StopRequests,
        listen: Listener,
        limits: RunLimits,
        account: TimeAccount | None = None,
    ) -> None:
        self._job = job
        self._session = session
        self._saver = saver
        self._requests = requests
        self._listen = listen
        self._limits = limits
        self._account = account or TimeAccount()
        self._stop = (*job.stop, *limits.stop)
        self._kept_names = kept_names(job)
        self._kept_outputs = outputs_read_later(job)
        self._init_outputs = group_outputs(job.init)
        self._started = time.monotonic()
        self._elapsed_before_s = 0.0
        self._epochs_run = 0
        # The epoch that runs, or the one started from.
        self._epoch = 0

    def run(self, resumed: ResumePoint | None = None, seeds: TaskGroup | None = None) -> Progress:
        """Run the loop of epochs of a job to its end; return the progress after the last one.

        Args:
            resumed: What a resumed run starts from; None for a new one.
            seeds: (new) What puts blobs of another run over those that init has made.

        Raises:
            StoppedEarlyError: A request to end, or ``max_epochs``.
            InterruptedRunError: A request to end by SIGINT.
            ExpectationError: The job has ended, but an ``expect`` does not hold.
            TaskFailedError: A step failed, or a ``fail_if`` holds; the epoch was dropped.
            DriftError: A constant is not what it was.
        """
        start = resumed
        try:
            while True:
                try:
                    return self._run_from(start, seeds)
                except NodeLostError as error:
                    start = self._recover_from_loss(error, resumed)
        except (GroupCancelledError, TasksStuckError) as error:
            # Stuck tasks are a failure, unless a stop was requested: then the run ends as asked.
            if isinstance(error, TasksStuckError) and not self._requests.reason:
                raise
            self._saver.close()
            epoch = self._epoch
            description = f"epoch {epoch} was dropped"
            if self._limits.midway and self._limits.midway.stopped_at:
                description = (
                    f"epoch {epoch} is saved after {self._limits.midway.stopped_at} of its records"
                )
            if self._saver.saved >= epoch:
                description = f"what runs after epoch {epoch} was cut short"
            raise self._stopped(description) from error
        except JobrunError as error:
            placed = locate_faults(error, self._job)
            if placed is error:
                raise
            raise placed from error
        finally:
            # However the run ended, a save that has begun is completed first.
            self._saver.close()

    def _run_from(self, start: ResumePoint | None, seeds: TaskGroup | None) -> Progress:
        self._started = time.monotonic()
        self._epoch = start.progress.epoch if start else 0
        progress = self._resume(start) if start else self._begin(seeds)
        self._account.switch("computing")
        while not progress.stopping:
            self._stop_if_requested(progress, more_epochs=True)
            self._epoch = progress.epoch + 1
            progress = self._run_epoch(progress)
        if not (start and start.ended and self._epochs_run == 0):
            progress = self._saver.settle(progress)
            if self._limits.midway:
                self._limits.midway.clear()
            self._stop_if_requested(progress, more_epochs=False)
            self._finish(progress)
        return progress

    def _recover_from_loss(
        self, error: NodeLostError, first: ResumePoint | None
    ) -> ResumePoint | None:
        """Return where the epoch loop restarts after a lost node; None to run init again."""
        losses = self._limits.losses
        if losses is None:
            raise error
        if self._requests.reason:
            raise self._stopped(f"epoch {self._epoch} was dropped") from error
        self._account.switch("nodes")
        newest = losses.replace_lost_nodes(error)
        if newest is None:
            self._epochs_run = 0
            return first
        self._epochs_run -= max(0, self._epoch - 1 - newest.progress.epoch)
        ended = first is not None and first.ended
        accept = (*losses.saves.accept, *newest.unknown)
        return ResumePoint(newest.progress, newest.load, accept, ended=ended)

    def _begin(self, seeds: TaskGroup | None) -> Progress:
        self._account.switch("computing")
        outputs = self._run_group(self._job.init, 0, {})
        if seeds is not None:
            self._session.run(seeds, 0, {})
        reach("runner.init-ended")
        self._session.settle(self._kept_names)
        progress = Progress(
            elapsed_s=self._elapsed_s(),
            outputs=outputs,
            constants=digest_constants(self._job, self._session),
        )
        return self._saver.save(progress)

    def _resume(self, resumed: ResumePoint) -> Progress:
        from jobrun.graph.group_transforms import rebuild_group  # noqa: PLC0415 - of a resume

        progress = resumed.progress
        self._elapsed_before_s = progress.elapsed_s
        rebuilt = self._run_group(rebuild_group(self._job.init), 0, {})
        loaded = self._session.run(resumed.load, progress.epoch, {})
        if not resumed.adopted:
            self._saver.handle_load(progress, loaded)
        self._session.settle(self._kept_names)
        constants = digest_constants(self._job, self._session)
        require_same_constants(progress.constants, constants, resumed.accept)
        progress = replace(progress, outputs={**progress.outputs, **rebuilt}, constants=constants)
        if resumed.adopted:
            self._require_more_epochs(progress)
            progress = self._saver.save(progress)
        if self._limits.midway and self._limits.midway.is_entering:
            # The decision to run this epoch was made at the boundary, with another state.
            return replace(progress, stopping=())
        return replace(progress, stopping=self._stopping(progress))

    def _require_more_epochs(self, progress: Progress) -> None:
        """Refuse to begin the loop of a fork whose stop conditions hold before its first epoch.

        Raises:
            UsageError: E382, a stop condition holds.
        """
        reasons = self._stopping(progress)
        if reasons:
            raise UsageError.of(
                "E382",
                f"the fork would run no epoch: after epoch {progress.epoch} it is to stop already "
                f"({', '.join(reasons)})",
                "change what stops it, with --set PARAM=VALUE or another SPEC or a larger "
                "--epochs N; or begin with an earlier epoch: RUN@EPOCH",
            )

    def _run_epoch(self, before: Progress) -> Progress:
        started = time.monotonic()
        before = self._saver.handle_outcome(before)
        epoch = before.epoch + 1
        self._expect(before)
        midway = self._limits.midway
        points = midway.points(before) if midway else None
        from_init = {ref: v for ref, v in before.outputs.items() if ref in self._init_outputs}
        group_outputs = self._run_group(self._job.epoch, epoch, from_init, points=points)
        outputs = {**from_init, **group_outputs}
        reach("runner.epoch-ended")
        # Settled before probes read values, so that a resume reads the same bits.
        self._session.settle(self._kept_names)
        evaluator = ProbeEvaluator(self._session, outputs, epoch)
        self._check_fail_if(evaluator)
        metrics = self._measure(evaluator, epoch)
        # Not ``replace``, which takes longer than a trivial task.
        progress = Progress(
            epoch=epoch,
            elapsed_s=self._elapsed_s(),
            epoch_s=before.epoch_s,
            patience=update_patience(self._stop, before.patience, dict(metrics)),
            metrics=metrics,
            scores=before.scores,
            outputs=outputs,
            constants=before.constants,
            failed_saves=before.failed_saves,
        )
        stopping = self._stopping(progress)
        if stopping:
            self._session.settle(self._kept_names, final=True)
        progress = replace(progress, stopping=stopping, epoch_s=time.monotonic() - started)
        if progress.stopping or self._saver.is_due(progress):
            scores = self._scored(progress)
            if scores is not progress.scores:
                progress = replace(progress, scores=scores)
            progress = self._saver.save(progress)
        self._epochs_run += 1
        self._listen(EpochEnded(epoch, progress.epoch_s, metrics, progress.stopping))
        return progress

    def _finish(self, progress: Progress) -> None:
        self._requests.expect(None)
        self._tell_failed_saves(progress)
        epoch = progress.epoch
        self._saver.finish()
        gathered = self._run_group(self._job.download, epoch, progress.outputs, keep_all=True)
        reach("runner.download-ended")
        outputs = {**progress.outputs, **gathered}
        outputs |= self._run_group(self._job.exit, epoch, outputs, keep_all=True)
        reach("runner.exit-ended")
        evaluator = ProbeEvaluator(self._session, outputs, epoch)
        unmet = [probe for probe in self._job.expect if not evaluator.holds(probe)]
        if unmet:
            mend = "see the metrics of the run, or change the expectation"
            raise ExpectationError(
                *(
                    Fault("E364", f"'{probe.text}' does not hold", mend, probe.origin, probe.path)
                    for probe in unmet
                )
            )

    def _run_group(
        self,
        group: TaskGroup,
        epoch: int,
        outputs: Mapping[OutputRef, Any],
        *,
        keep_all: bool = False,
        points: SafePointHooks | None = None,
    ) -> dict[OutputRef, Any]:
        """Run one group in the loop of epochs; return the task outputs that are read later."""
        if self._requests.dropping:
            raise self._stopped(f"{group.name} was not run")
        if not (group.tasks or group.remote or group.setup):
            return {}
        started = time.monotonic()
        names = tuple(dict.fromkeys(task.name for task in group.tasks))
        self._listen(GroupStarted(group.name, epoch, names))
        self._account.begin_group()
        group_outputs = (
            run_with_retries(self._session, group, epoch, outputs, self._requests, self._listen)
            if points is None
            else self._session.run(group, epoch, outputs, points)
        )
        seconds = time.monotonic() - started
        self._account.end_group(seconds)
        self._listen(GroupEnded(group.name, epoch, seconds))
        return {
            ref: group_outputs[ref]
            for ref in group_outputs
            if keep_all or ref in self._kept_outputs
        }

    def _check_fail_if(self, evaluator: ProbeEvaluator) -> None:
        for probe in self._job.fail_if:
            if evaluator.holds(probe):
                mend = "the epoch was dropped; fix the job, then resume from the epoch before"
                raise TaskFailedError(
                    Fault("E365", f"'{probe.text}' holds", mend, probe.origin, probe.path)
                )

    def _measure(self, evaluator: ProbeEvaluator, epoch: int) -> tuple[tuple[str, Scalar], ...]:
        metrics = tuple((name, evaluator.scalar(name, probe)) for name, probe in self._job.metrics)
        for name, value in metrics:
            self._listen(Measured(name, value, epoch))
        return metrics

    def _scored(self, progress: Progress) -> tuple[tuple[int, float], ...]:
        """Return the loop's best epochs so far, with values of their ``keep_best`` metric."""
        metric, mode, count = self._job.checkpoint.keep_best
        value = dict(progress.metrics).get(metric)
        if value is None or isinstance(value, str) or is_nan(value):
            return progress.scores
        scores = (*progress.scores, (progress.epoch, value))
        best = sorted(
            scores, key=lambda score: (score[1] if mode == "min" else -score[1], score[0])
        )
        return tuple(sorted(best[:count]))

    def _stopping(self, progress: Progress) -> tuple[str, ...]:
        evaluator = ProbeEvaluator(self._session, progress.outputs, progress.epoch)
        return find_stop_reasons(self._stop, progress, evaluator.holds)

    def _stop_if_requested(self, progress: Progress, *, more_epochs: bool) -> None:
        """End the loop of epochs, after a save, if a stop was requested."""
        if more_epochs and progress.epoch_s > 0:
            self._requests.foresee(progress.epoch_s + self._saver.seconds)
        spent = self._limits.max_epochs and self._epochs_run >= self._limits.max_epochs
        if not (self._requests.reason or (more_epochs and spent)):
            return
        progress = self._saver.settle(progress)
        if self._saver.saved != progress.epoch and not self._requests.insisted:
            progress = self._saver.settle(self._saver.save(progress))
        self._tell_failed_saves(progress)
        raise self._stopped(f"epoch {progress.epoch} is the last that ran")

    def _tell_failed_saves(self, progress: Progress) -> None:
        count = progress.failed_saves
        if count:
            failed = "1 checkpoint" if count == 1 else f"{count} checkpoints"
            newest = self._saver.saved
            newest_text = f"the newest epoch that is saved is {newest}"
            if newest < 0:
                newest_text = "no epoch is saved, so there is nothing to resume from"
            text = f"{failed} could not be saved"
            text += f"; {newest_text}" if newest < progress.epoch else ""
            self._listen(Noted(text, "warning"))

    def _stopped(self, description: str) -> JobrunError:
        reason = self._requests.reason or f"--max-epochs {self._limits.max_epochs}"
        saved, mend = f"epoch {self._saver.saved} is saved", self._limits.resume
        if self._saver.saved < 0:
            saved = "nothing is saved"
            mend = "run it again: checkpoint is none"
            if self._job.checkpoint.enabled:
                mend = f"begin again with init: {self._limits.resume}"
        fault_of = InterruptedRunError.of if self._requests.interrupted else StoppedEarlyError.of
        code: Code = "E363" if self._requests.interrupted else "E362"
        return fault_of(code, f"stopped ({reason}): {description}, {saved}", mend)

    def _expect(self, before: Progress) -> None:
        # Mid-epoch saves keep the progress, however long the remaining epoch takes.
        known = before.epoch_s > 0 and self._limits.midway is None
        self._requests.expect(before.epoch_s + self._saver.seconds if known else None)

    def _elapsed_s(self) -> float:
        return self._elapsed_before_s + time.monotonic() - self._started


# Interval of the checks for a stop request while nothing runs.


def run_with_retries(
    session: Session,
    group: TaskGroup,
    epoch: int,
    outputs: Outputs,
    requests: StopRequests,
    listen: Listener,
) -> Outputs:
    """Run a group in the epoch loop; if a task with ``retry`` fails, restore blobs and rerun.

    ::

        keep what the group may change
        until it ends well:
            run it
            give up if a failure is of no task with a retry left, each counting its own
            report why, and wait the longest backoff of those that failed
            put back what was kept

    Random streams are keyed by names and by the epoch, so what a later attempt makes has the
    bits of an undisturbed one.

    Raises:
        GroupCancelledError: Someone asked to end before the next attempt.
        JobrunError: What failed last.
    """
    declared = {task.name: task.retry for task in group.tasks if task.retry and task.retry.most}
    if not declared:
        return session.run(group, epoch, outputs)
    start = session.snapshot(group)
    failures: Counter[str] = Counter()
    attempt = 1
    while True:
        try:
            return session.run(group, epoch, outputs)
        except TasksStuckError:
            raise
        except JobrunError as error:
            failures.update(error.tasks)
            chosen = _find_retries(error.tasks, declared, failures)
            if chosen is None:
                if attempt > 1:
                    listen(
                        Noted(
                            f"{_describe_failure(group, attempt, error)}; no retry is left",
                            "warning",
                        )
                    )
                raise
            wait_s = max(retry.backoff_s for retry in chosen)
            when = f"in {wait_s:g} s" if wait_s else "now"
            failure = _describe_failure(group, attempt, error)
            text = f"{failure}; it runs again {when}, from where it started"
            listen(Noted(text, "warning"))
            if wait_until(lambda: requests.reason, wait_s):
                raise GroupCancelledError(group.name) from error
        session.restore(start)
        listen(GroupRetried(group.name, epoch, attempt))
        attempt += 1


def _find_retries(
    failed: tuple[str, ...], declared: Mapping[str, Retry], failures: Counter[str]
) -> list[Retry] | None:
    """Return the ``Retry`` of each failed task of a group; None if one must not be retried."""
    chosen = []
    for name in failed:
        retry = declared.get(name)
        if retry is None or failures[name] > retry.most:
            return None
        chosen.append(retry)
    return chosen or None


def _describe_failure(group: TaskGroup, attempt: int, error: JobrunError) -> str:
    messages = "; ".join(f"{fault.path}: {fault.message}" for fault in error.faults)
    return f"attempt {attempt} of group '{group.name}' failed: {messages}"
