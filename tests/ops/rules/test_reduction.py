"""The rules say what numpy does, and that something does not fit only where numpy raises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.ops.arguments import Arguments, MisfitError
from jobrun.ops.families.reduction import REDUCTION
from jobrun.ops.known import Known
from jobrun.ops.table import OPERATORS
from tests.support.sampling import LONG, QUICK, agree, calls, done, known_of, said

RULED = [one for one in REDUCTION if one.rule is not None]


@QUICK
@given(st.data())
def test_a_rule_says_what_numpy_does(data):
    operator = data.draw(st.sampled_from(RULED))
    arguments, rest = data.draw(calls(operator))

    found = said(operator, arguments, rest)

    assert list(agree(found, done(operator, arguments, rest))) == []


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("operator", REDUCTION, ids=lambda one: one.name)
@LONG
@given(st.data())
def test_each_rule_says_what_numpy_does(operator, data):
    arguments, rest = data.draw(calls(operator))

    found = said(operator, arguments, rest)

    assert list(agree(found, done(operator, arguments, rest))) == []


def _rule(name, **arguments):
    return OPERATORS[name].rule(Arguments({key: known_of(one) for key, one in arguments.items()}))


def test_an_axis_that_is_not_there_is_told():
    with pytest.raises(MisfitError, match="no axis 2"):
        _rule("sum", a=np.ones((2, 3)), axis=2)


def test_an_axis_is_left_out_or_kept():
    assert _rule("mean", a=np.ones((2, 3), np.float32), axis=-1) == Known("float32", (2,))
    assert _rule("max", a=np.ones((2, 3)), axis=0, keepdims=True) == Known("float64", (1, 3))
