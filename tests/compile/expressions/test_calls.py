from __future__ import annotations

import pytest

from jobrun.compile.expressions.calls import require_valid_call
from jobrun.core.errors import SpecError
from jobrun.graph.expressions import Attribute, Call, Conditional, Const, Dtype, Name
from jobrun.ops.operator_table import OPERATORS
from tests.support.expressions import ORIGIN, expression, fault, faults
from tests.support.tables import each_case


@each_case(
    ("text", "at", "part"),
    [
        ("exp()", 0, "missing 'x'"),
        ("exp(a, b)", 7, "takes 1 argument by position, but 2 were given"),
        ("where(c)", 0, "missing 'x' and 'y'"),
        ("sum(a, foo=1)", 7, "no argument 'foo'"),
        ("sum(a, axes=1)", 7, "no argument 'axes'"),
        ("sum(a, a=b)", 7, "got 'a' twice"),
        ("exp(x=a)", 4, "no argument 'x'"),
        ("sum(a, out=b)", 7, "no argument 'out'"),
        ("segment_sum(a, b)", 0, "missing 'num_segments'"),
        ("rng.normal(0, 1, size=2, loc=1)", 25, "got 'loc' twice"),
        ("rng.integers()", 0, "missing 'low'"),
        ("rng.random(out=x)", 11, "no argument 'out'"),
    ],
)
def test_a_call_must_fit_the_signature(text, at, part):
    reported = faults(expression, text)

    assert ("E105", at) in [(code, where) for code, where, *_ in reported]
    assert any(part in message for _, _, message, _ in reported)


def test_the_mend_names_the_nearest_argument_or_the_signature():
    assert fault(expression, "sum(a, axes=1)")[3] == "did you mean 'axis'?"
    assert fault(expression, "exp()")[3] == "its signature is exp(x, /)"
    assert "rng.normal(loc=0.0" in fault(expression, "rng.normal(1, 2, 3, 4)")[3]


@each_case(
    ("written", "dtype"),
    [
        ("float32", Dtype("float32")),
        ("'float32'", Dtype("float32")),
        ("float", Dtype("float64")),
        ("int", Dtype("int64")),
        ("bool", Dtype("bool_")),
        ("'f4'", Dtype("float32")),
        ("complex", Dtype("complex128")),
        ("None", Const(None)),
        ("x.dtype", Attribute(Name("x"), "dtype")),
        ("kind", Dtype("uint8")),
        ("float32 if big else 'f8'",
         Conditional(Name("big"), Dtype("float32"), Dtype("float64"))),
    ],
)  # fmt: skip
def test_a_dtype_is_known_before_the_job_runs(written, dtype):
    by_position = expression(f"zeros(3, {written})", kind="uint8")
    by_name = expression(f"sum(x, dtype={written})", kind="uint8")

    assert by_position.args[1] == dtype
    assert by_name.kwargs == (("dtype", dtype),)


@each_case(
    "written",
    ["'O'", "'object'", "'V8'", "'<f4,O'", "x", "f(x)", "'f' + '4'", "['f4']", "1",
     "'O' if x else 'f4'", "x.shape"],
)  # fmt: skip
def test_no_other_dtype_gets_through(written):
    reported = faults(expression, f"astype(x, {written})")

    assert {code for code, *_ in reported} <= {"E114", "E104"}


def test_a_called_dtype_is_a_cast():
    assert expression("float32(x + 1)").function == "astype"
    assert expression("float32(x)") == Call("astype", (Name("x"), Dtype("float32")))
    assert fault(expression, "float32()")[0] == "E105"
    assert fault(expression, "int64(x, y)")[0] == "E105"


@pytest.mark.parametrize("text", ["max(a, b)", "min(a, 1.5)", "sum(a, b)"])
def test_a_second_value_is_not_taken_for_an_axis(text):
    code, at, message, mend = fault(expression, text)

    assert (code, at) == ("E105", 7 if text.startswith("max") else at)
    assert "axis" in message
    assert "(a, b)" in mend


@pytest.mark.parametrize("text", ["max(a, 0)", "max(a, -1)", "sum(a, (0, 1))", "min(a, axis=b)",
                                  "sum(a, None)"])  # fmt: skip
def test_an_axis_may_be_the_second_argument(text):
    assert expression(text).function in {"max", "min", "sum"}


@pytest.mark.parametrize("argument", ["x + 1", "x[0]", "fit.u", "zeros(3)", "3"])
def test_what_is_changed_in_place_is_a_blob(argument):
    code, at, _, _ = fault(expression, f"add_at({argument}, i, 1)")

    assert (code, at) == ("E118", 7)


def test_the_long_form_of_an_operator_is_checked_alike():
    call = Call("zeros", (Const(3),), (("dtype", Const("float32")),))

    checked = require_valid_call(call, OPERATORS["zeros"], ORIGIN, "p")

    assert checked.kwargs == (("dtype", Dtype("float32")),)
    with pytest.raises(SpecError) as caught:
        require_valid_call(Call("exp", (), (("y", Const(1)),)), OPERATORS["exp"], ORIGIN, "p")
    assert [(fault.code, fault.where, fault.path) for fault in caught.value.faults] == [
        ("E105", ORIGIN, "p")
    ] * 2
