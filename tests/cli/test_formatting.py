"""How values are written."""

from __future__ import annotations

import json

import pytest

from jobrun.cli.formatting import number, render_json_document, size, span
from jobrun.cli.runs.chart import sparkline
from tests.support.tables import each_case


def test_a_document_says_its_schema_and_is_json_even_with_nan():
    parsed = json.loads(
        render_json_document("thing", {"a": float("nan"), "b": [1.5, float("-inf")], "c": {}})
    )
    assert parsed == {"schema": "jobrun.thing/1", "a": "nan", "b": [1.5, "-inf"], "c": {}}


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (5 << 20, "5.0 MiB")],
)
def test_sizes_have_the_unit_a_person_expects(count, text):
    assert size(count) == text


@each_case(
    ("seconds", "text"),
    [
        (0.04, "40 ms"), (0.9999, "1.0 s"), (9.94, "9.9 s"), (59.4, "59 s"), (59.7, "1 m 00 s"),
        (185, "3 m 05 s"), (7620, "2 h 07 m"), (90000, "1 d 01 h"), (-1, "0 ms"),
    ],
)  # fmt: skip
def test_spans_show_the_two_largest_units(seconds, text):
    assert span(seconds) == text


def test_numbers_are_short_and_bools_are_words():
    assert [number(value) for value in (0.123456789, 3, True, "x")] == ["0.12346", "3", "True", "x"]


def test_a_sparkline_spans_from_the_least_to_the_greatest():
    assert sparkline([0.0, 1.0, 0.5]) == "▁█▅"
    assert sparkline([2.0, 2.0]) == "▁▁"
    assert sparkline([1.0]) == ""
    assert sparkline([1.0, float("nan"), 2.0]) == "▁ █"
