"""How the benchmarks are run: a time for each, and what is said of one that does not keep it."""

from __future__ import annotations

import sys

import pytest

from tests.benchmarks import __main__ as benchmarks
from tests.benchmarks.__main__ import LIMITS_S, run_limited

# As a job that saves at SIGTERM, and whose program then continues.
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.run([sys.executable, "-c", "import time; time.sleep(600)"])
"""


def _run(program: str, limit_s: float) -> tuple[str, list[str]]:
    lines: list[str] = []
    ended = run_limited([sys.executable, "-c", program], limit_s, lines.append)
    return ended, lines


def test_all_of_them_end_within_a_quarter_of_an_hour():
    assert sum(LIMITS_S.values()) <= 15 * 60


def test_one_that_ends_has_its_rows_passed_on():
    assert _run("print('one'); print('two')", 60) == ("", ["one", "two"])


def test_one_that_fails_says_its_exit_code():
    assert _run("raise SystemExit(3)", 60) == ("failed with exit code 3", [])


def test_one_that_does_not_end_is_killed_with_what_it_has_started():
    # Its child holds the pipe of its output: the call would wait for it otherwise.
    assert _run(STUBBORN, 3)[0] == "did not end within 3 s"


@pytest.mark.parametrize(
    ("rows", "failed", "code"),
    [([], False, 0), (["MISSES 3 > 2", "did not end within 5 s"], False, 0), (["x"], True, 1)],
)
def test_only_a_benchmark_that_fails_fails_them_all(monkeypatch, rows, failed, code):
    monkeypatch.setattr(benchmarks, "bench", lambda name: (rows, failed))

    assert benchmarks.main(["startup"]) == code
