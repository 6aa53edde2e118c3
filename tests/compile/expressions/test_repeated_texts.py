from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobrun.compile.expressions import repeated_texts
from jobrun.compile.expressions.parse import parse_expression, parse_statement
from jobrun.compile.expressions.repeated_texts import RepeatedTexts
from jobrun.core.errors import SpecError
from tests.support.expressions import ORIGIN
from tests.support.hostile import TOKENS
from tests.support.thinning import examples

PARAMS = {"k": 3}
# One for all examples, so that a text meets the shapes that others have left.
PARSER = RepeatedTexts(PARAMS)

# Where the letters are names, each text has the shape of the one before.
TEXTS = """\
a = b * 2 + 1|x7 = y * 2 + 1
a = b - a|x = y - x
a = a - b|x = y - z
a, b = c|x, x = y
a[b, 1:c] += d|u[v, 1:w] += u
a = b.c|x = y.size
a = b.T @ c|x = y.T @ x
a = sum(b, axis=c)|x = sum(y, axis=axis)
a = astype(b, c)|x = astype(y, float)
a = zeros(b, dtype=c)|x = zeros(y, dtype=float32)
add_at(a, b, c)|add_at(u, i, v)
a = rng.normal(b, c)|x = rng.normal(x, y)
del a, b|del x, y
del a, b|del x, x
a = b|x = k
a = b|x = epoch
a = b|x = inf
a = b|x = rng
a = b|x = iter
a = b|x = np
a = b|__x = y
a = b|x = __y
a = b(c)|x = exp(y)
a = b if c else d|x = x if y else y
a = b and c|x = not y
a = 1e5|x = 1e7
a = b.c.T|x = y . c . T
a = b # c|x = y # x
a = 'b'|x = 'y'
a = b.c|node = node.name
match = case|x = y
a = -b < c <= d|x = -y < y <= z
a = [b, (c, 1), d[...]]|x = [x, (x, 1), x[...]]"""


def outcome(parse, *arguments):
    """The tree with all its offsets, or the faults with theirs."""
    try:
        return repr(parse(*arguments))
    except SpecError as error:
        return [(fault.code, fault.message, fault.where, fault.mend) for fault in error.faults]


def expect_the_same(text, parser=PARSER):
    parsed = outcome(parser.statement, text, ORIGIN, "p")
    assert parsed == outcome(parse_statement, text, ORIGIN, "p", PARAMS), text
    parsed = outcome(parser.expression, text, ORIGIN, "p")
    assert parsed == outcome(parse_expression, text, ORIGIN, "p", PARAMS), text


@pytest.mark.parametrize("pair", TEXTS.splitlines())
def test_a_text_of_a_known_shape_has_the_tree_that_its_parser_gives_it(pair):
    for order in (pair.split("|"), pair.split("|")[::-1]):
        parser = RepeatedTexts(PARAMS)
        for text in order:
            for part in (text, text.partition(" = ")[2] or text):
                expect_the_same(part, parser)


SOUP_OF_NAMES = st.lists(st.sampled_from([*TOKENS, "a", "b", "x", "=", "+"]), max_size=8).map(
    " ".join
)


@given(SOUP_OF_NAMES)
@settings(max_examples=100)
def test_no_text_is_taken_for_one_of_another_shape(text):
    expect_the_same(text)


@pytest.mark.long
@given(SOUP_OF_NAMES)
@settings(max_examples=examples(300))
def test_none_of_many_texts_is_taken_for_one_of_another_shape(text):
    expect_the_same(text)


def test_statements_that_differ_in_names_are_parsed_once(monkeypatch):
    parser = RepeatedTexts({})
    parser.statement("x1 = t - x1", ORIGIN, "p")
    monkeypatch.setattr(repeated_texts, "parse_statement", lambda *_: pytest.fail("parsed again"))

    assert parser.statement("x2 = u - x2", ORIGIN, "q").path == "q"


def test_equal_expressions_are_one_tree():
    parser = RepeatedTexts({})

    assert parser.expression("a + 1", ORIGIN, "p") is parser.expression("a + 1", ORIGIN, "q")
    assert parser.known("a + 1") is parser.expression("a + 1", ORIGIN, "p")
    assert parser.known("a + 2") is None


@pytest.mark.parametrize("value", [0, -3, True, 2**63, 0.5, -0.0, float("nan"), None])
def test_a_number_is_known_by_value_and_kind(value):
    known = PARSER.known(value)

    assert repr(known) == repr(parse_expression(value, ORIGIN, "p", {}))
    assert repr(PARSER.known(1)) != repr(PARSER.known(True))


def test_what_is_too_large_or_no_value_is_not_known():
    assert PARSER.known(2**80) is None
    assert PARSER.known({"a": 1}) is None
