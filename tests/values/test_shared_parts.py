"""Two ways to one mutable thing: found in memory, among generators, and among objects."""

from __future__ import annotations

import array
import random
import time

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.values.copies import detach
from jobrun.values.overlapping_arrays import find_overlapping
from jobrun.values.shared_parts import (
    find_common_part,
    find_shared_parts,
    render_place,
)
from tests.support.tables import each_case

BUF = np.arange(24.0)
TABLE = np.zeros(3, "i1,f8")
SQUARE = np.arange(64.0).reshape(8, 8)


class Estimator:
    def __init__(self, **parts):
        vars(self).update(parts)

    def get_params(self, deep=True):
        return {}

    def set_params(self):
        pass

    def fit(self):
        pass


class Stateful:
    def __init__(self, **parts):
        vars(self).update(parts)

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


@each_case(
    ("first", "second", "shares"),
    [
        (BUF, BUF[:2], True),
        (BUF[:3], BUF[2:], True),
        (BUF[:3], BUF[3:], False),
        (BUF[::2], BUF[1::2], False),
        (SQUARE[:, 0], SQUARE[:, 1], False),
        (SQUARE[::-1, ::-2], SQUARE[2:4, 1], True),
        (TABLE, TABLE[1], True),
        (TABLE[1], TABLE[1], True),
        (TABLE[0], TABLE[1], False),
        (BUF, BUF, True),
        (BUF, BUF.copy(), False),
        (BUF.view(np.uint8), BUF, True),
        (np.zeros((0, 3)), BUF, False),
        (np.frombuffer(b"abc", np.uint8), np.frombuffer(b"abc", np.uint8), False),
    ],
)
def test_arrays_with_elements_in_common_are_found(first, second, shares):
    overlapping = find_overlapping({("a",): first, ("b", "x"): second, ("c",): 3})

    assert overlapping == ([(("a",), ("b", "x"))] if shares else [])


def test_one_array_at_two_places_may_be_meant():
    assert find_overlapping({("a",): BUF, ("b",): BUF}, identical=False) == []


def test_many_columns_are_looked_at_in_little_time():
    wide = np.zeros((50, 2000))
    arrays = {("t", str(at)): wide[:, at] for at in range(2000)}
    begun = time.process_time()

    assert find_overlapping(arrays) == []
    assert [second for _, second in find_overlapping({**arrays, ("u",): wide[3]})] == [("u",)]
    assert time.process_time() - begun < 5


def test_a_generator_that_two_objects_have_is_found():
    r = np.random.RandomState(0)

    (pair,), _ = find_shared_parts({"r": r, "k": Estimator(random_state=r)})

    assert sorted(map(render_place, pair)) == ["'k'.random_state", "'r'"]


def test_generators_with_one_bit_generator_are_one():
    bits = np.random.PCG64(1)
    roots = {"g": np.random.Generator(bits), "r": np.random.RandomState(bits)}

    assert len(find_shared_parts(roots)[0]) == 1
    apart = {"g": np.random.default_rng(1), "r": np.random.default_rng(1)}
    assert find_shared_parts(apart)[0] == []


def test_what_objects_hold_is_followed_through_containers_and_other_objects():
    inner, draws = Stateful(), random.Random(1)
    deep = Stateful(parts=[{"x": Stateful(rng=draws)}], inner=inner)

    actual, _ = find_shared_parts({"inner": inner, "deep": deep, "draws": draws})

    assert {render_place(value) for pair in actual for value in pair} == {
        "'deep'.inner",
        "'inner'",
        "'deep'.parts.0.x.rng",
        "'draws'",
    }


R, BITS = np.random.RandomState(0), np.random.PCG64(1)


@each_case(
    ("container", "value", "paths"),
    [
        ([1, R], R, (("1",), ())),
        ({"a": [R]}, Estimator(random_state=R), (("a", "0"), ("random_state",))),
        ([np.random.Generator(BITS)], np.random.RandomState(BITS), (("0",), ())),
        (
            [np.random.Generator(BITS)],
            (1, {"r": np.random.RandomState(BITS)}),
            (("0",), ("1", "r")),
        ),
        ([np.random.RandomState(0)], R, None),
        ([random.Random(1)], random.Random(1), None),
    ],
)
def test_an_object_in_a_container_and_by_itself_is_common(container, value, paths):
    assert find_common_part(container, value) == paths
    assert find_common_part(value, container) == (paths and paths[::-1])


def test_two_names_of_an_estimator_for_its_own_generator_are_kept_by_its_state():
    r = np.random.RandomState(0)

    assert find_shared_parts({"k": Estimator(random_state=r, random_state_=r)})[0] == []
    assert len(find_shared_parts({"k": Estimator(random_state=r, random_state_=r), "r": r})[0]) == 1


def _make_zero_copies():
    """Make, by name, a value that an adapter copies and an array over the same memory."""
    pandas = pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    table, numbers, growing = np.zeros((3, 2)), np.arange(3), bytearray(8)
    masked = pandas.arrays.IntegerArray(numbers, np.zeros(3, bool))
    packed = array.array("d", [1, 2])
    labels = pandas.Index(numbers, copy=False)
    chunked = pandas.arrays.ArrowExtensionArray(pyarrow.array(numbers))
    return {
        "frame": (pandas.DataFrame(table, copy=False), table),
        "column": (pandas.DataFrame({"x": numbers}, copy=False), numbers),
        "series": (pandas.Series(numbers, copy=False), numbers[1:]),
        "masked": (pandas.Series(masked, copy=False), numbers),
        "arrow": (pandas.Series(chunked), numbers),
        "index": (labels, numbers),
        "labels": (pandas.DataFrame({"x": [1, 2, 3]}, index=labels), numbers),
        "bytearray": (growing, np.frombuffer(growing, np.uint8)),
        "array.array": (packed, np.frombuffer(packed)),
    }


def test_a_value_that_its_adapter_copies_shares_memory_with_an_array():
    for name, (value, memory) in _make_zero_copies().items():
        for held in ({"memory": memory, "value": value}, {"value": value, "z": [memory]}):
            with pytest.raises(TaskFailedError) as caught:
                detach(held, "s")
            assert caught.value.faults[0].code == "E258", name
            assert "'s/value'" in str(caught.value), name
        assert find_common_part(value, memory) is not None, name
        here, there = find_common_part([memory], {"v": value})
        assert (here, there[0]) == (("0",), "v"), name


def test_an_array_of_jax_shares_the_memory_that_it_took_over():
    jax = pytest.importorskip("jax")
    # JAX takes over memory that begins at a multiple of 64 bytes.
    room = np.zeros(64 + 16, np.float32)
    begin = -room.ctypes.data % 64 // 4
    memory = room[begin : begin + 64]
    taken = jax.device_put(memory, may_alias=True)
    shares = np.shares_memory(np.asarray(taken), memory)
    assert shares
    with pytest.raises(TaskFailedError, match="'s/taken' shares memory with 's/memory'"):
        detach({"memory": memory, "taken": taken}, "s")
    created = jax.numpy.zeros(3)
    detach({"made": created, "again": created, "seen": np.asarray(created)}, "s")


def test_frames_that_copy_before_they_write_share_nothing():
    pandas = pytest.importorskip("pandas", "3")
    frame = pandas.DataFrame({"x": [1.0, 2.0], "y": ["a", "b"]}, index=[5, 6])
    parts = {
        "frame": frame,
        "part": frame[["x"]],
        "series": frame["x"],
        "index": frame.index,
        # Neither of the two can change the memory.
        "labels": frame.index.to_numpy(),
    }
    assert detach(parts, "s").keys() == parts.keys()
    assert find_common_part(frame, frame["x"]) is None
    assert find_common_part(frame.index, frame.index) is None


def test_a_bytearray_can_grow_after_it_was_compared():
    growing = bytearray(8)
    detach({"a": np.zeros(2), "growing": growing}, "s")
    growing.append(1)
    assert len(growing) == 9


def test_attributes_of_an_object_that_its_adapter_copies_share_memory():
    growing = bytearray(8)
    stateful = Stateful(growing=growing, seen=np.frombuffer(growing, np.uint8))
    _, held = find_shared_parts({"k": stateful})

    assert find_overlapping({("k", "seen"): stateful.seen}, held) == [
        (("k", "growing"), ("k", "seen"))
    ]
    assert find_common_part(stateful, stateful.seen) is not None
