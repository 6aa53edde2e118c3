from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobrun.compile.expressions.parse import parse_expression, parse_statement
from jobrun.core.errors import Origin, SpecError
from jobrun.graph.expressions import Call, Const, Dtype, Expr, Name, Sequence
from jobrun.graph.steps import Assign, Augment, Delete, NameTarget, Perform
from jobrun.graph.traversal import walk_expr
from tests.support.expressions import ORIGIN, expression, fault, faults, statement
from tests.support.hostile import DEEP, ESCAPES, STATEMENTS, TOKENS
from tests.support.tables import each_case
from tests.support.thinning import examples


@each_case("text", ESCAPES)
def test_no_way_leads_out_of_an_expression(text):
    for read in (expression, lambda written: statement(f"v = {written}")):
        assert faults(read, text)


@each_case("text", DEEP)
def test_depth_and_size_are_bounded(text):
    for read in (expression, lambda written: statement(f"v = {written}")):
        assert {"E100", "E101", "E102", "E104", "E108"} >= {
            fault[0] for fault in faults(read, text)
        }


@each_case("text", STATEMENTS)
def test_only_assignments_effects_and_deletions_are_statements(text):
    reported = faults(statement, text)

    assert all(mend for _, _, _, mend in reported if "match" not in text)


SOUP = st.lists(st.sampled_from(TOKENS), max_size=25).flatmap(
    lambda parts: st.sampled_from(["", " "]).map(lambda glue: glue.join(parts))
)


@given(SOUP)
@example("\\")
@example("x[")
@example("f'{")
def test_any_text_is_an_expression_or_a_fault(text):
    _expect_an_expression_or_a_fault(text)


@pytest.mark.long
@given(SOUP)
@settings(max_examples=examples(200))
def test_many_texts_are_an_expression_or_a_fault(text):
    _expect_an_expression_or_a_fault(text)


def _expect_an_expression_or_a_fault(text):
    try:
        tree = expression(text)
    except SpecError:
        return
    assert all(type(part).__module__ == "jobrun.graph.expressions" for part in walk_expr(tree))


@pytest.mark.long
@given(SOUP)
@settings(max_examples=200)
def test_any_text_is_a_statement_or_a_fault(text):
    try:
        op = statement(text)
    except SpecError:
        return
    assert isinstance(op, Assign | Augment | Perform | Delete)


@given(st.text(max_size=60))
def test_any_characters_are_an_expression_or_a_fault(text):
    with suppress(SpecError):
        assert isinstance(expression(text), Expr)


@pytest.mark.long
@given(st.text(max_size=60))
@settings(max_examples=examples(200))
def test_many_characters_are_an_expression_or_a_fault(text):
    with suppress(SpecError):
        assert isinstance(expression(text), Expr)


@pytest.mark.parametrize("value", [True, False, 3, -2.5, None])
def test_a_value_that_is_no_text_is_itself(value):
    parsed = expression(value)

    assert parsed == Const(value)
    assert type(parsed.value) is type(value)


def test_a_list_is_a_list_of_expressions():
    assert expression(("x", 1, ["k", True]), k=7) == Sequence(
        (Name("x"), Const(1), Sequence((Const(7), Const(True)), "list")), "list"
    )


def test_faults_in_a_list_point_to_its_start_and_are_reported_together():
    reported = faults(expression, ["1 +", "x", "lambda: 0", {"a": 1}])

    assert [code for code, *_ in reported] == ["E100", "E102", "E117"]
    with pytest.raises(SpecError) as caught:
        expression(["abc", "de +"])
    assert caught.value.faults[0].where.column == ORIGIN.column


@pytest.mark.parametrize("value", [{"a": 1}, b"x", {1}, object(), 1j])
def test_other_values_are_refused(value):
    code, at, _, mend = fault(expression, value)

    assert (code, at) == ("E117", -1)
    assert "expression" in mend


def test_long_lists_and_large_numbers_are_refused():
    assert fault(expression, [0] * 1001)[0] == "E108"
    assert fault(expression, 2**65)[0] == "E109"


def test_a_statement_keeps_its_place():
    op = statement("x = y")

    assert op == Assign((NameTarget("x"),), Name("y"), "epoch/t/steps[0]")
    assert op.origin == ORIGIN


def test_places_count_characters_from_the_start_of_the_text():
    tree = expression("  'é' + naïve + sum(x)")

    assert [part.at for part in walk_expr(tree) if isinstance(part, Name | Call)] == [8, 16, 20]


def test_a_fault_points_at_its_column():
    where = Origin("job.yaml", 4, 7, 20, 8)

    with pytest.raises(SpecError) as caught:
        parse_statement("naïve = x + foo(y)", where, "p", {})

    (fault,) = caught.value.faults
    assert (str(fault.where), fault.where.length, fault.path) == ("job.yaml:4:20", 3, "p")


def test_a_fault_points_at_the_whole_where_columns_do_not_map():
    where = Origin("job.yaml", 4, 7, 20)

    with pytest.raises(SpecError) as caught:
        parse_expression("1 + foo(y)", where, "p", {})

    assert caught.value.faults[0].where == where


def test_several_faults_of_one_text_are_reported_together():
    reported = faults(expression, "a.sum() + np.exp(b) + foo(c, bar=lambda: 0) + rng.dice()")

    assert [code for code, *_ in reported] == ["E103", "E103", "E104", "E102", "E115"]


def test_params_are_constants_wherever_a_name_is_allowed():
    assert expression("k + x", k=3).left == Const(3)
    assert expression("zeros(3, kind)", kind="float32").args[1] == Dtype("float32")
