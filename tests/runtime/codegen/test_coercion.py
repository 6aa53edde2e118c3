from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from jobrun.core.errors import TaskFailedError
from jobrun.runtime.codegen import coercion
from jobrun.runtime.codegen.coercion import as_blob_value, as_bool, as_count, as_own_value
from jobrun.values.kinds.counter import Counter


def test_a_fresh_array_is_kept_as_it_is():
    other, fresh = np.zeros(2), np.zeros(2)

    assert as_own_value(fresh, other) is fresh
    assert as_own_value(fresh) is fresh


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a[1:], lambda a: a[:2][1:], np.transpose])
def test_a_value_that_shares_memory_with_its_source_is_copied(view):
    source = np.zeros((3, 3))
    value = view(source)

    owned = as_own_value(value, source)

    assert not np.shares_memory(owned, source)


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a[1:], np.transpose])
def test_a_value_that_shares_memory_with_a_list_item_is_copied(view):
    items = [np.zeros((3, 3)), np.ones((3, 3))]
    value = view(items[1])

    assert not np.shares_memory(as_own_value(value, np.zeros(2), items), items[1])


def test_two_views_of_one_array_are_seen_to_share():
    whole = np.zeros(4)

    assert not np.shares_memory(as_own_value(whole[:3], whole[1:]), whole)


def test_a_view_of_nothing_that_is_a_source_is_kept():
    value = np.arange(6).reshape(2, 3)[:, [0, 2]]

    assert value.base is not None
    assert as_own_value(value, np.zeros(2)) is value


@pytest.mark.parametrize(
    "value", [np.broadcast_to(np.zeros(1), (3,)), sliding_window_view(np.zeros(3), 2)]
)
def test_a_broadcast_view_is_copied(value):
    owned = as_own_value(value)

    owned[...] = np.arange(owned.size).reshape(owned.shape)
    assert len(np.unique(owned)) == owned.size


def test_a_window_into_a_source_is_copied():
    source = np.zeros(4)
    window = sliding_window_view(source, 2, writeable=True)

    assert not np.shares_memory(as_own_value(window, source), source)


def test_copies_keep_the_order_of_the_axes():
    source = np.zeros((3, 4))

    assert as_own_value(source.T, source).flags.f_contiguous


def test_scalars_land_as_they_are():
    for value in (1, 1.5, True, 1j, "a", np.float32(1), np.datetime64("2020-01-01")):
        assert as_blob_value(value) is value


@pytest.mark.parametrize("dtype", ["f8,i4", (np.record, [("x", "f8")])])
def test_a_scalar_with_fields_lands_as_a_copy(dtype):
    table = np.zeros(2, dtype)
    row = as_blob_value(table[1])
    table[table.dtype.names[0]] = 7

    assert row[0] == 0


def test_a_mapped_file_is_refused_since_a_copy_is_no_longer_the_file(tmp_path):
    mapped = np.memmap(tmp_path / "x", np.int64, "w+", shape=(3,))

    with pytest.raises(TaskFailedError, match=r"E202.*memmap.*numpy\.array"):
        as_blob_value(mapped)


def test_a_counter_lands_as_one_of_its_own():
    counter = Counter(2)

    assert as_blob_value(counter).value == 2
    assert as_blob_value(counter) is not counter


@pytest.mark.parametrize(
    "value",
    [{1: memoryview(b"")}, object(), [object()], np.ma.zeros(2), np.array([{}])],
)
def test_a_value_that_no_blob_can_hold_is_refused(value):
    with pytest.raises(TaskFailedError) as caught:
        as_own_value(value)

    assert caught.value.faults[0].code == "E202"
    assert caught.value.faults[0].mend


@pytest.mark.parametrize("value", [True, np.bool_(True), np.array(True)])
def test_bools(value):
    assert as_bool(value) is True


@pytest.mark.parametrize("value", [1, 0, 1.0, "a", np.array([True]), np.int64(1), None])
def test_values_without_a_truth_value_are_refused(value):
    with pytest.raises(TaskFailedError, match="not a bool"):
        as_bool(value)


@pytest.mark.parametrize("value", [3, np.uint8(3), np.array(3)])
def test_counts(value):
    assert as_count(value) == 3
    assert type(as_count(value)) is int


@pytest.mark.parametrize("value", [True, 3.0, np.float64(3), np.array([3]), "3", np.bool_(True)])
def test_values_that_are_no_count_are_refused(value):
    with pytest.raises(TaskFailedError, match="not an integer"):
        as_count(value)


def test_powers_are_those_of_python_and_numpy():
    assert coercion.power(2, 10) == 1024
    assert coercion.power(2, -1) == 0.5
    assert coercion.power(np.array([2.0]), 2).tolist() == [4.0]
    assert coercion.shift_left(1, 4) == 16
    array = np.array([2, 3])
    assert coercion.IN_PLACE["**"](array, 2) is array
    assert coercion.IN_PLACE["<<"](array, 1) is array
    assert array.tolist() == [8, 18]


@pytest.mark.parametrize("function", [coercion.power, coercion.IN_PLACE["**"]])
def test_integers_that_would_take_minutes_are_refused(function):
    with pytest.raises(OverflowError, match="bits"):
        function(9, 9**9)


@pytest.mark.parametrize("function", [coercion.shift_left, coercion.IN_PLACE["<<"]])
def test_shifts_that_would_take_all_memory_are_refused(function):
    with pytest.raises(OverflowError, match="bits"):
        function(1, 10**12)
