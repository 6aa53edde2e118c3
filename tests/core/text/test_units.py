"""Sizes, spans and numbers for people."""

from __future__ import annotations

import pytest

from jobrun.core.text.units import number, size, span


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.03, "30 ms"), (4.24, "4.2 s"), (185, "3 m 05 s"), (7620, "2 h 07 m"), (3e5, "3 d 11 h")],
)
def test_a_span_has_two_units_at_most(seconds, text):
    assert span(seconds) == text


def test_a_size_has_a_binary_unit():
    assert (size(12), size(3 << 19)) == ("12 bytes", "1.5 MiB")


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 * 1024**3, "3.0 GiB")]
)
def test_sizes_are_in_powers_of_1024(count, text):
    assert size(count, "B") == text


def test_a_number_has_five_digits_and_other_values_are_text():
    assert (number(1 / 3), number(7), number(True)) == ("0.33333", "7", "True")
