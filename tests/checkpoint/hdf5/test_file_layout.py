from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.checkpoint.hdf5.file_layout import (
    ALIGNMENT,
    PAGE,
    PAGED_BYTES,
    Layout,
    Packing,
    build_entries,
)
from jobrun.checkpoint.hdf5.value_codec import encode

SIZES = st.one_of(st.integers(0, 300), st.integers(PAGED_BYTES - 9, PAGED_BYTES + 9))


def layout_of(values, **more) -> Layout:
    return Layout.of(
        build_entries({name: encode(value, name) for name, value in values.items()}, **more)
    )


@given(st.lists(SIZES, max_size=12), st.integers(4096, 9000))
def test_no_two_blobs_overlap_and_large_ones_begin_at_a_page(sizes, start):
    layout = layout_of({f"b{n:02d}": np.zeros(size, np.uint8) for n, size in enumerate(sizes)})

    offsets, end = layout.places(start)

    spans = sorted(
        (int(at), int(at + size)) for at, size in zip(offsets, sizes, strict=True) if size
    )
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    assert all(start <= begin and last <= end for begin, last in spans)
    for at, size in zip(offsets.tolist(), sizes, strict=True):
        assert at % (PAGE if size >= PAGED_BYTES else ALIGNMENT) == 0
        assert size or at == 0


def test_the_order_of_names_is_that_of_their_bytes_whatever_came_first():
    names = ["b", "a", "é", "Z", "a/b", "\x00"]

    layout = layout_of(dict.fromkeys(names, 1))

    assert list(layout.quoted_names) == sorted(layout.quoted_names)
    assert {entry.name for entry in layout.entries} == set(names)
    assert layout == layout_of(dict.fromkeys(reversed(names), 1))


@pytest.mark.parametrize(
    "other",
    [
        {"w": np.zeros(3), "k": 1, "v": 2},
        {"w": np.zeros(4), "k": 1},
        {"k": 1},
        {"w": np.zeros(3, np.float32), "k": 1},
        {"w": np.zeros(3), "k": 1.0},
        {"w": np.zeros(3), "l": 1},
    ],
)
def test_different_name_kind_dtype_or_shape_is_another_layout(other):
    assert layout_of(other).digest != layout_of({"w": np.zeros(3), "k": 1}).digest


def test_other_contents_are_the_same_layout():
    assert (
        layout_of({"w": np.ones(3), "k": 5}).digest == layout_of({"w": np.zeros(3), "k": 1}).digest
    )


def test_origin_of_a_blob_is_part_of_the_layout():
    values = {"w": np.zeros(3)}

    assert layout_of(values, origins={"w": "a.yaml:3:1"}).digest != layout_of(values).digest


def test_the_position_of_a_reader_has_its_role():
    roles = {entry.name: entry.role for entry in layout_of({"readers/x": 1, "w": 2}).entries}

    assert roles == {"readers/x": "reader", "w": "state"}


def test_the_text_of_the_index_has_each_type_once():
    layout = layout_of({f"w{n}": np.zeros(3) for n in range(50)} | {"k": 1})

    assert json.loads(layout.text) == {
        "chunked": {},
        "types": [["int", "<i8", []], ["array", "<f8", [3]]],
    }
    assert len(layout.type_numbers) == 51


def test_compressed_blobs_have_no_place_of_their_own():
    layout = layout_of(
        {"w": np.zeros(99), "v": np.zeros(5)}, packings={"w": Packing("deflate", (50,), 2)}
    )

    assert layout.chunk_count == 2
    assert layout.packed == [1]
    assert int(layout.places(4096)[0][1]) == 0
