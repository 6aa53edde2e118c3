"""No case is dropped: each has a test, or a reason why it has none."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import ROOT, environment
from tests.support.compiling import codes_of
from tests.support.conformance_cases import CASES, PENDING, RULES

OUTCOME = re.compile(r"same|by rule ([1-9]|[12]\d|30)|by design|not (yet|applicable): \S.*")


def _tests() -> dict[str, list[str]]:
    """The docstrings of the tests of each case."""
    docstrings: dict[str, list[str]] = {}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_case_"):
                name = node.name.removeprefix("test_case_")
                docstrings.setdefault(_case(name), []).append(ast.get_docstring(node) or "")
    return docstrings


def _case(test: str) -> str:
    """The case that a test is of: its name is the case's, or begins with it."""
    matches = [name for name in CASES if test == name or test.startswith(f"{name}_")]
    assert len(matches) == 1, f"no case is called {test}"
    return matches[0]


def test_all_recorded_cases_are_listed_with_an_outcome():
    assert len(CASES) == 68
    assert [name for name, outcome in CASES.items() if not OUTCOME.fullmatch(outcome)] == []


def test_each_case_has_a_test_or_a_reason_and_never_both():
    without = {name for name, outcome in CASES.items() if outcome.startswith("not ")}

    assert set(_tests()) == set(CASES) - without


def test_a_test_says_why_it_expects_something_else():
    docstrings = _tests()

    silent = {
        name: outcome
        for name, outcome in CASES.items()
        if outcome.startswith("by ")
        and not re.search(rf"\b{outcome}\b", " ".join(docstrings[name]), re.IGNORECASE)
    }

    assert silent == {}


def test_the_listed_rules_are_those_that_hold():
    held = {int(outcome.split()[-1]) for outcome in CASES.values() if outcome.startswith("by rule")}

    assert held == set(RULES)


def test_a_case_that_waits_for_a_feature_names_one_that_is_pending():
    waiting = {
        outcome.removeprefix("not yet: ")
        for outcome in CASES.values()
        if outcome.startswith("not yet")
    }

    assert waiting == set(PENDING)


def test_pending_features_are_refused_until_their_cases_are_tested(tmp_path):
    codes = {feature: set(codes_of(tmp_path, PENDING[feature])) for feature in PENDING}

    assert codes == {feature: {"E190"} for feature in PENDING}


@pytest.mark.long
@pytest.mark.parametrize("workers", [[], ["-n", "1"]])
def test_the_table_is_printed_wherever_the_cases_were_run(workers):
    output = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--benchmark-disable",
            *workers,
            "tests/conformance/test_names.py",
        ],
        cwd=ROOT,
        env=environment(PYTEST_ADDOPTS=None),
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert "= conformance =" in output
    assert re.search(r"^012_task_names +by rule 3: names come from the spec", output, re.MULTILINE)
    assert re.search(r"^014_setup_order_single +\(not run\) same$", output, re.MULTILINE)
    assert "not applicable: " in output
