"""A long column beside a short row: what numpy gives, in the memory order that it gives."""

from __future__ import annotations

import operator

import numpy as np
import pytest

from jobrun.graph.expr import Compare
from jobrun.runtime.codegen import compile_expression
from jobrun.runtime.columns import compare, has_column, known_row
from jobrun.runtime.usage import BlockNames
from tests.support.expressions import expression

SIGNS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
LEFT = {
    "integers": np.arange(3000) % 7,
    "floats with nan": np.where(np.arange(3000) % 5, np.arange(3000) % 7 / 2, np.nan),
    "short": np.arange(9),
    "bool": np.arange(3000) % 2 == 0,
    "uint8": (np.arange(3000) % 250).astype(np.uint8),
    "complex": (np.arange(3000) % 7).astype(np.complex128),
    "every other": (np.arange(6000) % 7)[::2],
}
RIGHT = {
    "row": np.arange(5), "negative": np.arange(-3, 3), "one": np.arange(1), "none": np.arange(0),
    "long": np.arange(40), "floats": np.array([0.5, 1.5, 3.0]),
}  # fmt: skip


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("left", LEFT)
def test_the_result_is_numpys_and_lies_as_numpys(sign, left):
    column = LEFT[left][:, None]
    for right in RIGHT.values():
        found, wanted = compare(sign)(column, right), SIGNS[sign](column, right)

        assert found.dtype == wanted.dtype
        assert found.strides == wanted.strides
        assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("left", "right"),
    [(3, np.arange(4)), (np.ones((2000, 2, 1)), np.arange(4)), (np.ones((2000, 1)), 1.5),
     (np.ones((2000, 1)), np.ones((2000, 3)))],
)  # fmt: skip
def test_what_is_no_column_beside_a_row_is_numpys_affair(left, right):
    assert np.array_equal(compare("<")(left, right), left < right)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("x[:, None] == arange(3)", True), ("x[None] == y", False), ("x[:, 0] == y", False),
     ("x[...] == y", False), ("x == y", False), ("x[:, None] < y < z", False)],
)  # fmt: skip
def test_columns_are_seen_in_the_text(text, is_one):
    found = expression(text)
    assert isinstance(found, Compare)
    assert has_column(found) is is_one


def test_a_row_that_is_the_same_each_time_is_made_once_and_nobody_can_change_it():
    row = known_row(expression("arange(4)"))

    assert row is known_row(expression("arange(4)"))
    assert row.tolist() == [0, 1, 2, 3]
    assert not row.flags.writeable
    assert [known_row(expression(text)) for text in ("arange(n)", "arange(99)", "arange(0)")] == [
        None, None, None,
    ]  # fmt: skip


def test_code_compares_so():
    code = compile_expression(expression("x[:, None] == arange(3)"), BlockNames())
    assert any("compare" in name for name in code.__globals__)
