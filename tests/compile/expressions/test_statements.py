from __future__ import annotations

from jobrun.graph.expressions import Binary, Call, Const, Name, Sequence, Slice
from jobrun.graph.steps import Assign, Augment, Delete, ItemTarget, NameTarget, Perform
from tests.support.expressions import fault, faults, statement
from tests.support.tables import each_case

PATH = "epoch/t/steps[0]"
A, B, X = NameTarget("a"), NameTarget("b"), Name("x")


@each_case(
    ("text", "op"),
    [
        ("a = x", Assign((A,), X, PATH)),
        ("  a = x  ", Assign((A,), X, PATH)),
        ("a, b = x", Assign((A, B), X, PATH)),
        ("(a, b) = x", Assign((A, B), X, PATH)),
        ("a, b = x, 1", Assign((A, B), Sequence((X, Const(1))), PATH)),
        ("a[0] = x", Assign((ItemTarget("a", Const(0)),), X, PATH)),
        ("a[:, 1] = x", Assign((ItemTarget("a", Sequence((Slice(), Const(1)))),), X, PATH)),
        ("a, b[x] = x", Assign((A, ItemTarget("b", X)), X, PATH)),
        ("a += x", Augment(A, "+", X, PATH)),
        ("a @= x", Augment(A, "@", X, PATH)),
        ("a <<= x", Augment(A, "<<", X, PATH)),
        ("a[x] -= 1", Augment(ItemTarget("a", X), "-", Const(1), PATH)),
        ("del a", Delete(("a",), PATH)),
        ("del a, b", Delete(("a", "b"), PATH)),
        ("del (a, b)", Delete(("a", "b"), PATH)),
        ("count_up(x)", Perform(Call("count_up", (X,)), PATH)),
        ("add_at(x, a, 1)", Perform(Call("add_at", (X, Name("a"), Const(1))), PATH)),
        ("a = count_up(x) + 1", Assign((A,), Binary(Call("count_up", (X,)), "+", Const(1)), PATH)),
    ],
)
def test_a_statement_becomes_its_operator(text, op):
    assert statement(text) == op


@each_case(
    ("text", "code", "at", "mend"),
    [
        ("a = b = c", "E111", 4, "two steps"),
        ("x.T = y", "E111", 0, "reshape"),
        ("fit.loss = 1", "E111", 0, "assign to the blob"),
        ("x[0][1] = 2", "E111", 0, "U[i, j]"),
        ("a, a = x", "E111", 0, "once"),
        ("a, b = 1, 2, 3", "E111", 7, "one name for each"),
        ("a, = x", "E111", 0, "value[0]"),
        ("(a,) = x", "E111", 0, "value[0]"),
        ("a[0], = x", "E111", 0, "value[0]"),
        ("[a, b] = x", "E111", 0, "a, b ="),
        ("a, *b = x", "E111", 3, "name each"),
        ("f(x)[0] = 1", "E111", 0, "name[index]"),
        ("del x[0]", "E111", 4, "delete(x, i)"),
        ("x + 1", "E110", 0, "name ="),
        ("x == 1", "E110", 0, "assert"),
        ("rng.random()", "E110", 0, "name ="),
        ("a = add_at(x, i, 1)", "E110", 4, "separate step"),
        ("sum = 1", "E151", -1, "sum_"),
        ("sum += 1", "E151", -1, "sum_"),
        ("sum[0] = 1", "E151", -1, "sum_"),
        ("del sum", "E151", -1, "sum_"),
        ("k = 1", "E150", -1, "rename"),
        ("a, k = x", "E150", -1, "rename"),
        ("__a = 1", "E107", 0, "another name"),
        ("a: int = 1", "E102", 0, "name = value"),
        ("import os", "E102", 0, "without a module"),
        ("for i in x: y = i", "E102", 0, "loop"),
        ("if x: y = 1", "E102", 0, "{if: condition"),
        ("assert x", "E102", 0, "{assert: condition"),
        ("return x", "E102", 0, "stop"),
        ("pass", "E102", 0, "remove"),
        ("print(x)", "E104", 0, "log"),
    ],
)
def test_a_text_that_is_no_statement_has_its_fault_and_mend(text, code, at, mend):
    reported = fault(statement, text, k=3)

    assert reported[:2] == (code, at)
    assert mend in reported[3]


def test_a_name_of_one_expression_may_be_a_param():
    assert statement("a = k", k=3) == Assign((A,), Const(3), PATH)
    assert statement("a[k] = 1", k=3).targets == (ItemTarget("a", Const(3)),)


def test_faults_of_targets_and_value_are_reported_together():
    reported = faults(statement, "x.T, a[lambda: 0] = foo(1) + np.e")

    assert sorted(code for code, *_ in reported) == ["E102", "E103", "E104", "E111"]
