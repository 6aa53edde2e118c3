"""The contract holds for a package that is installed, and finds what breaks it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from msgspec.structs import replace

from jobrun.ops.operator_table import OPERATORS
from jobrun.testing.operators import OperatorContract, describe_value, prepare_example

MODULE = """
import numpy as np

from jobrun.ops.definition import OpDef
from jobrun.ops.abstract_values import Known


def double(x):
    return np.asarray(x) * 2


def _rule(given):
    return Known(given.dtype("x"), given.shape("x"))


twice = OpDef("twice", "(x, /)", "jobrun_extra:double", "two times x", "twice([1.0, 2.0])",
              rule=_rule)
"""
TESTS = """
import pytest

from jobrun.testing.operators import OperatorContract
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
    return subprocess.run(
        program,
        cwd=folder,
        env={"PYTHONPATH": f"{site}", "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
def test_an_installed_package_keeps_the_contract(site, tmp_path):
    (tmp_path / "test_mine.py").write_text(TESTS)

    done = _python(site, tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 passed" in done.stdout


@pytest.mark.long
def test_a_spec_uses_its_operator_in_both_forms(site, tmp_path):
    (tmp_path / "extra.yaml").write_text(SPEC)

    done = _python(site, tmp_path, "-m", "jobrun", "run", "extra.yaml")

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_its_rule_is_heeded_before_the_run(site, tmp_path):
    (tmp_path / "extra.yaml").write_text(SPEC.replace("'x = x + 0 * y'", "'z = y @ ones(4)'"))

    done = _python(site, tmp_path, "-m", "jobrun", "validate", "extra.yaml")

    assert done.returncode == 3
    assert "E290" in done.stderr


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        ("test_its_doc_is_one_line_without_a_full_stop", {"doc": "It adds."}),
        ("test_its_example_returns_as_many_results_as_declared", {"results": 3}),
        ("test_its_signature_is_that_of_its_implementation", {"signature": "(x1, /)"}),
        ("test_no_parameter_reaches_beyond_values", {"signature": "(x1, x2, /, *, out)"}),
        ("test_it_changes_the_arguments_that_it_declares_and_no_others", {"mutates": (0,)}),
        ("test_its_example_ends_with_a_call_of_it", {"example": "sum([1])"}),
        ("test_it_declares_whether_its_result_may_share_memory", {"shares_memory": True}),
        (
            "test_its_rule_predicts_dtype_and_shape_of_its_example",
            {"rule": lambda _: describe_value(1.5)},
        ),
    ],
)
def test_what_breaks_it_is_found(check, broken):
    with pytest.raises(AssertionError):
        getattr(OperatorContract(), check)(replace(OPERATORS["add"], **broken))


@pytest.mark.parametrize(
    "check",
    [
        "test_it_declares_whether_its_result_may_share_memory",
        "test_it_shares_memory_with_no_arguments_unless_declared",
    ],
)
def test_a_view_that_is_not_declared_is_found(check):
    ravel = replace(OPERATORS["ravel"], shares_memory=False)

    with pytest.raises(AssertionError):
        getattr(OperatorContract(), check)(ravel)


def test_an_example_is_run_up_to_its_call():
    call = prepare_example("add_at", OPERATORS["add_at"].example)

    assert call.args[0].tolist() == [1.0, 1.0, 1.0]
