"""The rules say what numpy does, and that something does not fit only where numpy raises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.ops.arguments import Arguments, MisfitError
from jobrun.ops.families.elementwise import ELEMENTWISE
from jobrun.ops.table import OPERATORS
from tests.support.sampling import LONG, QUICK, agree, calls, done, known_of, said

RULED = [one for one in ELEMENTWISE if one.rule is not None]


@QUICK
@given(st.data())
def test_a_rule_says_what_numpy_does(data):
    operator = data.draw(st.sampled_from(RULED))
    arguments, rest = data.draw(calls(operator))

    found = said(operator, arguments, rest)

    assert list(agree(found, done(operator, arguments, rest))) == []


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("operator", ELEMENTWISE, ids=lambda one: one.name)
@LONG
@given(st.data())
def test_each_rule_says_what_numpy_does(operator, data):
    arguments, rest = data.draw(calls(operator))

    found = said(operator, arguments, rest)

    assert list(agree(found, done(operator, arguments, rest))) == []


def _rule(name, **arguments):
    return OPERATORS[name].rule(Arguments({key: known_of(one) for key, one in arguments.items()}))


def test_a_function_that_a_dtype_does_not_have_is_told():
    with pytest.raises(MisfitError, match="complex128"):
        _rule("floor_divide", x1=np.ones(2, complex), x2=2)


def test_shapes_that_cannot_be_broadcast_are_told():
    with pytest.raises(MisfitError, match="broadcast"):
        _rule("add", x1=np.ones((2, 3)), x2=np.ones(2))
