from __future__ import annotations

import pytest

from jobrun.graph.expressions import Name
from jobrun.runtime.codegen.alias_analysis import (
    aliased_leaves,
    is_fresh,
    is_plain_view,
    permuted_names,
)
from jobrun.testing.graphs import expr, op
from tests.support.tables import each_case


def shared(text):
    return sorted(getattr(leaf, "name", "output") for leaf in aliased_leaves(expr(text)))


@each_case(
    ("text", "names"),
    [
        ("a", ["a"]), ("a[0]", ["a"]), ("a.T", ["a"]), ("a.T[b]", ["a"]), ("a + b", ["a", "b"]),
        ("a - b", []), ("-a", []),
        ("a < b", []), ("a if c else b", ["a", "b"]), ("a or b", ["a", "b"]), ("a.shape", []),
        ("reshape(a, b)", ["a", "b"]), ("exp(a)", []), ("reshape(exp(a), (2, 2))", []),
        ("[a, b]", ["a", "b"]), ("(a,) + (b,)", ["a", "b"]), ("rng.permutation(a)", []),
        ("out('t', 'o')", ["output"]), ("not a", []), ("(a @ b)[0]", []), ("1", []),
    ],
)  # fmt: skip
def test_aliased_leaves_of_expressions(text, names):
    assert shared(text) == names


@each_case(
    "text",
    ["a + b", "-a", "a < b", "1", "'t'", "a.size", "1 if c else 2", "epoch", "a * 2 - b @ c",
     "exp(a)", "maximum(a, 0)", "sum(a, axis=0)", "len(a)"],
)  # fmt: skip
def test_values_that_need_no_look(text):
    assert is_fresh(expr(text))


@each_case(
    "text", ["a", "a[0]", "a.T", "a.shape", "reshape(a, 3)", "(1, 2)",
             "exp([a])", "add('a', b)", "modf(a)", "where(a, b, c)", "a.shape + (1,)", "None",
             "a if c else 1", "a or b", "rng.random()", "(1,) * 3", "a.dtype", "..."],
)  # fmt: skip
def test_values_that_need_one(text):
    assert not is_fresh(expr(text))


def test_an_operator_that_is_not_known_may_do_anything():
    assert shared("from_a_package(a)") == ["a"]
    assert not is_fresh(expr("from_a_package(a) + a"))


@pytest.mark.parametrize(("text", "is_view"), [("a", True), ("a[0].T", True), ("exp(a)[0]", False)])
def test_plain_views(text, is_view):
    assert is_plain_view(expr(text)) is is_view


@each_case(
    ("text", "names"),
    [
        ("a, b = b, a", {"a", "b"}), ("a, b, c = c, a, b", {"a", "b", "c"}),
        ("a, b = a, b", {"a", "b"}),
        ("a, b = b, b", set()), ("a, b = b, c", set()), ("a, a = a, b", set()),
        ("a, b = b, a + 0", set()),
        ("a = b", set()), ("a, b[0] = b, a", set()), ("a += b", set()), ("a, b = c", set()),
    ],
)  # fmt: skip
def test_permutations(text, names):
    assert permuted_names(op(text)) == names


def test_leaves_are_the_names_of_the_tree():
    assert list(aliased_leaves(expr("a"))) == [Name("a")]
