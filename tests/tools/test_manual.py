"""The topics of the language."""

from __future__ import annotations

import pytest

from jobrun.compile.expressions import limits
from jobrun.ops.operator_table import OPERATORS
from jobrun.tools.manual import ANCESTORS, TOPICS, counterpart, suggest_topic
from tests.support.expressions import expression
from tests.support.tables import each_case


def test_the_bounds_are_those_that_hold():
    text = TOPICS["expressions"]()

    assert f"{limits.MAX_TEXT_LENGTH} characters" in text
    assert f"{limits.MAX_ITEMS} items" in text
    assert max(map(len, text.splitlines())) <= 100


@each_case(("theirs", "ours", "names"), ANCESTORS)
def test_an_everyday_operator_has_its_counterpart(theirs, ours, names):
    known = {name for name in names.split() if name != "rng"}

    assert theirs
    assert known <= OPERATORS.keys()
    assert ours in TOPICS["operators"]()


@pytest.mark.parametrize("text", ["x[..., 0]", "x[:, None]", "e if condition else e", "2j",
                                  "rng.normal(size=3)", "x[[0, 2]]", "f"])  # fmt: skip
def test_what_is_shown_can_be_written(text):
    assert expression(text)


@each_case(
    ("theirs", "ours"),
    [
        ("Const", "full((2, 3), 0.5)"), ("Fill", "full("), ("add", "a + b"), ("EQ", "a == b"),
        ("LT", "a < b"), ("Counter", "counter(3)"), ("Python", "{call: "), ("Copy", "b = a"),
        ("print", "{log: "), ("ENQUEUEBLOBS", "queues:"), ("segment_summ", ""), ("", ""),
    ],
)  # fmt: skip
def test_an_operator_of_the_ancestor_has_one_line(theirs, ours):
    line = counterpart(theirs)

    assert ours in line
    assert bool(line) is bool(ours)
    assert "\n" not in line


def test_a_word_near_a_function_names_it():
    assert "segment_sum" in suggest_topic("segment_summ")
