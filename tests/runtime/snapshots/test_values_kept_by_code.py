"""What callables keep of blobs' values: found by references, and refused when it changes."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.runtime.snapshots.values_kept_by_code import KeptValues, find_kept


def found(value, *, is_kept=False):
    return [path for path, _ in find_kept(value, is_kept=is_kept)]


def test_parts_that_something_else_refers_to_are_found():
    inner, whole = [1], np.zeros(4)
    view = np.zeros(3)[:2]

    assert found({"a": [[2], np.zeros(2)], "b": ({"c": [3]},)}) == []
    assert found({"a": [inner, np.zeros(2)], "b": [inner]}) == [("a", "0")]
    assert found([whole[1:], {"d": whole}]) == [("1", "d")]
    assert found([whole[1:], {"d": whole[:2]}]) == [("0",), ("1", "d")]
    assert found(whole[1:]) == [()]
    assert found({"view": view}) == [("view",)]
    assert found([{"x": inner}], is_kept=True) == [()]


def test_what_a_value_shares_within_itself_is_not_kept():
    def make():
        array, items = np.zeros(4), [1, 2]
        return {"array": array, "again": array, "view": array[1:], "items": [items, items]}

    assert found(make()) == []
    assert found([np.zeros(3)[:2]]) == []
    assert found(np.zeros(3)[:2]) == []


class Keeper:
    """A callable's memory, and what jobrun notes of it."""

    def __init__(self, value):
        self.value = value
        self.bound = object()
        self.kept = KeptValues()
        parts = find_kept(self.value, is_kept=True)
        self.kept.note("n", "b", self.bound, parts, "'m:f' returned in epoch 2", is_new=True)

    def look(self, bound=None, *, wholly=False):
        bound = self.bound if bound is None else bound
        self.kept.require_same("n", "b", bound, "was changed by 'm:g' in epoch 3", wholly=wholly)


def test_a_change_of_what_is_kept_is_refused_with_who_and_when():
    for value, change in (
        ([1, 2], lambda one: one.append(3)),
        ([1, np.zeros(2)], lambda one: one[1].fill(1)),
        ({"a": {"b": 1.0}}, lambda one: one["a"].update(b=-1.0)),
        (np.zeros(3), lambda one: one.fill(1)),
        ({1, 2}, lambda one: one.add(3)),
        (bytearray(3), lambda one: one.append(3)),
    ):
        keeper = Keeper(value)
        keeper.look()
        change(keeper.value)
        with pytest.raises(TaskFailedError) as caught:
            keeper.look()
        assert caught.value.faults[0].code == "E246"
        text = caught.value.faults[0].message
        assert "that 'm:f' returned in epoch 2 as 'b', and kept, was changed by 'm:g'" in text


def test_a_change_of_one_item_of_a_large_array_is_refused_at_a_save():
    keeper = Keeper({"a": np.zeros(1 << 20)})
    keeper.value["a"][5] = 1
    keeper.look()
    (part,) = keeper.kept._entries["n", "b"].parts
    part.looked -= 1000 * part.seconds
    with pytest.raises(TaskFailedError):
        keeper.look(wholly=True)

    keeper = Keeper(np.zeros(1 << 20))
    keeper.value += 1
    with pytest.raises(TaskFailedError):
        keeper.look()


def test_what_is_kept_of_a_value_that_the_blob_no_longer_has_may_change():
    keeper = Keeper([1])
    keeper.value.append(2)
    keeper.look(bound=object())

    assert not keeper.kept


def test_what_is_not_kept_any_more_is_forgotten():
    for make in (lambda: [1], lambda: np.zeros(3), lambda: np.zeros(3)[1:]):
        keeper = Keeper(make())
        assert keeper.kept
        keeper.value = None
        keeper.look()
        assert not keeper.kept


def test_a_blob_is_followed_into_the_copy_of_its_value():
    keeper = Keeper([1])
    copy = object()
    keeper.kept.follow_all("n", {"b": keeper.bound}, {"b": copy})
    keeper.value.append(2)
    with pytest.raises(TaskFailedError):
        keeper.look(bound=copy)
