"""Values that the format of a data file cannot hold are refused before the run."""

from __future__ import annotations

import pytest

from jobrun.core.errors import JobrunError
from jobrun.formats.load_save import write_members
from tests.property.statement_judge import MEANINGS
from tests.support.compiling import codes_of, compile_text

VALUES = (
    "1.5", "True", "'text'", "[1, 2]", "(1, 2)", "zeros(())", "zeros(3)", "zeros((2, 3))",
    "zeros((2, 3, 4))", "zeros(0)", "zeros(3, dtype=complex64)", "zeros(3, dtype=float16)",
    "zeros(3, dtype=bool_)", "array(['a', 'b'])", "2j", "[zeros(2), zeros(3)]",
)  # fmt: skip
FILES = ("x.npy", "x.npz::m", "x.h5::m", "x.csv", "x.csv::m", "x.tsv")


@pytest.mark.parametrize("value", VALUES)
def test_values_are_refused_as_they_would_be_when_they_are_saved(tmp_path, value):
    for file in FILES:
        path, _, member = file.partition("::")
        try:
            write_members(str(tmp_path / path), {member: eval(value, dict(MEANINGS))})
            late = []
        except JobrunError as error:
            late = [error.faults[0].code]
        text = f"exit: [{{task: t, steps: [\"x = {value}\", {{save: {{x: '{file}'}}}}]}}]"

        assert codes_of(tmp_path, text) == late, file


def test_columns_of_a_table_have_one_length(tmp_path):
    steps = "a = zeros(3), b = zeros(4), {save: {a: 't.csv::a', b: 't.csv::b'}}"

    assert codes_of(tmp_path, f"exit: [{{task: t, steps: [{steps}]}}]") == ["E286"]


def test_a_save_that_may_not_be_reached_is_warned_of(tmp_path):
    text = "exit: [{task: t, steps: ['x = [1, 2]', {if: w > 9, then: [{save: {x: x.npy}}]}]}]"

    assert [fault.code for fault in compile_text(tmp_path, text).warnings] == ["W138"]
