"""Rules for random draws, and the arguments of a call."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.compile.dtypes import Known, scalar
from jobrun.compile.expressions import parse_expression
from jobrun.compile.shape_eval import evaluate
from jobrun.core.origin import Origin

DRAWS = (
    "rng.random(3)", "rng.random((2, 3))", "rng.standard_normal(4)", "rng.normal(0.0, 1.0, 5)",
    "rng.normal(0, 1, size=(2, 2))", "rng.uniform(0, 1, (3,))", "rng.integers(0, 9, 4)",
    "rng.choice(9, 3, replace=False)", "rng.choice(X, 2)", "rng.permutation(6)",
    "rng.permutation(X)",
)  # fmt: skip


@pytest.mark.parametrize("text", DRAWS)
def test_draws_have_the_shape_that_numpy_gives(text: str) -> None:
    blobs = {"X": np.ones((4, 3), np.float32)}
    names = {"rng": np.random.default_rng(1)} | blobs
    expected = eval(text, {"__builtins__": {}}, names)  # the test's own texts
    expression = parse_expression(text, Origin("t.yaml", 1, 1), "p", {})

    found = evaluate(expression, {"X": Known("float32", (4, 3))})

    assert (found.dtype, found.shape) == (expected.dtype.name, expected.shape)


@pytest.mark.parametrize("text", ["rng.choice(n, 3)", "rng.random(m)"])
def test_an_unknown_length_is_unknown(text: str) -> None:
    expression = parse_expression(text, Origin("t.yaml", 1, 1), "p", {})

    found = evaluate(expression, {"n": Known("int64", (), weak=True), "m": scalar(2)})

    assert found.shape in ((3,), (2,))
