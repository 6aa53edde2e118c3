import pytest
from yaml import events
from yaml.error import Mark

from jobrun.core.errors import SpecError
from jobrun.spec.yaml import tree_builder as builder
from jobrun.spec.yaml.nodes import Scalar, Sequence
from jobrun.spec.yaml.parse import read_document
from jobrun.spec.yaml.tree_builder import Builder, StopReadingError


def _mark(column):
    return Mark("job.yaml", column, 0, column, None, None)


def _scalar(text, column):
    return events.ScalarEvent(
        None, None, (True, False), text, _mark(column), _mark(column + len(text)), style=None
    )


def test_events_become_a_tree():
    tree_builder = Builder("job.yaml", "[a, 1]")

    tree_builder.read(
        [events.SequenceStartEvent(None, None, True, _mark(0), _mark(1), flow_style=True)]
    )
    tree_builder.read([_scalar("a", 1)])
    tree_builder.read([_scalar("1", 4)])
    tree_builder.read([events.SequenceEndEvent(_mark(5), _mark(6))])

    assert tree_builder.root == Sequence(
        [Scalar("a", ("job.yaml", 1, 2, 1, 2)), Scalar(1, ("job.yaml", 1, 5, 1, 5))],
        ("job.yaml", 1, 1, 6, 0),
    )
    assert tree_builder.faults == []


def test_stream_events_are_ignored():
    tree_builder = Builder("job.yaml", "")

    tree_builder.read([events.StreamStartEvent()])
    tree_builder.read([events.StreamEndEvent()])

    assert tree_builder.root is None


def test_the_budget_counts_the_values_of_aliases(monkeypatch):
    monkeypatch.setattr(builder, "MOST_VALUES", 20)
    text = "a: &a [1, 2, 3, 4]\nb: [*a, *a]\n"

    assert read_document(text, "job.yaml").faults == ()
    with pytest.raises(Exception, match="more than 20 values"):
        read_document(text + "c: [*a, *a]\n", "job.yaml")


def test_the_fault_that_stops_reading_is_kept():
    tree_builder = Builder("job.yaml", "")
    tree_builder.read([events.DocumentStartEvent(_mark(0), _mark(0))])

    with pytest.raises(StopReadingError):
        tree_builder.read([events.DocumentStartEvent(_mark(0), _mark(0))])

    assert [fault.code for fault in tree_builder.faults] == ["E008"]


@pytest.mark.parametrize(
    "text",
    ["a: [x = f(a, b)]", "a: [x = f(g(a, b), c)]", 'a: [x = "p, q"]', "a: [f(a, b, c)]"],
)
def test_an_expression_cut_at_a_comma_gets_the_hint_and_the_rest_is_read(text):
    document = read_document(f"{text}\na: 1\n", "job.yaml")

    messages = [fault.message for fault in document.faults]
    assert messages == [
        "an expression is cut in two at a comma",
        "duplicate key 'a' (first at line 1)",
    ]


def test_an_expression_cut_in_a_mapping_ends_the_reading():
    with pytest.raises(SpecError, match="an expression is cut in two at a comma"):
        read_document("a: {x: f(a, b)}", "job.yaml")


@pytest.mark.parametrize(
    "text",
    ["a: ['x = f(a, b)']", "a: {help: 'smile :)', b: c}", "a: {help: a b), c: d}",
     "a: [f(a), g(b)]", "a: [x = f(a]", "a:\n  - x = f(a, b)\n"],
)  # fmt: skip
def test_other_brackets_in_text_are_let_through(text):
    assert read_document(text, "job.yaml").faults == ()


def test_faults_name_the_path():
    (fault,) = read_document("a:\n  - b: 1\n    c:\n      d: !!x 1\n", "job.yaml").faults

    assert fault.path == "a[0].c.d"
