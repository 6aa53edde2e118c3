"""The rules say what numpy does, and that something does not fit only where numpy raises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.ops.arguments import Arguments, MisfitError
from jobrun.ops.families.searching import SEARCHING
from jobrun.ops.known import Known
from jobrun.ops.table import OPERATORS
from tests.support.sampling import LONG, QUICK, agree, calls, done, known_of, said

RULED = [one for one in SEARCHING if one.rule is not None]


@QUICK
@given(st.data())
def test_a_rule_says_what_numpy_does(data):
    operator = data.draw(st.sampled_from(RULED))
    arguments, rest = data.draw(calls(operator))

    found = said(operator, arguments, rest)

    assert list(agree(found, done(operator, arguments, rest))) == []


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("operator", SEARCHING, ids=lambda one: one.name)
@LONG
@given(st.data())
def test_each_rule_says_what_numpy_does(operator, data):
    arguments, rest = data.draw(calls(operator))

    found = said(operator, arguments, rest)

    assert list(agree(found, done(operator, arguments, rest))) == []


def _rule(name, **arguments):
    return OPERATORS[name].rule(Arguments({key: known_of(one) for key, one in arguments.items()}))


def test_floats_are_no_indices():
    with pytest.raises(MisfitError, match="float64"):
        _rule("take", a=np.ones(3), indices=np.ones(2))


def test_how_many_values_differ_is_not_known_before():
    assert _rule("unique", ar=np.ones(5, np.int32)) == Known("int32", (None,))
