"""Any statement computes what Python and numpy compute, or is refused with its place."""

from __future__ import annotations

import warnings
from random import Random

import pytest

from jobrun.compile.types.expressions import ExpressionInference
from jobrun.core.errors import SpecError
from jobrun.ops.abstract_values import COUNTER, UNKNOWN, Known
from tests.property.statement_cases import ARRAYS, SIGNS, assignments, calls, expressions
from tests.property.statement_judge import KNOWLEDGE, Case, complaints
from tests.support.expressions import expression
from tests.support.thinning import examples

_NAMES = {
    "u": UNKNOWN,
    "v": Known("float64", (None, None)),
    "w": Known(None, (3,)),
    "c": Known(COUNTER, ()),
}


def _check(cases, folder) -> None:
    with warnings.catch_warnings():
        # numpy's, of values that Python computes too.
        warnings.simplefilter("ignore")
        assert complaints(cases, folder) == []


@pytest.mark.parametrize("draw", [assignments, expressions])
def test_statements_mean_what_they_mean_in_python(tmp_path, draw):
    pick = Random(7)

    _check([draw(pick) for _ in range(150)], tmp_path)


def test_each_operator_in_place_on_each_pair_of_shapes(tmp_path):
    arrays = [text for text in ARRAYS if "float64" in text]
    cases = [
        Case((("x", lhs), ("y", rhs)), (f"x {sign}= y",), knowledge)
        for sign, knowledges in (("@", KNOWLEDGE), ("+", ("all",)))
        for lhs in arrays
        for rhs in arrays
        for knowledge in knowledges
    ]

    _check(cases, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("draw", [assignments, expressions])
def test_many_statements_mean_what_they_mean_in_python(tmp_path, draw):
    pick = Random(11)

    _check([draw(pick) for _ in range(examples(2500))], tmp_path)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_each_operator_in_place_on_each_pair_of_types(tmp_path):
    pick = Random(13)
    pairs = [(lhs, rhs) for lhs in ARRAYS[::3] for rhs in ARRAYS]
    chosen = pick.sample(pairs, min(len(pairs), examples(300)))
    cases = [
        Case((("x", lhs), ("y", rhs)), (f"x {sign}= y",), pick.choice(KNOWLEDGE))
        for lhs, rhs in chosen
        for sign in SIGNS
    ]

    _check(cases, tmp_path)


def _infer(count: int, seed: int) -> None:
    pick = Random(seed)
    for _ in range(count):
        text = calls(pick)
        try:
            tree = expression(text)
            ExpressionInference(_NAMES, lambda _: None, {}).whole(tree)
        except SpecError:
            continue
        except Exception as error:
            error.add_note(text)
            raise


def test_types_of_any_call_are_inferred_or_refused():
    _infer(2000, 1)


@pytest.mark.long
def test_types_of_many_calls_are_inferred_or_refused():
    _infer(examples(20_000), 2)


@pytest.mark.parametrize(
    "text",
    [
        "lexsort([])", "lexsort(())", "tile(w, 9223372036854775807)[:]", "arange(None)",
        "arange(-5, 9223372036854775807)",
    ],
)  # fmt: skip
def test_types_that_could_not_be_inferred_before(text):
    ExpressionInference(_NAMES, lambda _: None, {}).whole(expression(text))
