from __future__ import annotations

import ast

import pytest

from jobrun.compile.expressions.parse import outside_strings, parse_python_expression
from jobrun.compile.expressions.source_text import SourceText
from jobrun.core.errors import SpecError
from tests.support.expressions import ORIGIN, expression, fault, statement
from tests.support.tables import each_case

NEED_QUOTES = "inside flow collections expressions with , [ { : # need quotes"


def _scalar(text):
    return SourceText(text, ORIGIN, "p")


@each_case(
    "text", ["f(a", "x = f(a", "b)", "a[1", "x = {", "x = 'a", 'x = "a', "(a]", "x = sum(C * C"]
)
def test_a_text_that_yaml_has_cut_gets_the_hint_to_quote_it(text):
    for read in (expression, statement):
        code, at, _, mend = fault(read, text)
        assert (code, at, mend) == ("E101", -1, NEED_QUOTES)


@pytest.mark.parametrize("text", ["a b", "x = (a b)", "'(' + ", "a +", "# (", "')' )("])
def test_other_slips_do_not_get_the_hint_unless_brackets_are_missing(text):
    assert fault(expression, text)[0] == ("E101" if text == "')' )(" else "E100")


@each_case(
    ("text", "at", "mend"),
    [
        ("shift = 0", 6, "=="),
        ("a && b", 2, "and"),
        ("a || b", 2, "or"),
        ("!a", 0, "not"),
        ("a <> b", 2, "!="),
        ("a === b", 2, "=="),
        ("a ? b : c", 2, "if condition else"),
        ("'=?' == a ? b", 10, "if condition else"),
        ("a == b = c", 7, "=="),
    ],
)
def test_signs_of_other_languages_are_translated(text, at, mend):
    code, offset, _, hint = fault(expression, text)

    assert (code, offset) == ("E100", at)
    assert mend in hint


def test_an_assignment_in_a_statement_is_not_taken_for_a_comparison():
    code, at, message, mend = fault(statement, "x = = 3")

    assert (code, at) == ("E100", 4)
    assert "invalid syntax" in message
    assert "==" not in mend


@pytest.mark.parametrize(
    ("name", "instead"),
    [("epoch", "epoch"), ("node", "node.name"), ("run.dir", "'${run.dir}'"), ("foo", "foo")],
)
def test_a_placeholder_outside_quotes_is_no_value(name, instead):
    code, at, _, mend = fault(expression, f"x + ${{{name}}}")

    assert (code, at, mend) == ("E112", 4, f"write {instead}")


def test_an_empty_text_is_no_expression():
    assert fault(expression, " ")[0] == "E100"
    assert fault(statement, "# nothing")[0] == "E100"


def test_a_text_of_two_statements_points_to_the_second():
    code, at, _, mend = fault(statement, "x = 1; y = 2")

    assert (code, at) == ("E100", 7)
    assert "one statement per step" in mend


def test_the_longest_text_is_still_read():
    assert parse_python_expression(_scalar("x" + " " * 4094 + "y"[:0]))
    assert fault(expression, "x" + " " * 4096)[0] == "E108"


def test_look_alike_letters_are_refused_outside_text_only():
    code, at, _, mend = fault(expression, "1 + \uff53um(x)")

    assert (code, at, mend) == ("E107", 4, "write sum")
    assert expression("'\uff53um' == \xe9t\xe9").left.value == "\uff53um"


def test_a_doubtful_escape_is_an_error_and_no_warning():
    assert fault(expression, r"'\d'")[0] == "E100"
    assert expression(r"'\\d'").value == r"\d"


def test_characters_in_quotes_and_comments_are_not_outside():
    text = "a'(\\'(' + \"'[\" # {\nb"

    assert "".join(character for _, character in outside_strings(text)) == "a +  \nb"


@each_case("quotes", ["'''", '"""', "'", '"'])
@each_case("inside", ["\\", "\\'", "'", "(", "\\\n"])
def test_text_that_is_never_closed_is_read_in_one_go(quotes, inside):
    text = f"${{x}} {quotes}{inside * (4000 // len(inside))}a"[:4000]

    assert list(outside_strings(text))
    with pytest.raises(SpecError):
        parse_python_expression(SourceText(text, ORIGIN, "p"))


@pytest.mark.parametrize("text", ["x", "_", "match", "None", "True", "ß", "n" * 50, "n" * 51])
def test_a_single_name_is_parsed_as_python_parses_it(text):
    parsed = parse_python_expression(SourceText(text, ORIGIN, "e/t"))

    assert ast.dump(parsed, include_attributes=True) == ast.dump(
        ast.parse(text, mode="eval").body, include_attributes=True
    )


@pytest.mark.parametrize("text", ["if", "lambda", "for"])
def test_a_keyword_by_itself_is_no_name(text):
    with pytest.raises(SpecError):
        parse_python_expression(SourceText(text, ORIGIN, "e/t"))


@pytest.mark.parametrize("text", ["  ", "x\t+ \x07", "${x}", "x + ${y}", "(" * 51])
def test_short_texts_are_refused_like_long_ones(text):
    for padded in (text, text + " " * 100):
        with pytest.raises(SpecError):
            parse_python_expression(SourceText(padded, ORIGIN, "e/t"))
