from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from jobrun.core.failpoints import POINTS, VARIABLE, reach

PACKAGE = Path(__file__).parent.parent.parent / "jobrun"
PROGRAM = """
from jobrun.core.failpoints import reach
for round in (1, 2, 3):
    reach("checkpoint.renamed")
    print(round, flush=True)
"""


def run(value: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {VARIABLE: value, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_nothing_happens_without_the_variable():
    reach("checkpoint.renamed")


def test_the_process_dies_at_the_first_occurrence():
    done = run("checkpoint.renamed")

    assert done.returncode == -signal.SIGKILL
    assert done.stdout == ""


def test_the_process_dies_at_the_occurrence_that_is_named():
    done = run("checkpoint.renamed:3")

    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == ["1", "2"]


def test_another_point_does_not_kill():
    assert run("checkpoint.staged").returncode == 0


def test_a_misspelt_point_is_an_error_rather_than_a_test_without_a_crash():
    done = run("checkpoint.renamd")

    assert done.returncode == 1
    assert "checkpoint.renamd" in done.stderr


def test_the_list_holds_exactly_the_points_of_the_source():
    source = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))

    assert set(re.findall(r'\breach\("([^"]+)"\)', source)) == set(POINTS)
