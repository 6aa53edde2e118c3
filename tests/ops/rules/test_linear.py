"""The rules say what numpy does, and that something does not fit only where numpy raises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.ops.arguments import Arguments, MisfitError
from jobrun.ops.families.linear import LINEAR
from jobrun.ops.table import OPERATORS
from tests.support.sampling import LONG, QUICK, agree, calls, done, known_of, said

RULED = [one for one in LINEAR if one.rule is not None]


@QUICK
@given(st.data())
def test_a_rule_says_what_numpy_does(data):
    operator = data.draw(st.sampled_from(RULED))
    arguments, rest = data.draw(calls(operator))

    found = said(operator, arguments, rest)

    assert list(agree(found, done(operator, arguments, rest))) == []


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("operator", LINEAR, ids=lambda one: one.name)
@LONG
@given(st.data())
def test_each_rule_says_what_numpy_does(operator, data):
    arguments, rest = data.draw(calls(operator))

    found = said(operator, arguments, rest)

    assert list(agree(found, done(operator, arguments, rest))) == []


def _rule(name, **arguments):
    return OPERATORS[name].rule(Arguments({key: known_of(one) for key, one in arguments.items()}))


@pytest.mark.parametrize(
    ("name", "arguments", "part"),
    [
        ("matmul", {"x1": np.ones((2, 3)), "x2": np.ones((4, 5))}, "3 is not 4"),
        ("solve", {"a": np.eye(3), "b": np.ones(2)}, "3 is not 2"),
        ("cholesky", {"a": np.ones((2, 3))}, "not square"),
        ("eigh", {"a": np.ones(3)}, "at least 2 axes"),
        ("svd", {"a": np.ones((2, 2), np.float16)}, "float16"),
    ],
)
def test_what_no_values_can_mend_is_told(name, arguments, part):
    with pytest.raises(MisfitError, match=part):
        _rule(name, **arguments)


def test_all_results_of_a_decomposition_are_known():
    assert [one.shape for one in _rule("svd", a=np.ones((4, 2)), full_matrices=False)] == [
        (4, 2), (2,), (2, 2),
    ]  # fmt: skip
