from __future__ import annotations

import threading

import pytest

from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.report_steps import Reporter
from tests.support.step_bench import Bench


@pytest.fixture
def bench():
    with Bench() as step_bench:
        yield step_bench


def test_without_an_interval_passing_only_the_last_runs(bench):
    ran: list[str] = []
    reporter = Reporter(bench.run, 3600, lambda: ran.append("timed"), lambda: ran.append("last"))

    reporter.start()
    reporter.finish()

    assert ran == ["last"]


def test_a_report_in_progress_ends_before_the_last_one_starts(bench):
    ran: list[str] = []
    inside, go_on = threading.Event(), threading.Event()

    def timed() -> None:
        ran.append("timed starts")
        inside.set()
        go_on.wait()
        ran.append("timed ends")

    reporter = Reporter(bench.run, 0.001, timed, lambda: ran.append("last"))
    reporter.start()
    inside.wait()
    finishing = threading.Thread(target=reporter.finish)
    finishing.start()
    assert "last" not in ran
    go_on.set()
    finishing.join()

    assert ran[-2:] == ["timed ends", "last"]
    assert ran.count("last") == 1


def test_an_error_is_reported_and_ends_the_timed_reports(bench):
    def timed() -> None:
        raise ValueError("broken")

    reporter = Reporter(bench.run, 0.001, timed, lambda: None)
    reporter.start()
    while not bench.run.body.cancelled:
        threading.Event().wait(0.001)
    reporter.finish()

    assert [str(error) for error in bench.run.errors] == ["broken"]


def test_a_cancelled_report_is_no_error(bench):
    entered = threading.Event()

    def timed() -> None:
        entered.set()
        raise CancelledError

    reporter = Reporter(bench.run, 0.001, timed, lambda: None)
    reporter.start()
    entered.wait()
    reporter.finish()

    assert bench.run.errors == []


def test_an_error_of_the_last_one_is_raised(bench):
    def last() -> None:
        raise ValueError("last broke")

    reporter = Reporter(bench.run, 3600, lambda: None, last)
    reporter.start()

    with pytest.raises(ValueError, match="last broke"):
        reporter.finish()
