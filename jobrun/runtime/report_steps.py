"""Run report steps beside a body: at every interval, and once more after its end.

Never at time 0. The last report starts after the body's last step and before any exit
block, also after a failure; it is the same for a body of a microsecond and of a week.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple

from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.context.frame import Frame
from jobrun.runtime.context.group_run_state import GroupRun
from jobrun.runtime.group_plan import ReportPlan
from jobrun.runtime.step_errors import attempt_after_failure, run_block

Work = Callable[[], object]


class Reporter:
    """Runs one report step: a thread waits for the interval; the body's thread runs the last one.

    Args:
        run: The group run.
        interval_s: Between the end of one report and the start of the next.
        report: Runs the report's steps once.
        last: The same, but also after the run was cancelled.
    """

    def __init__(self, run: GroupRun, interval_s: float, report: Work, last: Work) -> None:
        self._run = run
        self._interval_s = interval_s
        self._report = report
        self._last = last
        self._ended: SimpleQueue[None] = SimpleQueue()
        self._exited: SimpleQueue[None] = SimpleQueue()

    def start(self) -> None:
        """Start the thread that runs a report's steps at intervals."""
        self._run.start(self._at_intervals, lambda: self._exited.put(None))

    def finish(self) -> None:
        """Wait for report steps in progress, then run them a last time in the calling thread.

        Raises:
            JobrunError: The last report failed.
        """
        self._ended.put(None)
        self._exited.get()
        self._last()

    def _at_intervals(self) -> None:
        while True:
            try:
                self._ended.get(timeout=self._interval_s)
            except Empty:
                pass
            else:
                return
            try:
                self._report()
            except CancelledError:
                return
            except BaseException as error:  # noqa: BLE001 - raised by the group run
                self._run.fail(error)
                return


class RunningReport(NamedTuple):
    """A running report step, and the view that its last run gets."""

    reporter: Reporter
    last: Frame


def start_reports(plans: Sequence[ReportPlan], frame: Frame) -> list[RunningReport]:
    """Start a thread for each report, to run its steps at intervals beside a task or group."""
    reports = [_report(plan, frame) for plan in plans]
    for report in reports:
        report.reporter.start()
    return reports


def finish_reports(reports: Sequence[RunningReport], run: GroupRun, *, failed: bool) -> bool:
    """Run report steps a last time after their task or group ended; return if all succeeded."""

    def finish(report: RunningReport) -> bool:
        report.last.failed = failed
        report.reporter.finish()
        return True

    outcomes = [
        attempt_after_failure(run, lambda finished=report: finish(finished), failed=failed)  # type: ignore[misc]
        for report in reports
    ]
    return all(outcomes)


def _report(plan: ReportPlan, frame: Frame) -> RunningReport:
    timed = frame.at(plan.block.path)
    last = frame.for_cleanup(plan.block.path, failed=False)
    reporter = Reporter(
        frame.run,
        plan.interval_s,
        lambda: run_block(plan.block, timed),
        lambda: run_block(plan.block, last),
    )
    return RunningReport(reporter, last)
