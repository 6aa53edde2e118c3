"""Arrays of one value that share memory do so in each copy of it, and after a load."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jobrun
from jobrun.checkpoint.blob_parts import flatten_values
from jobrun.checkpoint.checkpoint_file import read_state
from jobrun.checkpoint.write.writer import write_state
from jobrun.values.compare import find_difference, same_bits
from jobrun.values.container_flattening import flatten, unflatten
from jobrun.values.copies import boundary_form, detach
from jobrun.values.overlapping_arrays import lay_out

TABLE = np.dtype([("n", "i4"), ("x", "f8")])


class Slotted:
    __slots__ = ("head", "whole")

    def __init__(self, whole):
        self.whole, self.head = whole, whole[:2]


jobrun.adapt(Slotted)


def _kinds() -> dict[str, Any]:
    buf, table = np.arange(24.0).reshape(4, 6), np.zeros(4, TABLE)
    wide = np.asfortranarray(buf)
    cells = np.empty(2, object)
    cells[:] = [buf[0], buf]
    cyclic: list[Any] = [buf[1:3]]
    cyclic.append({"same": cyclic[0], "buf": buf})
    return {
        "views": [buf, buf[1], buf[:, ::-2], buf.T],
        "two parts of an array that is not there": [buf[:3], buf[1:]],
        "other dtypes": [buf, buf.view(np.int64), buf.reshape(-1).view(np.uint8)[3:40]],
        "Fortran order": {"w": wide, "column": wide[:, 1]},
        "rows with fields": {"table": table, "row": table[1], "x": table["x"]},
        "slots": Slotted(buf[2]),
        "objects": {"cells": cells},
        "one array at two places": cyclic,
        "a chain": [buf[0, :3], buf[0, 2:5], buf[0, 4:]],
    }


def _sharing(value: Any) -> list[tuple[int, int]]:
    leaves = [np.asarray(leaf) for leaf in flatten(value).leaves.values()]
    return [
        (at, to)
        for at, leaf in enumerate(leaves)
        for to, other in enumerate(leaves[:at])
        if np.shares_memory(leaf, other)
    ]


def _stored(value: Any, path: Any) -> Any:
    at: Any = {"node": "n", "epoch": 1, "run_id": "r"}
    file: Any = write_state(str(path), **at, values=flatten_values({"value": value}))
    return read_state(str(path), **at, digest=file.digest, names=["value"])["value"]


@pytest.mark.parametrize("kind", list(_kinds()))
def test_sharing_inside_a_value_is_in_its_copies_and_after_a_load(kind, tmp_path):
    value = _kinds()[kind]
    wanted = _sharing(value)
    assert wanted
    for copy in (detach(value), boundary_form(detach(value)), _stored(value, tmp_path / "s.h5")):
        assert _sharing(copy) == wanted
        assert same_bits(copy, value)
        assert find_difference(value, copy) is None
        ours, theirs = (list(flatten(tree).leaves.values()) for tree in (value, copy))
        assert not any(map(np.shares_memory, ours, theirs))


def test_a_change_of_one_array_is_one_of_the_other(tmp_path):
    buf = np.arange(6.0)
    loaded = _stored({"buf": buf, "tail": buf[:3:-1]}, tmp_path / "s.h5")
    loaded["tail"][0] = -1

    assert loaded["buf"].tolist() == [0, 1, 2, 3, 4, -1]


def test_a_row_of_a_loaded_table_is_a_view_of_it():
    table = np.zeros(2, TABLE)
    copy = detach({"row": table[1], "table": table})
    copy["table"]["n"][1] = 7

    assert copy["row"]["n"] == 7


def test_arrays_that_lie_between_each_other_without_sharing_are_apart():
    buf = np.arange(6.0)
    copy = detach([buf[::2], buf[1::2]])

    assert all(value.flags.owndata for value in copy)


def test_lost_sharing_is_a_difference():
    buf = np.arange(6.0)
    differs = find_difference([buf, buf[:2]], [buf, buf[:2].copy()])

    assert differs is not None
    assert differs.what == "sharing"
    assert not same_bits([buf, buf[:2]], [buf, buf[:2].copy()])


@pytest.mark.parametrize(
    "layout",
    [
        [[1 << 60, [[["a"], 0, [8]]]]],
        [[8, [[["a"], 0, [8]]]]],
        [[24, [[["a"], -8, [8]]]]],
        [[24, [[["b"], 0, [8]]]]],
        [[24, [[["a"], 0, ["x"]]]]],
    ],
)
def test_a_layout_that_does_not_fit_is_refused(layout):
    parts = flatten([np.zeros(3)])
    structure = {"memory": layout, "of": {"list": ["value"]}}

    with pytest.raises(ValueError, match=r"gaps|small|cannot be read|strides|offset|negative"):
        unflatten(structure, {("a",): parts.leaves["0",]})


def test_arrays_are_laid_out_at_their_offsets():
    placed = lay_out(
        [[24, [[["a"], 0, [8]], [["b"], 8, [8]]]]],
        {("a",): np.arange(3.0), ("b",): np.arange(1.0, 3.0)},
    )

    assert placed["a",].tolist() == [0, 1, 2]
    assert np.shares_memory(placed["a",], placed["b",])
