"""Fixtures of the conformance cases, and the table of outcomes at the end of the session."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.conformance import Stage, Trial
from tests.support.conformance_cases import CASES, RULES

_TEST = re.compile(r"tests/conformance/.*::test_case_(\d{3})_")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Callable[[str], Stage]]:
    """Opens a session for a spec; closed at the end of the test."""
    opened: list[Stage] = []

    def open_stage(text: str) -> Stage:
        folder = tmp_path / str(len(opened))
        folder.mkdir()
        opened.append(Stage(folder, text))
        return opened[-1]

    yield open_stage
    for one in opened:
        one.session.close()


@pytest.fixture
def trial(tmp_path: Path) -> Callable[[str], Trial]:
    """Puts a spec where it can be run, each in a folder of its own."""

    def make_trial(text: str) -> Trial:
        folder = tmp_path / f"trial-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        return Trial(folder, text)

    return make_trial


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
        told = f": {RULES[int(rule)]}" if rule != outcome else ""
        terminalreporter.write_line(f"{name:42} {mark}{outcome}{told}")


def _cases(reporter: pytest.TerminalReporter, status: str) -> set[str]:
    reports = reporter.stats.get(status, [])
    found = (_TEST.search(getattr(report, "nodeid", "")) for report in reports)
    return {match.group(1) for match in found if match}
