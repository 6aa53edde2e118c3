"""Collecting faults."""

from __future__ import annotations

import pytest

from jobrun.compile.faults import Faults, SpecPosition
from jobrun.core.errors import Fault, Origin, SpecError

HERE = SpecPosition("epoch/t/steps[0]", Origin("job.yaml", 3, 5))


def test_all_errors_are_raised_as_one_in_their_order():
    faults = Faults()
    faults.error("E180", "unknown blob 'x'", "make it first", HERE)
    faults.error("E181", "'y' is read before it is made", "make it before", HERE)

    with pytest.raises(SpecError) as caught:
        faults.raise_if_any()

    assert [fault.code for fault in caught.value.faults] == ["E180", "E181"]
    assert caught.value.faults[0].where == HERE.origin
    assert caught.value.faults[0].path == HERE.path


def test_warnings_alone_raise_nothing():
    faults = Faults()
    faults.warn("W131", "this step is never reached", "remove it", HERE)

    faults.raise_if_any()

    assert [warning.severity for warning in faults.warnings()] == ["warning"]


def test_the_same_fault_at_the_same_position_is_reported_once():
    faults = Faults()
    for path in ("epoch/a/steps[0].f[0]", "epoch/b/steps[0].f[0]"):
        faults.error("E180", "unknown blob 'x'", "make it first", SpecPosition(path, HERE.origin))

    with pytest.raises(SpecError) as caught:
        faults.raise_if_any()

    assert len(caught.value.faults) == 1


def test_without_a_line_the_path_tells_faults_apart():
    faults = Faults()
    for path in ("a", "b"):
        faults.error(
            "E180", "unknown blob 'x'", "make it first", SpecPosition(path, Origin("--set #1"))
        )

    with pytest.raises(SpecError) as caught:
        faults.raise_if_any()

    assert len(caught.value.faults) == 2


def test_faults_that_others_raise_are_collected():
    faults = Faults()

    with faults.collecting():
        raise SpecError(Fault("E100", "cannot be read"))

    with pytest.raises(SpecError, match="cannot be read"):
        faults.raise_if_any()


def test_a_fault_about_a_name_points_at_its_first_mention():
    text = "epoch:\n  - y = max(x.T) + ax + x * xs\n"
    faults = Faults({"job.yaml": text})
    spec_position = SpecPosition("epoch/t/steps[0]", Origin("job.yaml", 2, 5, 25))

    faults.error("E180", "unknown blob 'x'", "", spec_position, "x")
    faults.error("E180", "unknown blob 'q'", "", spec_position, "q")

    with pytest.raises(SpecError) as raised:
        faults.raise_if_any()
    at = [(fault.where.column, fault.where.length) for fault in raised.value.faults]
    assert at == [(13, 1), (5, 25)]
