"""What is said of a draw is what the generator gives."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from jobrun.graph.expressions import Draw
from jobrun.ops.abstract_values import Arguments, MisfitError, UnclearError
from jobrun.ops.declarations.draws import DRAW_METHODS
from jobrun.ops.operator_table import DRAWS
from tests.support.expressions import expression, run_line
from tests.support.sampling import agree, known_of
from tests.support.tables import check_each

# In place, or handing the generator on.
LEFT_OUT = {"shuffle", "bytes", "spawn", "bit_generator"}


def _stream() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64DXSM(7))


def _check_doc(method):
    assert method.doc
    assert not method.doc.endswith(".")


def _check_example(method):
    draw = expression(method.example)
    assert isinstance(draw, Draw)
    assert draw.method == method.name


def _check_determinism(method):
    first, _, _ = run_line(method.example, _stream())
    second, _, _ = run_line(method.example, _stream())

    assert np.asarray(first).dtype == np.asarray(second).dtype
    assert np.array_equal(first, second)


def _check_signature(method):
    function = getattr(_stream(), method.name)
    text = (function.__doc__ or "").strip().split(")\n")[0].replace("\n", " ")
    there = [part.split("=")[0].strip() for part in text[text.index("(") + 1 :].split(",")]
    parameters = method.parameters
    positional = [name for name in there if name != "*"][: len(parameters.positional)]

    assert list(parameters.positional) == positional
    assert set(parameters.named) <= set(there)
    assert "out" not in parameters.keywords


@pytest.mark.parametrize(
    "check", [_check_doc, _check_example, _check_determinism, _check_signature]
)
def test_every_draw_passes(check):
    check_each(DRAW_METHODS, check)


def test_every_other_method_of_a_generator_was_left_out_on_purpose():
    public = {name for name, _ in inspect.getmembers(np.random.Generator) if name[0] != "_"}

    assert public - {method.name for method in DRAW_METHODS} == LEFT_OUT


def _check_rule(draw):
    result, args, kwargs = run_line(draw.example, np.random.default_rng(1))
    arguments = {
        name: known_of(argument)
        for name, argument in zip(draw.parameters.positional, args, strict=False)
    }
    arguments |= {name: known_of(kwarg) for name, kwarg in kwargs.items()}

    try:
        actual = draw.rule(Arguments(arguments)) if draw.rule is not None else None
    except UnclearError:
        actual = None

    assert list(agree(actual, result)) == []


def test_each_rule_says_what_the_example_gives():
    check_each(DRAW_METHODS, _check_rule)


def test_a_negative_size_is_reported():
    with pytest.raises(MisfitError, match="-2"):
        DRAWS["normal"].rule(Arguments({"size": known_of(-2)}))
