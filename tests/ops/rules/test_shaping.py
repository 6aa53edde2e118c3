"""The rules say what numpy does, and that something does not fit only where numpy raises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.ops.arguments import Arguments, MisfitError
from jobrun.ops.families.shaping import SHAPING
from jobrun.ops.table import OPERATORS
from tests.support.sampling import LONG, QUICK, agree, calls, done, known_of, said

RULED = [one for one in SHAPING if one.rule is not None]


@QUICK
@given(st.data())
def test_a_rule_says_what_numpy_does(data):
    operator = data.draw(st.sampled_from(RULED))
    arguments, rest = data.draw(calls(operator))

    found = said(operator, arguments, rest)

    assert list(agree(found, done(operator, arguments, rest))) == []


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("operator", SHAPING, ids=lambda one: one.name)
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
        ("reshape", {"a": np.ones(6), "shape": (4, 2)}, "6 items"),
        ("concatenate", {"arrays": [np.ones((2, 3)), np.ones((2, 4))]}, "cannot be joined"),
        ("stack", {"arrays": [np.ones(2), np.ones(3)]}, "cannot be stacked"),
        ("broadcast_to", {"array": np.ones(2), "shape": (3,)}, "cannot be broadcast"),
        ("squeeze", {"a": np.ones((2, 1)), "axis": 0}, "not of length 1"),
        ("split", {"ary": np.ones(5), "indices_or_sections": 2}, "equal parts"),
    ],
)
def test_what_no_values_can_mend_is_told(name, arguments, part):
    with pytest.raises(MisfitError, match=part):
        _rule(name, **arguments)
