import pytest
import yaml

from jobrun.spec.yaml.syntax_errors import QUOTING_HINT, syntax_fault
from tests.support.tables import each_case


def _fault(text):
    with pytest.raises(yaml.YAMLError) as caught:
        list(yaml.parse(text, Loader=yaml.CBaseLoader))
    return syntax_fault(caught.value, text, "job.yaml")


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("- {if: a, then: [x = f(a[0], b)]}", 25),
        ("- {log: x {a}}", 11),
        ("- [a, b] = f(x)", 10),
        ("- {s} is", 7),
        ("a: {b: c: d}", 9),
        ("a: [x = {b}]", 9),
    ],
)
def test_an_expression_in_brackets_gets_the_hint(text, column):
    fault = _fault(text)

    assert (fault.code, fault.mend) == ("E007", QUOTING_HINT)
    assert (fault.where.line, fault.where.column) == (1, column)


@pytest.mark.parametrize("text", ["a:\n\tb: 1", "a: b\n\tc: d", "a: |\n\t x", "\ta: 1"])
def test_a_tab_is_called_a_tab(text):
    assert _fault(text).code == "E006"


@pytest.mark.parametrize("text", ["a: [1", "a: [1,\n", "a: {b: [1]\n\n", "["])
def test_a_bracket_that_never_closes(text):
    fault = _fault(text)

    assert (fault.code, fault.message) == ("E005", "a bracket is never closed")


def test_a_bracket_closed_too_late_is_reported_where_it_opens():
    fault = _fault("a: [1, 2\nb: 3\n")

    assert (fault.code, str(fault.where)) == ("E005", "job.yaml:1:4")


@each_case(
    ("text", "words"),
    [
        ("a: b: c", "a ':' where no key is allowed"),
        ("a: - b", "a '-' where no list is allowed"),
        ('a: "b', "a quote is never closed"),
        ('a: "\\q"', "an invalid escape sequence"),
        ("a: @b", "cannot start with this character"),
        ("a: 'it's'", "a key was expected here"),
        ("- x\ny: 1", "a list item was expected here"),
        ("%YAML 1.3\n---\na: 1", "this version of YAML is not supported"),
        ("a: *", "not valid YAML"),
    ],
)
def test_the_words_of_the_parser_become_plain(text, words):
    fault = _fault(text)

    assert fault.code == "E005"
    assert words in fault.message
    assert fault.mend


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ('a: 1\nb: "two\nc: 3\n', "job.yaml:2:4"),
        ("a: 1\nbcd\ne: 3\n", "job.yaml:2:1"),
        ("a:\n  - [b < 1\n", "job.yaml:2:10"),
        ("a: &", "job.yaml:1:4"),
        ('a: "bc\\q"', "job.yaml:1:7"),
    ],
)
def test_a_position_is_never_behind_the_end(text, position):
    assert str(_fault(text).where) == position


def test_an_error_without_a_position_is_reported_at_the_start():
    fault = syntax_fault(yaml.YAMLError("it broke\nbadly"), "a", "job.yaml")

    assert (fault.message, str(fault.where)) == ("not valid YAML: it broke", "job.yaml:1:1")
