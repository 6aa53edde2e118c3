"""What callables keep of blobs' values: found by references, and refused when it changes."""

from __future__ import annotations

import time
from collections import OrderedDict, defaultdict, deque

import numpy as np
import pytest

import jobrun
from jobrun.core.errors import TaskFailedError
from jobrun.runtime.context.frame import Blobs
from jobrun.runtime.snapshots.kept_references import KeptValues, find_kept
from jobrun.session.threads.session import ThreadsSession
from jobrun.values.copies import detach
from tests.support.thinning import thinned


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
    assert found([{"x": inner}], is_kept=True) == [(), ("0", "x")]


def make_list():
    return [1]


class Model:
    def __init__(self, config):
        self.config = config


class Slotted:
    __slots__ = ("config",)

    def __init__(self, config):
        self.config = config


jobrun.adapt(Model)
jobrun.adapt(Slotted)


def in_object_array(value):
    array = np.empty(2, object)
    array[0] = value
    return array


@pytest.mark.parametrize(
    ("hold", "path"),
    [
        (lambda one: deque([one, 1]), ("0",)),
        (lambda one: defaultdict(list, {"a": one}), ("a",)),
        (lambda one: OrderedDict(a=one), ("a",)),
        (lambda one: {"o": in_object_array(one)}, ("o", "0")),
        (lambda one: {"m": Model(one)}, ("m", "config")),
        (lambda one: [Slotted(one)], ("0", "config")),
    ],
)
def test_parts_inside_other_values_than_lists_and_dicts_are_found(hold, path):
    inner = [1]
    # By hand: an assertion keeps what is written in it.
    with_kept, without = found(hold(inner)), found(hold(make_list()))

    assert with_kept == [path]
    assert without == []


def test_arrays_of_a_sparse_matrix_are_found():
    sparse = pytest.importorskip("scipy.sparse")
    value = {"m": sparse.csr_matrix(np.eye(3))}
    without = found(value)
    data = value["m"].data
    with_kept = found(value)

    assert without == []
    assert with_kept == [("m", "data")]
    assert data.shape == (3,)


def test_what_cannot_change_is_not_found():
    shape, name = (3, 4), "n"

    assert found({"shape": shape, "name": name, "function": len, "kind": np.dtype("f8")}) == []


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
        self.blobs = Blobs(b=detach(value))
        self.kept = KeptValues()
        self.note()

    def note(self, blob="b", *, is_new=True):
        parts = find_kept(self.value, is_kept=True)
        again = "was returned again by 'm:f'"
        self.kept.note(self.blobs, blob, parts, "'m:f' returned in epoch 2", again, is_new=is_new)

    def call(self, *, reads=("b",), binds=(), wholly=False):
        arguments, outputs = ({(id(self.blobs), one) for one in names} for names in (reads, binds))
        self.kept.require_same_before_call(outputs, "was changed before 'm:g' began")
        when = "was changed by 'm:g' in epoch 3"
        self.kept.require_same_after_call(arguments, outputs, when, wholly=wholly)

    def save(self, *, wholly=False):
        self.kept.require_all_same(self.blobs, "was changed before this save", wholly=wholly)

    @property
    def part(self):
        ((one,),) = [entry.parts for entry in self.kept._entries.values()]
        return one

    def grow_old(self):
        self.part.looks = 1000
        self.part.seconds = 1000.0
        self.kept._looked = time.perf_counter()


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
        keeper.call()
        change(keeper.value)
        with pytest.raises(TaskFailedError) as caught:
            keeper.call()
        assert caught.value.faults[0].code == "E246"
        text = caught.value.faults[0].message
        assert "that 'm:f' returned in epoch 2 as 'b', and kept, was changed by 'm:g'" in text


def test_another_blob_than_an_argument_is_refused_when_it_is_read_next():
    keeper = Keeper([1])
    keeper.value.append(2)
    keeper.call(reads=())

    assert "b" not in keeper.blobs
    with pytest.raises(TaskFailedError, match="was changed by 'm:g'"):
        keeper.blobs["b"]
    with pytest.raises(TaskFailedError, match="was changed by 'm:g'"):
        keeper.save()
    with pytest.raises(TaskFailedError, match="was changed by 'm:g'"):
        keeper.kept.follow(keeper.blobs, "b", None, [1])


def test_a_blob_that_gets_another_value_before_it_is_read_is_not_refused():
    keeper = Keeper([1])
    keeper.value.append(2)
    keeper.call(reads=())
    keeper.blobs["b"] = [3]
    keeper.call()
    keeper.save(wholly=True)

    assert keeper.blobs["b"] == [3]
    assert not keeper.kept


def test_a_buffer_that_a_callable_fills_and_returns_again_is_not_refused():
    for value in (np.zeros(3), np.zeros(1 << 18)):
        keeper = Keeper(value)
        for number in range(100):
            keeper.call(reads=())
            keeper.value.fill(number)
            keeper.call(reads=(), binds=("b",))
            keeper.blobs["b"] = detach(keeper.value)
            keeper.note()
        assert keeper.blobs["b"][0] == 99


def test_what_is_returned_again_is_refused_after_a_step_has_changed_its_blob():
    keeper = Keeper(np.ones(3))
    keeper.note("again")
    keeper.blobs["b"] *= 2
    with pytest.raises(TaskFailedError, match="was returned again by 'm:f' after a step"):
        keeper.note("again")


def test_what_is_returned_again_is_refused_after_the_workspace_of_its_changed_blob_is_gone():
    keeper = Keeper(np.ones(3))
    keeper.blobs["b"] *= 2
    keeper.blobs = Blobs(b=detach(keeper.value))
    keeper.call()
    with pytest.raises(TaskFailedError, match="returned in epoch 2 as 'b'"):
        keeper.note()


def test_what_is_returned_again_and_was_not_changed_is_not_refused():
    keeper = Keeper(np.ones(3))
    for _ in range(3):
        keeper.blobs = Blobs(b=detach(keeper.value))
        keeper.call()
        keeper.note()

    assert keeper.kept


def test_all_of_a_large_array_is_compared_at_first_and_before_the_run_ends():
    for look in (Keeper.call, lambda keeper: keeper.save(wholly=True)):
        keeper = Keeper({"a": np.zeros(1 << 20)})
        if look is not Keeper.call:
            keeper.grow_old()
        keeper.value["a"][5] = 1
        with pytest.raises(TaskFailedError):
            look(keeper)


def test_of_a_large_array_samples_are_compared_later_while_there_is_no_time():
    keeper = Keeper({"a": np.zeros(1 << 20)})
    keeper.grow_old()
    keeper.value["a"][5] = 1
    keeper.call()
    keeper.save()
    keeper.value["a"] += 1
    with pytest.raises(TaskFailedError):
        keeper.call()


def test_a_large_array_that_was_not_compared_is_refused_when_its_blob_has_another_value():
    keeper = Keeper(np.zeros(1 << 20))
    keeper.grow_old()
    keeper.value[5] = 1
    keeper.call()
    keeper.blobs["b"] = 1.0
    with pytest.raises(TaskFailedError, match="maybe before the blob got another value"):
        keeper.call()


@pytest.mark.parametrize("count", thinned([1000, 3000], 2))
def test_thousands_of_kept_parts_are_watched(count):
    keeper = Keeper({str(number): [number] for number in range(count)})
    lists = list(keeper.value.values())
    parts = find_kept(keeper.value, is_kept=False)
    again = "was returned again"
    keeper.kept.note(keeper.blobs, "b", parts, "'m:f' returned", again, is_new=True)
    lists[7].append(1)
    with pytest.raises(TaskFailedError, match="'b/7'"):
        keeper.call()


def test_what_is_kept_of_a_value_that_the_blob_no_longer_has_may_change():
    keeper = Keeper([1])
    keeper.blobs["b"] = [1]
    keeper.value.append(2)
    keeper.call()

    assert not keeper.kept


def test_what_is_not_kept_any_more_is_forgotten():
    for make in (lambda: [1], lambda: np.zeros(3), lambda: np.zeros(3)[1:]):
        keeper = Keeper(make())
        assert keeper.kept
        keeper.value = None
        keeper.call()
        assert not keeper.kept


def test_a_blob_is_followed_into_the_copy_of_its_value():
    keeper = Keeper([1])
    copy = [1]
    keeper.kept.follow_all(keeper.blobs, keeper.blobs, {"b": copy})
    keeper.blobs["b"] = copy
    keeper.value.append(2)
    with pytest.raises(TaskFailedError):
        keeper.call()


def test_what_was_not_compared_is_compared_when_a_session_settles_finally():
    keeper = Keeper(np.zeros(1 << 20))
    keeper.grow_old()
    keeper.value[5] = 1
    keeper.call()
    session = ThreadsSession()
    session._workspaces = {"n": keeper.blobs}
    session._savings.kept_references = keeper.kept
    session.settle({"n": ("b",)})

    with pytest.raises(TaskFailedError, match="was changed before the last epoch ended"):
        session.settle({"n": ("b",)}, final=True)
