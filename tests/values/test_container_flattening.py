from __future__ import annotations

import collections
import json

import numpy as np
import pytest

from jobrun.values.adapters.registry import UnsavableError
from jobrun.values.compare import same_bits
from jobrun.values.container_flattening import (
    describe_tree,
    flatten,
    is_tree,
    unflatten,
)
from jobrun.values.copies import detach
from jobrun.values.kinds.counter import Counter
from tests.support.tables import each_case


def back(value):
    parts = flatten(value)
    return unflatten(json.loads(json.dumps(parts.structure)), parts.leaves)


@each_case(
    "value",
    [
        {},
        [],
        (),
        b"",
        b"x\0y",
        {"a": 1, "b": [2.5, None, "text"], "c": (True, 1j)},
        {1: "number", "1": "text", "": {".": {"/": 2}}},
        [1.0, 2.0],
        (3, 2**62),
        [2**70, 1],
        [True, 1],
        {"p": [float("nan"), -0.0], "q": float("inf")},
        collections.OrderedDict(b=1, a=2),
        collections.Counter({30: 1, 80: 2}),
        {"n": np.float32(0.1), "t": np.str_("t\0"), "d": np.datetime64("2026-01-01")},
        {"deep": [[[[[{}]]]]]},
        {"a/b": {"c": 1}, "a": {"b/c": 2}},
        {":structure": 1},
    ],
)
def test_a_container_comes_back_as_it_was(value):
    again = back(value)

    assert type(again) is type(value)
    assert same_bits(again, value)
    assert repr(again) == repr(value)


def test_kinds_of_numbers_are_kept():
    again = back({"a": [1, 2], "b": [1.0, 2.0], "c": (1, 2.0), "d": np.array(1), "e": np.int64(1)})

    assert [type(value) for value in again["a"] + again["b"]] == [int, int, float, float]
    assert [type(value) for value in again["c"]] == [int, float]
    assert isinstance(again["d"], np.ndarray)
    assert type(again["e"]) is np.int64


def test_what_is_shared_inside_stays_shared():
    array, items = np.arange(3), [1, {}]

    again = back({"first": array, "second": (array,), "x": items, "y": items})

    assert again["first"] is again["second"][0]
    assert again["x"] is again["y"]


def test_a_scalar_with_fields_that_is_at_two_places_stays_one():
    row = np.zeros(2, "i4,f8")[1]

    again = detach([row, {"same": row}])
    again[0]["f0"] = 3

    assert again[1]["same"]["f0"] == 3


def test_a_list_may_contain_itself():
    knot = [1]
    knot.append(knot)

    again = back(knot)

    assert again[1] is again


def test_equal_numbers_in_a_list_are_one_leaf():
    assert list(flatten({"a": list(range(1000))}).leaves) == [("a",)]


@pytest.mark.parametrize(
    ("value", "path", "part"),
    [
        ({"f": {"g": [lambda: 0]}}, ("f", "g", "0"), "function"),
        ({"s": memoryview(b"a")}, ("s",), "class memoryview"),
        ([np.array([object()])], ("0", "items", "0"), "class object"),
        ({(1, object): 3, lambda: 0: 1}, (), "lambda"),
        ({"m": np.ma.zeros(2)}, ("m",), "MaskedArray"),
    ],
)
def test_what_cannot_be_kept_is_named_with_its_place(value, path, part):
    with pytest.raises(UnsavableError) as caught:
        flatten(value)

    assert caught.value.path == path
    assert part in caught.value.what


def test_a_tuple_that_contains_itself_and_endless_depth_are_refused():
    knot: list[object] = []
    knot.append((knot,))
    deep: list[object] = []
    for _ in range(300):
        deep = [deep]

    assert back(knot)[0][0] is not None
    with pytest.raises(UnsavableError, match="deep"):
        flatten(deep)


@each_case(
    ("structure", "leaves"),
    [
        ({"dict": [["a", "value"]]}, {}),
        ({"dict": []}, {("a",): 1}),
        ({"set": []}, {}),
        ({"dict": [["a", {"same": ["b"]}]]}, {}),
        ({"dict": [["a", "bytes"]]}, {("a",): 1}),
        ({"dict": [["a", {"packed": "set"}]]}, {("a",): np.zeros(1)}),
        ({"dict": 3}, {}),
        ({"dict": [], "class": "eval"}, {}),
        ([1], {}),
    ],
)
def test_a_structure_that_fits_nothing_is_refused(structure, leaves):
    with pytest.raises(ValueError, match=r"structure|array"):
        unflatten(structure, leaves)


def test_a_copy_shares_nothing():
    value = {"a": np.zeros(2), "l": [1, None]}

    other = detach(value)
    other["a"][0] = 1
    other["l"].append(2)

    assert value["a"][0] == 0
    assert value["l"] == [1, None]


def test_a_leaf_is_the_memory_of_what_was_there():
    array = np.zeros(4)

    assert flatten({"a": array}).leaves["a",] is array


def test_trees_are_described_in_words():
    assert describe_tree({"a": 1}) == "dict of 1"
    assert describe_tree(b"ab") == "bytes, 2 of them"
    assert describe_tree((1, 2)) == "tuple of 2"


def test_a_single_value_is_no_tree():
    assert not any(map(is_tree, (1, "a", np.zeros(1), Counter(1))))
    assert all(map(is_tree, ({}, [], (), b"", None)))


def test_key_that_python_cannot_write_in_decimal_is_refused_by_name():
    with pytest.raises(UnsavableError) as caught:
        flatten({"x": {10**5000: 1}})

    assert caught.value.path == ("x",)
    assert "key" in caught.value.what
