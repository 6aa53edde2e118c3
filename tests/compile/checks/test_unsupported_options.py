"""Options that are not supported are refused, never ignored."""

from __future__ import annotations

import pytest

from tests.support.compiling import codes_of, faults_of

CASES = {
    "records": "checkpoint: {every: 100 records}\nepoch: [{task: t, steps: [x = 1]}]",
}


@pytest.mark.parametrize("case", CASES)
def test_each_is_one_fault_with_its_place(tmp_path, case):
    (fault,) = faults_of(tmp_path, CASES[case])

    assert fault.code == "E190"
    assert "not supported" in fault.message
    assert fault.where is not None
    assert fault.where.line > 0


def test_what_changes_nothing_is_allowed(tmp_path):
    assert codes_of(tmp_path, "checkpoint: {async: false}") == []
    assert codes_of(tmp_path, "epoch: [{task: t, on_error: fail, steps: [x = 1]}]") == []
