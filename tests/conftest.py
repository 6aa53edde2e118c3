"""For all tests: signals and random examples they meet; and what is told when they have run.

How the conformance cases came out is told here and not in their folder, since under xdist the
process that prints collects nothing: it knows the hooks of this folder, and of the tests what
their reports say.
"""

from __future__ import annotations

import gc
import os
import re
import signal
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from jobrun.runner.saving import time_budget
from jobrun.runtime.context.library_settings import LibrarySettings
from tests.support.conformance_cases import CASES, RULES

# The same examples every time, so that a failure is one of the change that is tested; to look
# for new ones, set JOBRUN_HUNT=1.
# How long an example takes to draw says nothing on a machine with other work.
settings.register_profile(
    "jobrun",
    max_examples=100 if "JOBRUN_HUNT" in os.environ else 50,
    derandomize="JOBRUN_HUNT" not in os.environ,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("jobrun")

# Whoever starts the tests in the background, or with nohup, has these ignored; what is tested would
# heed that, and never hear of the signals that tests send.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        _is_interrupt = _number == signal.SIGINT
        signal.signal(_number, signal.default_int_handler if _is_interrupt else signal.SIG_DFL)

# Which epochs 'every: auto' saves depends on how busy the machine is; what is tested here by runs
# in this process is not that, but for the tests of the time budget itself.
ALLOWANCES_S = (time_budget.FIRST_ALLOWANCE_S, time_budget.ALLOWANCE_S)
time_budget.FIRST_ALLOWANCE_S = time_budget.ALLOWANCE_S = 1e6

_TEST = re.compile(r"tests/conformance/.*::test_case_(\d{3})_")


_LONG_TEST_S = 600


_left_out: list[str] = []
_uncollected: list[str] = []


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note a module that could not be collected."""
    if report.failed:
        _uncollected.append(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a test that failed at once: who ends the tests early, or has a limit, sees it, too."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\nfailed: {report.nodeid}", flush=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End with 2 if a module could not be collected, as without xdist, and not with 1."""
    if _uncollected:
        session.exitstatus = pytest.ExitCode.INTERRUPTED


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests of GPUs out where there is none; give long tests more time than the others."""
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if on_gpu and not has_gpu():
        _left_out.extend(item.nodeid for item in on_gpu)
        config.hook.pytest_deselected(items=on_gpu)
        items[:] = [item for item in items if item not in on_gpu]
    for item in items:
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_LONG_TEST_S))


@pytest.fixture(autouse=True)
def library_settings() -> Iterator[None]:
    """Take back what a test changes in libraries (torch's threads, jax's config), if it does.

    A later run in this process would save that with its state, and one in another would not.
    """
    before = LibrarySettings().capture()
    yield
    after = LibrarySettings()
    if after.capture() != before:
        after.restore(before)


def has_gpu() -> bool:
    """Return whether ``torch.cuda`` has a device; torch is imported where a driver is only."""
    if not Path("/proc/driver/nvidia").exists() or find_spec("torch") is None:
        return False
    return bool(import_module("torch").cuda.is_available())


def pytest_report_collectionfinish() -> list[str]:
    """Name the tests that were left out for want of a GPU."""
    return [f"left out, torch.cuda has no device: {name}" for name in _left_out]


def pytest_collection_finish() -> None:
    """Keep what was collected out of every later collection of garbage."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line per case: what was observed on Caffe2, and how it stands here."""
    passed = _cases(terminalreporter, "passed")
    failed = _cases(terminalreporter, "failed") | _cases(terminalreporter, "error")
    if not passed | failed:
        return
    terminalreporter.section("conformance")
    for name, outcome in CASES.items():
        number = name[:3]
        mark = "FAILED " if number in failed else ""
        if not mark and number not in passed and not outcome.startswith("not "):
            mark = "(not run) "
        rule = outcome.removeprefix("by rule ")
        rule_text = f": {RULES[int(rule)]}" if rule != outcome else ""
        terminalreporter.write_line(f"{name:42} {mark}{outcome}{rule_text}")


def _cases(reporter: pytest.TerminalReporter, status: str) -> set[str]:
    reports = reporter.stats.get(status, [])
    matches = (_TEST.search(getattr(report, "nodeid", "")) for report in reports)
    return {match.group(1) for match in matches if match}
