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
from tests.support.sampling import LONG, QUICK, agree, calls, done, predict

FAMILIES = {
    "creation": CREATION, "elementwise": ELEMENTWISE, "linear": LINEAR, "reduction": REDUCTION,
    "searching": SEARCHING, "shaping": SHAPING, "signals": SIGNALS,
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
@QUICK
@given(st.data())
def test_a_rule_says_what_numpy_does(family, data):
    ruled = [candidate for candidate in FAMILIES[family] if candidate.rule is not None]
    operator = data.draw(st.sampled_from(ruled))
    arguments, variadic = data.draw(calls(operator))

    inferred = predict(operator, arguments, variadic)

    assert list(agree(inferred, done(operator, arguments, variadic))) == []


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "operator",
    [candidate for family in FAMILIES.values() for candidate in family],
    ids=lambda candidate: candidate.name,
)
@LONG
@given(st.data())
def test_each_rule_says_what_numpy_does(operator, data):
    arguments, variadic = data.draw(calls(operator))

    inferred = predict(operator, arguments, variadic)

    assert list(agree(inferred, done(operator, arguments, variadic))) == []
