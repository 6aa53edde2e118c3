from __future__ import annotations

import numpy as np
import pytest

from jobrun.checkpoint.write.encoder import build_encoder, flat_bytes
from tests.support.checkpoints import VALUES
from tests.support.tables import each_case

STATE = {"w": np.zeros((3, 4)), "k": 1, "text": "abc", "b": np.zeros(5, ">f4")}


def test_values_of_the_layout_are_given_as_they_are_stored():
    program, _ = build_encoder(STATE)
    other = {"w": np.ones((3, 4)), "k": 9, "text": "xyz", "b": np.ones(5, ">f4")}

    arrays = program.arrays(other)

    by_name = dict(zip((entry.name for entry in program.layout.entries), arrays, strict=True))
    assert by_name["w"] is other["w"]
    assert int(by_name["k"]) == 9


@each_case(
    "change",
    [
        {"w": np.zeros((4, 3))}, {"w": np.zeros((3, 4), np.float32)}, {"w": 1.0}, {"k": 1.0},
        {"k": 2**70}, {"text": "longer"}, {"b": np.zeros(5, "<f4")}, {"more": 1},
        {"w": np.float64(3)}, {"k": np.int64(1)},
    ],
)  # fmt: skip
def test_values_of_another_layout_are_not_taken(change):
    program, _ = build_encoder(STATE)

    assert program.arrays({**STATE, **change}) is None
    assert program.arrays({name: STATE[name] for name in ("w", "k", "text")}) is None


def test_another_set_of_as_many_names_is_another_layout():
    program, _ = build_encoder({"a": 1, "b": np.zeros(3)})

    assert program.arrays({"a": 1, "c": np.zeros(3)}) is None
    assert program.arrays({"c": 1, "b": np.zeros(3)}) is None


def test_every_kind_of_value_has_a_program():
    program, arrays = build_encoder(VALUES)

    assert len(arrays) == len(program.layout.entries) == len(VALUES)
    assert program.parts.tail < program.most_bytes


@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3).T, np.arange(9)[::2], np.array(3)])
def test_bytes_are_those_in_c_order(array):
    assert flat_bytes(array).tobytes() == array.tobytes()


def test_an_array_in_c_order_is_not_copied():
    array = np.arange(12.0).reshape(3, 4)

    assert np.shares_memory(flat_bytes(array), array)
