"""The contract holds for a package that is installed, and finds what breaks it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from jobrun.ops.table import OPERATORS
from jobrun.tools.contract import OperatorContract, known_of, prepared

MODULE = """
import numpy as np

from jobrun.ops.definition import OpDef
from jobrun.ops.known import Known


def double(x):
    return np.asarray(x) * 2


def _rule(given):
    return Known(given.dtype("x"), given.shape("x"))


twice = OpDef("twice", "(x, /)", "jobrun_extra:double", "two times x", "twice([1.0, 2.0])",
              rule=_rule)
"""
TESTS = """
import pytest

from jobrun.tools.contract import OperatorContract
from jobrun_extra import twice


@pytest.mark.parametrize("operator", [twice], ids=lambda one: one.name)
class TestMine(OperatorContract):
    pass
"""
SPEC = """\
jobrun: 1
name: extra
init: [{task: a, steps: ['x = ones(3)']}]
epoch: [{task: b, steps: ['x = twice(x)', {op: twice, in: [x], out: y}, 'x = x + 0 * y']}]
metrics: {top: max(x)}
stop: [{epochs: 3}]
expect: [max(x) == 8]
"""


@pytest.fixture
def site(tmp_path):
    """A directory with an installed package that adds an operator."""
    folder = tmp_path / "site"
    info = folder / "jobrun_extra-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "jobrun_extra.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jobrun-extra\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[jobrun.operators]\ntwice = jobrun_extra:twice\n")
    return folder


def _python(site, folder, *words):
    program = [sys.executable, *words]
    return subprocess.run(program, cwd=folder, env={"PYTHONPATH": f"{site}", "PATH": "/usr/bin"},
                          capture_output=True, text=True, check=False)  # fmt: skip


@pytest.mark.long
def test_an_installed_package_keeps_the_contract(site, tmp_path):
    (tmp_path / "test_mine.py").write_text(TESTS)

    done = _python(site, tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout


@pytest.mark.long
def test_a_spec_uses_its_operator_in_both_forms(site, tmp_path):
    (tmp_path / "extra.yaml").write_text(SPEC)

    done = _python(site, tmp_path, "-m", "jobrun", "run", "extra.yaml")

    assert done.returncode == 0, done.stdout + done.stderr


def test_its_rule_is_heeded_before_the_run(site, tmp_path):
    (tmp_path / "extra.yaml").write_text(SPEC.replace("'x = x + 0 * y'", "'z = y @ ones(4)'"))

    done = _python(site, tmp_path, "-m", "jobrun", "validate", "extra.yaml")

    assert done.returncode == 3
    assert "E290" in done.stderr


CHECKS = [name for name in dir(OperatorContract) if name.startswith("test_")]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", ["add", "segment_sum", "add_at", "count_down", "meshgrid", "diff"])
def test_built_in_operators_keep_it(name, check):
    getattr(OperatorContract(), check)(OPERATORS[name])


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        ("test_it_says_in_one_line_what_it_does", {"doc": "It adds."}),
        ("test_its_example_gives_as_many_results_as_it_says", {"results": 3}),
        ("test_its_implementation_takes_its_parameters", {"signature": "(x1, /)"}),
        ("test_it_changes_the_arguments_it_says_and_no_others", {"mutates": (0,)}),
        ("test_its_example_gives_as_many_results_as_it_says", {"example": "sum([1])"}),
        ("test_its_rule_says_what_its_example_gives", {"rule": lambda _: known_of(1.5)}),
    ],
)
def test_what_breaks_it_is_found(check, broken):
    with pytest.raises(AssertionError):
        getattr(OperatorContract(), check)(replace(OPERATORS["add"], **broken))


def test_a_view_that_is_not_declared_is_found():
    ravel = replace(OPERATORS["ravel"], shares_memory=False)

    with pytest.raises(AssertionError, match="shares memory"):
        OperatorContract().test_its_result_is_no_view_unless_it_says_so(ravel)


def test_an_example_is_run_up_to_its_call():
    call = prepared(OPERATORS["add_at"])

    assert call.args[0].tolist() == [1.0, 1.0, 1.0]
