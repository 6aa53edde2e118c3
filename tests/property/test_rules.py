"""The rules say what numpy does, and that something does not fit only where numpy raises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.ops.declarations.creation import CREATION
from jobrun.ops.declarations.elementwise import ELEMENTWISE
from jobrun.ops.declarations.linear import LINEAR
from jobrun.ops.declarations.reduction import REDUCTION
from jobrun.ops.declarations.searching import SEARCHING
from jobrun.ops.declarations.shaping import SHAPING
from jobrun.ops.declarations.signals import SIGNALS
from tests.support.sampling import LONG, QUICK, agree, calls, done, said

FAMILIES = {
    "creation": CREATION, "elementwise": ELEMENTWISE, "linear": LINEAR, "reduction": REDUCTION,
    "searching": SEARCHING, "shaping": SHAPING, "signals": SIGNALS,
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
@QUICK
@given(st.data())
def test_a_rule_says_what_numpy_does(family, data):
    ruled = [one for one in FAMILIES[family] if one.rule is not None]
    operator = data.draw(st.sampled_from(ruled))
    arguments, rest = data.draw(calls(operator))

    found = said(operator, arguments, rest)

    assert list(agree(found, done(operator, arguments, rest))) == []


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "operator", [one for family in FAMILIES.values() for one in family], ids=lambda one: one.name
)
@LONG
@given(st.data())
def test_each_rule_says_what_numpy_does(operator, data):
    arguments, rest = data.draw(calls(operator))

    found = said(operator, arguments, rest)

    assert list(agree(found, done(operator, arguments, rest))) == []
