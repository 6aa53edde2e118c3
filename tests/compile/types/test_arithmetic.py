"""What is said of an operation is what Python and numpy give, for values of any kind."""

from __future__ import annotations

import operator
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.compile.types.arithmetic import (
    infer_binary,
    infer_comparison,
    infer_unary,
    require_truth_value,
)
from jobrun.ops.abstract_values import NONE, TEXT, Known, MisfitError, UnclearError, join, scalar
from tests.support.sampling import LONG, QUICK, agree, arrays, known_of

_BINARY = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "**": operator.pow, "@": operator.matmul,
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift,
    ">>": operator.rshift,
}  # fmt: skip
_COMPARE = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
    "!=": operator.ne,
}  # fmt: skip
_UNARY = {"-": operator.neg, "+": operator.pos, "~": operator.invert, "not": operator.not_}


def _said(find, *arguments):
    try:
        return find(*arguments)
    except MisfitError as error:
        return error
    except UnclearError:
        return None


def _done(function, *arguments):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(*arguments)
        except Exception as error:  # noqa: BLE001 - what it raises is the answer
            return error


def _agrees(sign, lhs, rhs):
    inferred = _said(infer_binary, known_of(lhs), sign, known_of(rhs))
    assert list(agree(inferred, _done(_BINARY[sign], lhs, rhs))) == []


@QUICK
@given(st.sampled_from(sorted(_BINARY)), arrays(), arrays())
def test_an_operation_on_two(sign, lhs, rhs):
    _agrees(sign, lhs, rhs)


@pytest.mark.long
@QUICK
@given(st.sampled_from(sorted(_BINARY)), arrays(), arrays(), arrays(), arrays())
def test_an_operation_on_either_of_two_and_either_of_two(sign, lhs, other_lhs, rhs, other_rhs):
    first = join(known_of(lhs), known_of(other_lhs))
    last = join(known_of(rhs), known_of(other_rhs))

    inferred = _said(infer_binary, first, sign, last)

    for lhs_case in (lhs, other_lhs):
        for rhs_case in (rhs, other_rhs):
            done = _done(_BINARY[sign], lhs_case, rhs_case)
            if isinstance(inferred, MisfitError) or not isinstance(done, Exception):
                assert list(agree(inferred, done)) == []


@QUICK
@given(st.sampled_from(sorted(_COMPARE)), arrays(), arrays())
def test_a_comparison(sign, lhs, rhs):
    inferred = _said(infer_comparison, known_of(lhs), sign, known_of(rhs))
    assert list(agree(inferred, _done(_COMPARE[sign], lhs, rhs))) == []


@pytest.mark.long
@QUICK
@given(st.sampled_from(sorted(_UNARY)), arrays())
def test_an_operation_on_one(sign, operand):
    inferred = _said(infer_unary, sign, known_of(operand))
    assert list(agree(inferred, _done(_UNARY[sign], operand))) == []


@pytest.mark.long
@pytest.mark.timeout(900)
@LONG
@given(st.data())
def test_operations_at_length(data):
    for _ in range(20):
        _agrees(
            data.draw(st.sampled_from(sorted(_BINARY))), data.draw(arrays()), data.draw(arrays())
        )


def test_text_is_joined_and_nothing_else():
    text = scalar("a")

    assert infer_binary(text, "+", text) == Known(TEXT, (), weak=True)
    for sign in ("%", "*", "-", "/"):
        with pytest.raises(MisfitError, match="is not supported for text"):
            infer_binary(text, sign, scalar(2))
    with pytest.raises(MisfitError, match="None"):
        infer_binary(Known(NONE, ()), "+", scalar(2))


def test_shapes_are_compared_by_their_values():
    def lengths(*items: Known) -> Known:
        return Known(items=items, sequence="tuple")

    shape = lengths(scalar(2), scalar(3))

    assert infer_comparison(shape, "==", lengths(scalar(2), scalar(3))).value is True
    assert infer_comparison(shape, "!=", lengths(scalar(2))).value is True
    assert infer_comparison(shape, "==", lengths(scalar(2), Known("int64", ()))).value is None


def test_an_array_of_several_has_no_truth():
    with pytest.raises(MisfitError, match="no single truth"):
        require_truth_value(Known("bool", (2,)))
    require_truth_value(Known("bool", (1, 1)))
    require_truth_value(Known("bool", (None,)))


@pytest.mark.parametrize(
    ("lhs", "sign", "rhs"),
    [(1.5, "&", 2), (1, "<<", 2.0), (1j, "//", 2), (2, "@", np.ones(2)),
     (np.True_, "-", np.True_), (np.ones(2), "|", 1), (np.ones(2, complex), "%", 2)],
)  # fmt: skip
def test_an_operation_that_no_values_allow_is_reported(lhs, sign, rhs):
    with pytest.raises(MisfitError):
        infer_binary(known_of(lhs), sign, known_of(rhs))
