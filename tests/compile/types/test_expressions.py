"""What is said of an expression's value agrees with the value that numpy gives."""

from __future__ import annotations

import math

import numpy as np
import pytest

from jobrun.compile.expressions.parse import parse_expression
from jobrun.compile.faults import Faults, SpecPosition
from jobrun.compile.types import expressions
from jobrun.compile.types.expressions import (
    ExpressionInference,
    Misfit,
    RuleCache,
    TypeFaults,
    infer_expression,
    output_key,
    render_short,
)
from jobrun.core.errors import Origin, SpecError
from jobrun.graph.expressions import Binary, Const, Name, OutputRead
from jobrun.ops.abstract_values import SHAPES, Known, MisfitError, scalar, without_value
from jobrun.ops.dtype_promotion import dtype_name
from jobrun.ops.operator_table import implementation
from tests.support.tables import each_case

BLOBS = {
    "X": np.arange(12, dtype=np.float32).reshape(4, 3),
    "C": np.ones((2, 3)),
    "label": np.array([0, 1, 1, 0]),
    "mask": np.array([True, False, True, True]),
    "cube": np.zeros((2, 3, 4), np.int16),
    "w": np.ones(3),
    "k": 2,
    "lr": 0.5,
    "s": np.float32(2.0),
    "inf": math.inf,
}


def _known(value: object) -> Known:
    if isinstance(value, np.ndarray | np.generic):
        return Known(value.dtype.name, value.shape)
    return scalar(value)


def _infer(text: str) -> Known:
    expression = parse_expression(text, Origin("t.yaml", 1, 1), "p", {})
    return infer_expression(expression, {name: _known(value) for name, value in BLOBS.items()})


def _value(text: str) -> object:
    functions = {name: implementation(name) for name in FUNCTIONS}
    names = functions | BLOBS | {"float32": np.float32, "int64": np.int64}
    return eval(text, {"__builtins__": {}}, names)  # the test's own texts


FUNCTIONS = [
    "sum",
    "mean",
    "argmin",
    "max",
    "any",
    "sqrt",
    "exp",
    "where",
    "zeros",
    "ones",
    "full",
    "eye",
    "arange",
    "linspace",
    "astype",
    "len",
    "reshape",
    "transpose",
    "maximum",
    "isnan",
    "add",
    "less",
    "zeros_like",
]

# Expressions whose dtype and shape are known in full.
EXACT = (
    "X + 1", "X * 1.5", "X + C[0]", "X / 2", "label / 2", "label // 2", "label * lr", "X @ w",
    "sum(C * C, axis=1) - 2 * X @ C.T", "X.T", "cube.T", "X[0]", "X[0, 1]", "X[:, 1]", "X[1:3]",
    "X[None, :, 0]", "X[::2]", "X[label]", "X[label, :]", "-X", "X > 1", "label == 1", "not k",
    "sum(X)", "sum(X, axis=0)", "sum(X, axis=-1, keepdims=True)", "sum(mask)", "mean(label)",
    "argmin(X, axis=1)", "max(X, axis=0)", "any(mask)", "sqrt(X)", "exp(label)", "sqrt(s)",
    "where(mask, 1.0, X[:, 0])", "zeros(3)", "zeros((k, 3))", "ones((2, 2), dtype=float32)",
    "full((2,), 1.5)", "full(3, 7)", "eye(3)", "arange(5)", "arange(1, 10, 3)", "linspace(0, 1, 5)",
    "astype(X, int64)", "reshape(X, (3, 4))", "transpose(X)", "maximum(label, 1)[:, None]",
    "isnan(X)", "add(label, 1)", "less(X, 2)", "zeros_like(X)", "X if k > 1 else X * 2", "s + X",
    "s * C", "cube[0]", "X.ndim", "X.size", "len(X)", "k + 1", "k * lr", "-k", "k - 1.5",
    "C - C[0]",
)  # fmt: skip


@each_case("text", EXACT)
def test_dtype_and_shape_are_those_of_numpy(text: str) -> None:
    expected = _value(text)

    inferred = _infer(text)

    if isinstance(expected, np.ndarray | np.generic):
        assert (inferred.dtype, inferred.shape) == (expected.dtype.name, expected.shape)
    else:
        assert (inferred.dtype, inferred.shape) == (scalar(expected).dtype, ())
        assert inferred.value in (None, expected)


@pytest.mark.parametrize("text", ["X[mask]", "X[mask, :]"])
def test_a_mask_leaves_the_length_unknown(text: str) -> None:
    assert _infer(text).shape in ((None, 3), None)


@pytest.mark.parametrize("text", ["nope + 1", "reshape(X, (-1, 2))", "X[label, label]", "X[...]"])
def test_an_expression_without_a_rule_has_an_unknown_type(text: str) -> None:
    expected = None if text == "nope + 1" else _value(text)

    inferred = _infer(text)

    assert inferred.shape is None or (expected is not None and inferred.shape == expected.shape)  # type: ignore[attr-defined]


def test_header_dtype_names_round_trip() -> None:
    assert all(
        dtype_name(array.dtype.str) == array.dtype.name for array in (BLOBS["X"], BLOBS["C"])
    )


DRAWS = (
    "rng.random(3)", "rng.random((2, 3))", "rng.standard_normal(4)", "rng.normal(0.0, 1.0, 5)",
    "rng.normal(0, 1, size=(2, 2))", "rng.uniform(0, 1, (3,))", "rng.integers(0, 9, 4)",
    "rng.choice(9, 3, replace=False)", "rng.choice(X, 2)", "rng.permutation(6)",
    "rng.permutation(X)",
)  # fmt: skip


@each_case("text", DRAWS)
def test_draws_have_the_shape_that_numpy_gives(text: str) -> None:
    blobs = {"X": np.ones((4, 3), np.float32)}
    names = {"rng": np.random.default_rng(1)} | blobs
    expected = eval(text, {"__builtins__": {}}, names)  # the test's own texts
    expression = parse_expression(text, Origin("t.yaml", 1, 1), "p", {})

    inferred = infer_expression(expression, {"X": Known("float32", (4, 3))})

    assert (inferred.dtype, inferred.shape) == (expected.dtype.name, expected.shape)


@pytest.mark.parametrize("text", ["rng.choice(n, 3)", "rng.random(m)"])
def test_an_unknown_length_is_unknown(text: str) -> None:
    expression = parse_expression(text, Origin("t.yaml", 1, 1), "p", {})

    inferred = infer_expression(expression, {"n": Known("int64", (), weak=True), "m": scalar(2)})

    assert inferred.shape in ((3,), (2,))


def _find_misfits(text: str, **more: Known) -> list[Misfit]:
    expression = parse_expression(text, Origin("t.yaml", 1, 1), "p", {})
    names = {name: _known(value) for name, value in BLOBS.items()} | more
    misfits: list[Misfit] = []
    infer_expression(expression, names, misfits.append)
    return misfits


@each_case(
    ("text", "code", "part"),
    [
        ("X @ X", "E290", "3 is not 4"),
        ("X + zeros(4)", "E290", "broadcast"),
        ("sum(X, axis='rows')", "E291", "'axis' must be an axis, not text"),
        ("X[1.5]", "E291", "float64"),
        ("X > 'a'", "E291", "text and float32 have no order"),
        ("'a' <= k", "E291", "have no order"),
        ("X[0, 0, 0]", "E292", "too many"),
        ("mask - mask", "E291", "bool"),
        ("cholesky(X)", "E290", "not square"),
        ("'a' % k", "E116", ""),
        ("sqrt(X, )[7]", "E292", "index 7"),
        ("1 if X > 0 else 2", "E291", "no single truth"),
        ("not X", "E291", "no single truth"),
        ("concatenate([X, C[:, :2]])", "E290", "cannot be joined"),
        ("label & w", "E291", "bits"),
    ],
)
def test_what_cannot_be_computed_is_reported(text: str, code: str, part: str) -> None:
    if code == "E116":
        with pytest.raises(SpecError):
            _find_misfits(text)
        return

    (misfit,) = _find_misfits(text)

    assert misfit.error.code == code
    assert part in misfit.error.message


@pytest.mark.parametrize(
    ("text", "is_perhaps"),
    [
        ("X @ X if X.ndim == 1 else X @ w", None),
        ("X @ X if X.ndim == 2 else X @ w", False),
        ("X @ X if n > 1 else X @ w", True),
        ("k > 5 and any(X @ X > 0)", None),
        ("n > 5 and any(X @ X > 0)", True),
        ("n > 5 or k == 2 or any(X @ X > 0)", None),
    ],
)
def test_misfits_that_a_known_condition_excludes_are_not_reported(
    text: str, is_perhaps: bool | None
) -> None:
    misfits = _find_misfits(text, n=Known("int64", (), weak=True))

    assert [misfit.is_perhaps for misfit in misfits] == ([] if is_perhaps is None else [is_perhaps])


def test_an_output_is_known_by_its_task() -> None:
    key = output_key("local", "fit", "loss")

    read = OutputRead("fit", "loss", "local")

    assert infer_expression(read, {}, outside={key: scalar(2)}) == scalar(2)


def test_an_operation_on_the_same_types_is_inferred_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    rule = expressions.infer_binary

    def infer(lhs: Known, sign: str, rhs: Known) -> Known:
        asked.append(sign)
        return rule(lhs, sign, rhs)

    monkeypatch.setattr(expressions, "infer_binary", infer)
    same = Known("float64", (3,))
    cache = RuleCache()
    inferred = []
    for names in ({"a": same, "b": same}, {"c": same, "d": same}, {"e": Known("int8"), "f": same}):
        inference = ExpressionInference(names, lambda _: None, {}, cache)
        first, second = names
        inferred.append(inference.whole(Binary(Name(first), "+", Name(second))))

    assert asked == ["+", "+"]
    assert inferred[0] == inferred[1] == same
    assert inferred[2].shape is None


def test_what_cannot_be_computed_is_reported_each_time() -> None:
    names = {"a": Known("float64", (3,)), "b": Known("float64", (4,))}
    misfits: list[Misfit] = []
    inference = ExpressionInference(names, misfits.append, {}, RuleCache())

    for _ in range(2):
        inference.whole(Binary(Name("a"), "+", Name("b")))

    assert len(misfits) == 2


def test_doubt_ends_with_its_expression() -> None:
    expression = parse_expression("n > 1 or X and k > 2", Origin("t.yaml", 1, 1), "p", {})
    names = {"n": Known("int64", (), weak=True), "X": Known("float64", (3,)), "k": scalar(1)}
    misfits: list[Misfit] = []
    inference = ExpressionInference(names, misfits.append, {})

    inference.whole(expression)
    inference.whole(Binary(Name("X"), "@", Const("text")))

    assert [misfit.is_perhaps for misfit in misfits] == [True, False]


def test_a_constant_has_the_type_of_its_own_kind() -> None:
    cache = RuleCache()

    assert [cache.constant(Const(value)).dtype for value in (1, True, 1.0)] == [
        "int64",
        "bool",
        "float64",
    ]
    assert cache.constant(Const(None, ellipsis=True)) == Known()


def test_a_type_without_its_value_is_one_type() -> None:
    cache = RuleCache()
    known = scalar(3)

    bare = cache.without_value(known)

    assert bare == without_value(known)
    assert cache.without_value(known) is bare
    assert cache.without_value(bare) is bare


ERROR = MisfitError(SHAPES, "shapes do not fit", "mend them")
AT = Origin("t.yaml", 4, 7, 20, 7)


def test_a_misfit_points_at_its_first_word():
    judge = TypeFaults(Faults())

    judge.add_misfit(
        Misfit(Binary(Name("a", 6), "@", Name("b", 10)), ERROR, is_perhaps=False), "e", AT
    )

    (fault,) = judge.faults.all()
    assert (fault.code, fault.severity) == (SHAPES, "error")
    assert fault.message == "in a @ b: shapes do not fit"
    assert (fault.where.line, fault.where.column) == (4, 13)


def test_a_misfit_in_doubt_is_a_warning():
    judge = TypeFaults(Faults(), doubt=1)

    judge.add(ERROR, "", SpecPosition("e", AT))
    judge.doubt = 0
    judge.add(ERROR, "other: ", SpecPosition("e", AT), perhaps=True)

    assert [(warning.code, warning.severity) for warning in judge.faults.all()] == [
        ("W138", "warning")
    ] * 2


def test_a_long_expression_is_cut():
    long = Name("x" * 64)

    assert render_short(long) == "x" * 59 + "…"
    assert render_short(Name("x")) == "x"
