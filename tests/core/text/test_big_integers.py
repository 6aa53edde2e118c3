"""Integers of any size as text."""

from __future__ import annotations

import time

import pytest

from jobrun.core.text.big_integers import (
    formatted_integer,
    integer_hex,
    integer_text,
    is_long,
    parse_hex,
)
from tests.support.tables import each_case

LONG = 10**5000 + 42


@pytest.mark.parametrize("value", [0, -7, 2**70, 10**4000, -(10**4000)], ids="abcde")
def test_what_python_can_write_has_all_its_digits(value):
    assert integer_text(value) == str(value)
    assert not is_long(value)


def test_of_a_long_integer_both_ends_and_the_number_of_digits_are_shown():
    assert integer_text(LONG) == "1000000000…0000000042 (5001 digits)"
    assert integer_text(-LONG) == "-1000000000…0000000042 (5001 digits)"
    assert integer_text(10**5000 - 1) == "9999999999…9999999999 (5000 digits)"
    assert integer_text(10**5000) == "1000000000…0000000000 (5001 digits)"
    assert integer_text(2**20000) == "3980276840…3406309376 (6021 digits)"


def test_for_programs_all_of_it_is_read_back():
    assert parse_hex(integer_hex(LONG)) == LONG
    assert parse_hex(integer_hex(-LONG)) == -LONG
    assert parse_hex("0xff") is None
    assert parse_hex("a word") is None


@each_case(
    ("value", "spec", "text"),
    [
        (10**400, ".3g", "1e+400"), (LONG, ".3g", "1e+5000"), (-LONG, ".2e", "-1.00e+5000"),
        (LONG, ",", integer_text(LONG)), (LONG, "d", integer_text(LONG)), (10**6, ",", "1,000,000"),
        (LONG, "x", f"{LONG:x}"), (10**400, ".1f", f"{10**400}.0"),
    ],
)  # fmt: skip
def test_each_format_of_an_integer_has_a_text_whatever_its_size(value, spec, text):
    assert formatted_integer(value, spec) == text


@pytest.mark.parametrize("value", [3, LONG], ids=["short", "long"])
def test_what_is_no_format_of_integers_is_refused(value):
    with pytest.raises(ValueError, match="format"):
        formatted_integer(value, "q")


def test_a_million_bits_take_no_time():
    value = 3 ** (1 << 20)
    began = time.process_time()
    assert integer_text(value).endswith("(500298 digits)")
    assert parse_hex(integer_hex(value)) == value
    assert time.process_time() - began < 1
