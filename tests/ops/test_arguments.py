from __future__ import annotations

import pytest

from jobrun.ops.abstract_values import (
    DTYPE,
    INDICES,
    NONE,
    Arguments,
    Known,
    MisfitError,
    UnclearError,
    axis_of,
    clash,
    integer,
    joint_shape,
    scalar,
    shape_text,
    sure,
    typed,
)

ARRAY = Known("float32", (2, 3))


def test_an_argument_that_is_none_is_absent():
    args = Arguments({"axis": Known(NONE, ()), "a": ARRAY})

    assert not args.has("axis")
    assert not args.has("out")
    assert args.axes("axis", 2) is None
    assert (args.shape("a"), args.dtype("a")) == ((2, 3), "float32")


def test_an_unknown_value_is_unclear():
    args = Arguments(
        {"k": Known("int64", ()), "flag": Known("bool", ()), "word": Known("text", ())}
    )
    for ask in (
        lambda: args.integer("k", 0),
        lambda: args.flag("flag"),
        lambda: args.word("word", ""),
        lambda: args.shape("b"),
        lambda: args.dtype("word"),
        lambda: sure(None),
    ):
        with pytest.raises(UnclearError):
            ask()


def test_values_are_read():
    args = Arguments(
        {"k": scalar(3), "flag": scalar(True), "word": scalar("full"),
         "dtype": Known(DTYPE, (), "int8"), "shape": Known(items=(scalar(2), Known("int64", ())))}
    )  # fmt: skip

    assert (args.integer("k", 0), args.integer("j", 7)) == (3, 7)
    assert (args.flag("flag"), args.flag("other")) == (True, False)
    assert args.word("word", "") == "full"
    assert args.asked_dtype() == "int8"
    assert args.lengths("shape") == (2, None)
    assert args.lengths("k") == (3,)


def test_an_axis_is_counted_from_both_ends():
    assert (axis_of(-1, 3), axis_of(0, 3)) == (2, 0)
    with pytest.raises(MisfitError) as caught:
        axis_of(3, 3)
    assert caught.value.code == INDICES


def test_a_bool_is_no_int():
    assert integer(scalar(True)) is None
    assert integer(scalar(2)) == 2


def test_unknown_lengths_clash_with_nothing():
    assert clash(2, 3)
    assert not clash(None, 3)
    assert joint_shape((None, 3), (4, 1)) == (4, 3)
    assert (shape_text((None, 3)), shape_text((2,)), shape_text(())) == ("(?, 3)", "(2,)", "()")


def test_a_dtype_is_found_where_the_shape_is_not():
    rule = typed(lambda arguments: arguments.dtype("a"), lambda arguments: arguments.shape("b"))

    assert rule(Arguments({"a": ARRAY})) == Known("float32")
