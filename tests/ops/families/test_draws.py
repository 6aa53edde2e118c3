from __future__ import annotations

import inspect

import numpy as np
import pytest

from jobrun.graph.expr import Draw
from jobrun.ops.families.draws import DRAW_METHODS
from tests.support.expressions import expression, run_line

# In place, or handing the generator on.
LEFT_OUT = {"shuffle", "bytes", "spawn", "bit_generator"}


def _stream() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64DXSM(7))


@pytest.mark.parametrize("method", DRAW_METHODS, ids=lambda one: one.name)
class TestDraws:
    def test_it_says_what_it_draws(self, method):
        assert method.doc
        assert not method.doc.endswith(".")

    def test_its_example_draws_it(self, method):
        draw = expression(method.example)

        assert isinstance(draw, Draw)
        assert draw.method == method.name

    def test_equal_streams_give_equal_numbers(self, method):
        first, _, _ = run_line(method.example, _stream())
        second, _, _ = run_line(method.example, _stream())

        assert np.asarray(first).dtype == np.asarray(second).dtype
        assert np.array_equal(first, second)

    def test_its_signature_is_numpys(self, method):
        function = getattr(_stream(), method.name)
        text = (function.__doc__ or "").strip().split(")\n")[0].replace("\n", " ")
        there = [one.split("=")[0].strip() for one in text[text.index("(") + 1 :].split(",")]
        own = method.parameters
        positional = [name for name in there if name != "*"][: len(own.positional)]

        assert list(own.positional) == positional
        assert set(own.named) <= set(there)
        assert "out" not in own.keywords


def test_every_other_method_of_a_generator_was_left_out_on_purpose():
    public = {name for name, _ in inspect.getmembers(np.random.Generator) if name[0] != "_"}

    assert public - {method.name for method in DRAW_METHODS} == LEFT_OUT
