from __future__ import annotations

import pytest

from jobrun.compile.expressions.limits import (
    MAX_INT,
    fits_64_bits,
    fold_constant_int,
    repeats_too_much,
)
from jobrun.graph.expressions import Binary, Const, Name, Sequence, Text, Unary
from tests.support.expressions import expression, fault
from tests.support.tables import each_case


@each_case(
    "text",
    ["1 + 2 * 3", "2 ** 63 - 1", "-7 // 2", "7 % -3", "~5 & 12 | 1 ^ 3", "1 << 63 >> 3", "-(3)",
     "+4", "0 ** 5", "(-1) ** 99999", "1 ** 10 ** 9", "1 >> 10 ** 9", "0 << 10 ** 9", "2 ** 64"],
)  # fmt: skip
def test_whole_numbers_are_worked_out_exactly(text):
    assert fold_constant_int(expression(text)) == eval(text)


@pytest.mark.parametrize("text", ["1.5 + 1", "x + 1", "2 ** -1", "1 / 2", "not 1", "'a' + 'b'"])
def test_other_expressions_are_no_constant(text):
    assert fold_constant_int(expression(text)) is None


@pytest.mark.parametrize(
    ("lhs", "operator", "rhs"),
    [(9, "**", 9**9), (2, "**", 65), (1, "<<", 65), (1, "<<", 10**9), (2**63, "*", 4),
     (2**64, "+", 1), (-(2**64), "-", 1)],
)  # fmt: skip
def test_no_large_number_is_computed(lhs, operator, rhs):
    with pytest.raises(OverflowError):
        fold_constant_int(Binary(Const(lhs), operator, Const(rhs)))


def test_division_by_zero_is_left_to_the_run():
    assert fold_constant_int(expression("1 // 0")) == 0
    assert fold_constant_int(expression("1 % 0")) == 0
    assert fold_constant_int(Binary(Const(1), "<<", Const(-1))) == 0


def test_sixty_four_bits_fit():
    assert fits_64_bits(MAX_INT)
    assert fits_64_bits(-MAX_INT)
    assert not fits_64_bits(MAX_INT + 1)


@pytest.mark.parametrize(
    ("lhs", "rhs", "refused"),
    [
        (Const("a"), Const(2), True),
        (Const(2), Text(("a",)), True),
        (Sequence((Const(0),)), Const(64), False),
        (Sequence((Const(0),)), Const(65), True),
        (Const(10**9), Sequence((Const(0),), "list"), True),
        (Sequence((Const(0),)), Name("n"), True),
        (Name("x"), Name("n"), False),
    ],
)
def test_text_and_lists_are_not_repeated_at_length(lhs, rhs, refused):
    assert repeats_too_much(Binary(lhs, "*", rhs)) is refused
    assert not repeats_too_much(Binary(lhs, "+", rhs))


def test_a_sign_before_a_large_constant_changes_nothing():
    assert fold_constant_int(Unary("-", Const(5))) == -5


@each_case(
    "text",
    ["x.shape * n", "([0] * 60) * 60", "(0,) * 2 ** 40", "2 ** 40 * (0,)", "([0] + [1]) * 600",
     "('a' + t) * 2", "('a' if n else t) * 2", "([0] if n else [1, 2]) * n", "([0] or [1]) * 2000"],
)  # fmt: skip
def test_what_is_made_of_lists_and_text_is_not_repeated_at_length(text):
    assert fault(expression, text)[0] == "E116"


@pytest.mark.parametrize(
    "text",
    ["(3,) * 4", "x.shape * 2", "[1, 2] * 30", "x * n", "[0] * 2.5",
     "([1.0, 2.0] + x) * n", "(x if n else [1]) * 3"],
)  # fmt: skip
def test_short_lists_and_arrays_are_multiplied(text):
    assert expression(text)
