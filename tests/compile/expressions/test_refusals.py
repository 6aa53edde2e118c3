from __future__ import annotations

import pytest

from jobrun.compile.expressions.refusals import (
    FUNCTIONS,
    RESERVED,
    UNSUPPORTED_FORMS,
    explain_unknown_draw,
    explain_unknown_function,
    find_name_refusal,
)
from jobrun.graph.expressions import DTYPES
from jobrun.ops.operator_table import DRAWS, OPERATORS
from tests.support.expressions import expression, fault
from tests.support.tables import each_case


@each_case(
    ("text", "mend"),
    [
        ("lambda x: x", "write a net, or write {call"),
        ("[v for v in x]", "whole arrays"),
        ("(y := 1)", "a statement of its own"),
        ("f'{x}'", "log: 'x is {x}'"),
        ("x is y", "write =="),
        ("x in y", "isin(x, values)"),
        ("{'a': 1}", "one blob per value"),
        ("x.sum()", "write sum(x)"),
        ("x.reshape(2, 3)", "write reshape(x)"),
        ("x.append(1)", "write concatenate([x, …])"),
        ("x.flatten()", "write ravel(x)"),
        ("x.astype(float32)", "write astype(x, float32)"),
        ("x.upper()", "concatenated with +"),
        ("x.foo()", "jobrun ops"),
        ("mine.step(x, 0.1)", "{call: 'mine:step', with: {…}, out: …}"),
        ("random.random()", "write rng.random"),
        ("random.randint(0, 3)", "write rng.integers(low, high, size)"),
        ("np.random.rand(3)", "write rng.random(size)"),
        ("np.append(a, b)", "write concatenate([a, b])"),
        ("torch.zeros(3)", "write zeros(…)"),
        ("(a + b).sum()", "write sum(a + b)"),
        ("np.sum(x)", "write sum"),
        ("np.linalg.norm(x)", "write norm"),
        ("np.random.normal(0, 1)", "write rng.normal"),
        ("math.sqrt(x)", "write sqrt"),
        ("np.pi", "write pi"),
        ("np.float32", "write float32"),
        ("np.newaxis", "write None"),
        ("print(x)", "log step"),
        ("range(3)", "arange"),
        ("sqroot(x)", "did you mean 'sqrt'?"),
        ("totally_unknown(x)", "jobrun ops"),
        ("rng.shuffle(x)", "x = rng.permutation(x)"),
        ("rng.randn(3)", "standard_normal"),
        ("rng.norml(3)", "did you mean 'normal'?"),
        ("rng.seed", "values have"),
        ("true", "write True"),
        ("null", "write None"),
        ("sum", "call it: sum(…)"),
        ("float", "as a dtype write float64"),
        ("rng", "rng.normal"),
        ("node", "node.name"),
        ("a.b.c", "T, shape, size, ndim, dtype"),
        ("max(a, b)", "maximum(a, b)"),
    ],
)
def test_the_mend_says_what_to_write(text, mend):
    assert mend in fault(expression, text)[3]


def test_every_refused_form_says_what_to_write():
    assert all(refusal.message and refusal.mend for refusal in UNSUPPORTED_FORMS.values())


@pytest.mark.parametrize("word", ["print", "str", "shape", "append", "zip", "fill"])
def test_what_is_said_to_be_no_function_is_none(word):
    assert word not in OPERATORS
    assert word not in DTYPES
    assert explain_unknown_function(word).mend


@pytest.mark.parametrize("word", ["shuffle", "randint", "spawn", "bytes"])
def test_what_is_said_to_be_no_draw_is_none(word):
    assert word not in DRAWS
    assert explain_unknown_draw(word).mend


@each_case("word", ["sum", "rng", "iter", "epoch", "node", "pi", "float32", "if", "None", "stop"])
def test_words_of_the_language_are_no_names_for_blobs(word):
    refused = find_name_refusal(word, {})

    assert refused is not None
    assert (refused.code, refused.mend) == ("E151", f"write for example '{word}_'")


def test_a_param_and_a_blob_cannot_have_one_name():
    refused = find_name_refusal("k", {"k": 3})

    assert refused is not None
    assert refused.code == "E150"


@pytest.mark.parametrize("word", ["w", "loss", "shape", "size", "gradient", "indices", "f"])
def test_everyday_words_are_free(word):
    assert find_name_refusal(word, {"k": 3}) is None


def test_functions_of_later_versions_are_not_reserved():
    assert {name for name in FUNCTIONS if OPERATORS[name].since != 1} == set()
    assert FUNCTIONS <= RESERVED
