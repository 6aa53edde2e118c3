from __future__ import annotations

import pickle
from typing import get_args

import pytest
from hypothesis import given
from msgspec import Struct

from jobrun.graph import expressions as expr
from jobrun.graph.expressions import BUILTINS, DTYPES, Call, Const, Expr, Hole, Name, OutputRead
from tests.support.expressions import trees


def test_every_form_is_a_member_of_the_union():
    forms = {
        member
        for member in vars(expr).values()
        if isinstance(member, type)
        and issubclass(member, Struct)
        and member.__module__ == expr.__name__
    }

    assert forms - {Hole} == set(get_args(Expr))


def test_places_take_no_part_in_comparison():
    assert Name("x", 3) == Name("x", 9)
    assert OutputRead("a", "b", at=1) == OutputRead("a", "b", at=2)
    assert hash(Call("exp", (Name("x", 1),), at=4)) == hash(Call("exp", (Name("x"),)))


def test_no_tree_can_be_changed():
    with pytest.raises(AttributeError):
        Name("x").name = "y"


@given(trees())
def test_a_tree_goes_to_another_process_and_back(tree):
    assert pickle.loads(pickle.dumps(tree)) == tree


def test_no_word_has_two_meanings():
    assert len({*DTYPES, *BUILTINS, *expr.ATTRIBUTES}) == sum(
        map(len, (DTYPES, BUILTINS, expr.ATTRIBUTES))
    )


def test_an_ellipsis_is_not_none():
    assert Const(None, ellipsis=True) != Const(None)
