from __future__ import annotations

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.runtime.codegen.expressions import format_value, join_text
from jobrun.values.kinds.counter import Counter
from tests.support.tables import each_case


@each_case(
    ("value", "spec", "expected"),
    [
        (1.23456, ".3g", "1.23"), (3, "03d", "003"), ("a", ">3", "  a"), (True, "", "True"),
        (np.float32(0.5), ".2f", "0.50"), (np.float64(0.1), "", "0.1"),
        (np.array(2.0), ".1f", "2.0"),
        (np.array([1.0, 2.5]), ".2f", "[1.00 2.50]"), (np.array([1, 2]), "", "[1 2]"),
        (Counter(5), "", "5"), (Counter(5), "02d", "05"), (float("inf"), ".3g", "inf"),
    ],
)  # fmt: skip
def test_values_are_filled_in(value, spec, expected):
    assert format_value(value, spec) == expected


@pytest.mark.parametrize(("value", "spec"), [("a", ".3f"), (1.5, "d"), (np.array(["a"]), ".2f")])
def test_a_format_that_does_not_fit_is_an_error(value, spec):
    with pytest.raises(TaskFailedError) as caught:
        format_value(value, spec)

    assert caught.value.faults[0].code == "E213"
    assert f"'{spec}'" in caught.value.faults[0].message


def test_parts_are_joined():
    assert join_text("a", 1, "b") == "a1b"
    assert join_text() == ""
