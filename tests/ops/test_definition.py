from __future__ import annotations

import pytest

from jobrun.ops.definition import DrawDef, OpDef, parse_signature


def test_a_signature_lists_positional_and_keyword_parameters():
    signature = parse_signature("(a, b, /, c, d=1, *rest, e, f=2)")

    assert signature.positional == ("a", "b", "c", "d")
    assert signature.keywords == ("c", "d", "e", "f")
    assert signature.required == {"a", "b", "c", "e"}
    assert signature.variadic
    assert not signature.too_many(99)
    assert [signature.parameter(at) for at in (0, 3, 4)] == ["a", "d", ""]


def test_a_signature_lists_missing_and_surplus_arguments():
    signature = parse_signature("(a, b, axis=None)")

    assert signature.missing(1, ()) == ("b",)
    assert signature.missing(0, ("b",)) == ("a",)
    assert signature.missing(1, ("b", "axis")) == ()
    assert signature.too_many(4)
    assert not signature.too_many(3)


@pytest.mark.parametrize("text", ["(a: )", "(1)", "(a b)", "(a=1, b)"])
def test_an_invalid_signature_is_an_error(text):
    with pytest.raises(SyntaxError):
        parse_signature(text)


def test_operators_and_draws_know_their_parameters():
    operator = OpDef("f", "(x, /)", "m:f", "does f", "f(1)")
    draw = DrawDef("g", "(size=None)", "draws g", "rng.g()")

    assert operator.parameters.unnamed == 1
    assert draw.parameters.keywords == ("size",)
