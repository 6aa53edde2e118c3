"""Memory for copies: where they lie, that they are exact, and that it is not taken twice."""

from __future__ import annotations

import itertools
import mmap
import weakref

import numpy as np
import pytest

from jobrun.checkpoint.write import direct_io, snapshot_arena
from jobrun.checkpoint.write.snapshot_arena import Arena
from jobrun.values.axis_order import axis_order
from jobrun.values.compare import same_bits

ARRAYS = {
    "dates": np.array(["2026-11-21", "NaT"], "datetime64[D]"),
    "empty": np.zeros((0, 3)),
    "flag": np.array(True),
    "large": np.arange(1 << 14, dtype=np.float64).reshape(2, -1),
    "nan": np.array([np.nan, -0.0, 0.0]),
    "record": np.array([(1, 2.5)], np.dtype([("a", "i1"), ("b", "f8")], align=True)),
    "swapped": np.arange(3, dtype=">i4"),
    "turned": np.arange(6.0).reshape(2, 3).T,
    "text": np.array(["a", "bcd"]),
    "wide": np.ones(2, np.longdouble),
}


def copies(arena, arrays):
    arena.prepare(arrays)
    return copy_all(arena, arrays)


def copy_all(arena, arrays):
    copied = {}
    for names in arena.turns:
        copied |= arena.copy(names, arrays)
    return copied


def address(array):
    return array.__array_interface__["data"][0]


def test_copies_are_exact_and_share_nothing():
    copied = copies(Arena(), ARRAYS)

    for name, array in ARRAYS.items():
        assert same_bits(copied[name], array), name
        assert not np.shares_memory(copied[name], array)
    spans = sorted((address(array), array.nbytes) for array in copied.values() if array.nbytes)
    assert all(a + size <= b for (a, size), (b, _) in itertools.pairwise(spans))


def test_copies_have_the_axis_order_of_what_is_copied():
    large = np.asfortranarray(np.arange(1 << 16).reshape(4, 1 << 7, -1)).transpose(1, 0, 2)
    arrays = {**ARRAYS, "permuted": large}
    copied = copies(Arena(), arrays)

    assert all(axis_order(copied[name]) == axis_order(arrays[name]) for name in arrays)


def test_the_same_memory_serves_every_save():
    arena = Arena()
    first = copies(arena, ARRAYS)
    size = arena.size_bytes

    second = copy_all(arena, {name: array.copy(order="K") for name, array in ARRAYS.items()})

    assert all(second[name] is first[name] for name in ARRAYS)
    assert arena.size_bytes == size


def test_places_serve_again_for_the_same_key_and_the_same_lead_alone():
    arena = Arena()
    arena.prepare(ARRAYS, 16, "key")

    assert arena.is_prepared("key", 16)
    assert not arena.is_prepared("other", 16)
    assert not arena.is_prepared("key", 32)


def test_an_array_that_became_longer_does_not_shift_the_copies_behind_it():
    arrays = {name: np.full(4, number, np.int64) for number, name in enumerate("abc")}
    arena = Arena()
    arena.prepare(arrays)

    with pytest.raises(ValueError, match="broadcast"):
        copy_all(arena, {**arrays, "b": np.full(8, 1)})


def test_arrays_are_copied_in_turns_of_bounded_size():
    arrays = {f"s{number}": np.full(2, number) for number in range(2_500)}
    arrays |= {f"l{number}": np.full(1 << 18, number) for number in range(3)}
    arena = Arena()
    copied = copies(arena, arrays)

    assert [name for names in arena.turns for name in names] == list(arrays)
    assert [len(names) for names in arena.turns] == [1024, 1024, 452, 1, 1, 1]
    assert all(same_bits(copied[name], array) for name, array in arrays.items())


def test_a_set_that_fits_takes_no_new_memory_and_a_larger_one_takes_its_size():
    arena = Arena()
    copies(arena, {"w": np.zeros(1 << 16)})
    size = arena.size_bytes

    copied = copies(arena, {"v": np.arange(1 << 10), "u": np.ones((4, 4), np.float32)})
    assert arena.size_bytes == size
    assert same_bits(copied["v"], np.arange(1 << 10))

    copies(arena, {"w": np.zeros(1 << 17)})
    assert arena.size_bytes == 8 << 17


def test_small_arrays_of_one_size_are_one_piece_of_memory_in_their_order():
    arrays = {name: np.full((2, 5), number, "<i4") for number, name in enumerate("abcd")}
    arrays = {"a": arrays.pop("a"), "large": np.zeros(1 << 14), **arrays}
    # 40 bytes begin at each 48th.
    even = {name: np.full((2, 4), number, "<i4") for number, name in enumerate("abcd")}
    arena, gaps = Arena(), Arena()
    copies(arena, {"large": np.zeros(1 << 14), **even})
    copies(gaps, arrays)

    assert arena.adjacent(["a", "b", "c", "d"], 32).tobytes() == b"".join(even.values())
    assert arena.adjacent(["b", "c"], 32).tobytes() == even["b"].tobytes() + even["c"].tobytes()
    for names in (["b", "a"], ["a", "c"], ["d", "large"], ["d", "none"], ["none"]):
        assert arena.adjacent(names, 32) is None
    assert gaps.adjacent(["a", "b"], 40) is None


def test_large_arrays_begin_at_a_page():
    copied = copies(Arena(), {"odd": np.zeros(3, np.int8), "w": np.zeros(1 << 14)})

    assert address(copied["w"]) % mmap.PAGESIZE == 0


def test_an_arena_that_grows_frees_its_memory_before_it_takes_more(monkeypatch):
    taken = []

    def map_memory(size):
        assert all(reference() is None for reference in taken)
        memory = direct_io.map_memory(size)
        taken.append(weakref.ref(memory))
        return memory

    monkeypatch.setattr(snapshot_arena, "map_memory", map_memory)
    arena = Arena()
    for size in (1_000, 10_000, 1_000_000):
        copies(arena, {"small": np.ones(500), "other": np.ones(size)})

    assert len(taken) == 3
