"""Tests of the nested fields that ``formats.headers`` finds in structured dtypes."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.formats.headers import field_dtype, field_names, locate_field, name_splits

PEOPLE = np.dtype(
    {
        "names": ["id", "pos", "v"],
        "formats": ["<i8", [("x", "<f8"), ("y", "<f4", (2,))], ("<f8", (3,))],
        "offsets": [0, 16, 40],
        "itemsize": 80,
    }
)
FORM = (repr(PEOPLE.descr), (6,))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (("id",), ("<i8", (6,))),
        (("v",), ("<f8", (6, 3))),
        (("pos", "x"), ("<f8", (6,))),
        (("pos", "y"), ("<f4", (6, 2))),
        (("z",), None),
        (("id", "x"), None),
        (("",), None),
    ],
)
def test_a_field_has_a_dtype_and_the_axes_of_all_around_it(fields, expected):
    assert field_dtype(FORM, fields) == expected


def test_a_field_of_records_is_a_form_of_records():
    dtype, shape = field_dtype(FORM, ("pos",))
    assert (field_dtype((dtype, shape), ("y",)), shape) == (("<f4", (6, 2)), (6,))


def test_a_title_is_not_the_name():
    assert field_dtype((repr([(("title", "name"), "<f8")]), (2,)), ("name",)) == ("<f8", (2,))


def test_plain_numbers_have_no_fields():
    assert field_dtype(("<f8", (3,)), ("x",)) is None
    assert field_names("a", ("<f8", (3,))) == ()


def test_padding_fields_have_no_name():
    assert field_names("p", FORM) == ("p/id", "p/pos/x", "p/pos/y", "p/v")
    assert field_names("", FORM)[0] == "id"


def test_the_longest_member_comes_first():
    assert [*name_splits("a/b/c", alone=False)] == [("a/b", ("c",)), ("a", ("b", "c"))]
    assert [*name_splits("a", alone=True)] == [("", ("a",))]


def test_a_name_means_fields_of_the_longest_member_there_is():
    members = {"a": FORM, "a/pos": (repr([("x", "<i2")]), (4,))}

    assert locate_field("a/pos/x", members.get, alone=False) == ("a/pos", ("x",))
    assert locate_field("a/v", members.get, alone=False) == ("a", ("v",))
    assert locate_field("a/pos/q", members.get, alone=False) is None
    assert locate_field("b/x", members.get, alone=False) is None
