"""The rules say what numpy does, and that something does not fit only where numpy raises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.ops.arguments import Arguments, MisfitError
from jobrun.ops.families.creation import CREATION
from jobrun.ops.known import Known, scalar
from jobrun.ops.table import OPERATORS
from tests.support.sampling import LONG, QUICK, agree, calls, done, known_of, said

RULED = [one for one in CREATION if one.rule is not None]


@QUICK
@given(st.data())
def test_a_rule_says_what_numpy_does(data):
    operator = data.draw(st.sampled_from(RULED))
    arguments, rest = data.draw(calls(operator))

    found = said(operator, arguments, rest)

    assert list(agree(found, done(operator, arguments, rest))) == []


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("operator", CREATION, ids=lambda one: one.name)
@LONG
@given(st.data())
def test_each_rule_says_what_numpy_does(operator, data):
    arguments, rest = data.draw(calls(operator))

    found = said(operator, arguments, rest)

    assert list(agree(found, done(operator, arguments, rest))) == []


def _rule(name, **arguments):
    return OPERATORS[name].rule(Arguments({key: known_of(one) for key, one in arguments.items()}))


def test_a_negative_length_is_told():
    with pytest.raises(MisfitError, match="-1"):
        _rule("zeros", shape=(2, -1))


def test_several_numbers_are_not_one():
    with pytest.raises(MisfitError, match="not one number"):
        _rule("float", x=np.ones(3))


def test_a_shape_of_unknown_lengths_is_known_in_part():
    lengths = Known(items=(scalar(2), Known("int64", (), weak=True)))

    found = OPERATORS["zeros"].rule(Arguments({"shape": lengths}))

    assert found == Known("float64", (2, None))
